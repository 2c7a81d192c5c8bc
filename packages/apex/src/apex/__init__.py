"""apex for torch_npu: mixed precision by amp, fused optimizers, and the layers of NVIDIA's package that torch has too.

from apex import amp

model, optimizer = amp.initialize(model, optimizer, opt_level="O2", combine_grad=True)
"""

from . import _refusals, amp, fp16_utils, multi_tensor_apply, normalization, optimizers, parallel

__version__ = "0.1+ascend"

__all__ = ["amp", "fp16_utils", "multi_tensor_apply", "normalization", "optimizers", "parallel"]

_refusals.install()
