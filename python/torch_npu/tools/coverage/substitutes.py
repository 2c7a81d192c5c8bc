"""Operators that PyTorch calls on another device only, and the one that it calls on npu for the same function.

PyTorch chooses between them by the device of the tensors. So a record of a program on the CPU or on CUDA holds operators such as
mkldnn_convolution, which the same program never calls on npu.
"""

from __future__ import annotations

import re

# The patterns match whole names without the overload. Order matters: the first match is taken.
_INSTEAD = [
    (
        r"_scaled_dot_product_(flash|efficient|cudnn)_attention(_for_cpu)?_backward",
        "_scaled_dot_product_fused_attention_overrideable_backward",
    ),
    (r"_scaled_dot_product_(flash|efficient|cudnn)_attention(_for_cpu)?", "_scaled_dot_product_fused_attention_overrideable"),
    (r"_(flash|efficient|cudnn)_attention_forward", "_scaled_dot_product_fused_attention_overrideable"),
    (r"_(flash|efficient|cudnn)_attention_backward", "_scaled_dot_product_fused_attention_overrideable_backward"),
    (
        r"(mkldnn|_?cudnn|miopen|mps)_(transpose_|depthwise_)?conv\w*backward\w*|_slow_conv\w*backward",
        "convolution_backward_overrideable",
    ),
    (
        r"_?(mkldnn|cudnn|miopen|mps)_(transpose_|depthwise_)?conv\w*|_?slow_conv\w*|\w*_?conv_depthwise\w*",
        "convolution_overrideable",
    ),
    (r"(mkldnn_rnn_layer|_cudnn_rnn|miopen_rnn)_backward", "_thnn_fused_lstm_cell_backward_impl"),
    (r"mkldnn_rnn_layer|_cudnn_rnn|miopen_rnn", "lstm.input"),
    (r"(cudnn|miopen)_batch_norm_backward", "native_batch_norm_backward"),
    (r"(cudnn|miopen)_batch_norm", "native_batch_norm"),
    (r"cudnn_grid_sampler_backward", "grid_sampler_2d_backward"),
    (r"cudnn_grid_sampler", "grid_sampler_2d"),
    (r"_(cudnn|miopen)_ctc_loss", "_ctc_loss"),
    (r"_fused_dropout", "native_dropout"),
    (r"mkldnn_linear", "linear"),
    (r"mkldnn_max_pool2d", "max_pool2d_with_indices"),
]


def substitute(name: str) -> str | None:
    """The overload that PyTorch calls on npu in place of `name` (`aten::mkldnn_convolution`), or None."""
    space, _, rest = name.partition("::")
    if space != "aten":
        return None
    base = rest.partition(".")[0]
    return next((f"aten::{twin}" for pattern, twin in _INSTEAD if re.fullmatch(pattern, base)), None)
