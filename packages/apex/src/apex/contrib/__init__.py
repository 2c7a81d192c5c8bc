"""Additions to apex: combined tensors and a cross entropy. Other names of NVIDIA's contrib raise ImportError."""

import importlib.abc
import sys
from typing import Any

_NOT_OFFERED = {
    "bottleneck": "torchvision.models.resnet.Bottleneck",
    "clip_grad": "torch.nn.utils.clip_grad_norm_ or clip_optimizer_grad_norm_fused of the NpuFused optimizers",
    "conv_bias_relu": "torch.nn.Conv2d and torch.nn.ReLU",
    "fmha": "torch.nn.functional.scaled_dot_product_attention",
    "focal_loss": "torchvision.ops.sigmoid_focal_loss",
    "group_norm": "torch.nn.GroupNorm",
    "groupbn": "apex.parallel.SyncBatchNorm",
    "index_mul_2d": "indexing and multiplication",
    "layer_norm": "apex.normalization.FusedLayerNorm",
    "multihead_attn": "torch.nn.MultiheadAttention",
    "optimizers": "apex.optimizers",
    "sparsity": "torch.nn.utils.prune",
    "transducer": "torchaudio.transforms.RNNTLoss",
}


class _Refusal(importlib.abc.MetaPathFinder):
    """Gives `import apex.contrib.NAME` a message for the names that are not offered."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        name = fullname.removeprefix(__name__ + ".").split(".")[0]
        if fullname.startswith(__name__ + ".") and name in _NOT_OFFERED:
            raise ImportError(f"{__name__}.{name} is not offered for npu: use {_NOT_OFFERED[name]}", name=fullname)


sys.meta_path.insert(0, _Refusal())
