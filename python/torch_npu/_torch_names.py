"""Names that modules and classes of torch have besides those that torch makes for every device.

torch.version.cann                            # loads the device library
torch.distributed.is_hccl_available()         # of torch_npu.distributed, as reinit_process_group is
torch.autograd.profiler.profile(use_npu=True) # use_device="npu"
torch.compiler.npugraph_mark_step_begin()     # does nothing
model.cast_weight("npu:0")                    # does nothing
packed_sequence.npu("npu:1")                  # torch's own, but a device that is not npu is refused
torch.nn.LazyLinear(3).npu()                  # before its parameters are made, too
torch.set_default_tensor_type("torch.npu.FloatTensor")   # see _default_tensor_type.py
torch.amp.GradScaler("npu").update(1024.0)     # clears the overflow flags, as update() does
print(tensor)                                 # formatted on the host: torch does so in float64, which no chip has
"""

import functools
import importlib

import torch

from . import _C, _default_tensor_type, npu
from ._offer import no_op


def register():
    torch.version.__getattr__ = _of_version
    torch.distributed.__getattr__ = _of_distributed
    torch.autograd.profiler.profile.__init__ = _with_use_npu(torch.autograd.profiler.profile.__init__)
    torch.compiler.npugraph_mark_step_begin = npugraph_mark_step_begin
    torch.nn.Module.cast_weight = cast_weight
    torch.nn.utils.rnn.PackedSequence.npu = _to_npu_only(torch.nn.utils.rnn.PackedSequence.npu)
    torch.nn.parameter.UninitializedTensorMixin._allowed_methods.append(torch.Tensor.npu)
    torch.set_default_tensor_type = _default_tensor_type.with_npu(torch.set_default_tensor_type)
    torch.amp.GradScaler.update = _clearing_flags(torch.amp.GradScaler.update)
    torch._tensor_str._Formatter.__init__ = _on_host(torch._tensor_str._Formatter.__init__)


def _of_version(name):
    if name == "cann":
        return _C._get_cann_version("CANN")
    raise AttributeError(f"module 'torch.version' has no attribute {name!r}")


def _of_distributed(name):
    if name in ("is_hccl_available", "reinit_process_group"):
        return getattr(importlib.import_module("torch_npu.distributed"), name)
    raise AttributeError(f"module 'torch.distributed' has no attribute {name!r}")


def _clearing_flags(update):
    """torch's own update() clears the flags in the operator that changes the scale, which a given scale does not need."""

    @functools.wraps(update)
    def clearing(self, new_scale=None):
        update(self, new_scale)
        is_given = self._enabled and new_scale is not None
        if is_given and self._scale.device.type == "npu" and not npu.utils.is_support_inf_nan():
            _C._npu_clear_overflow_flags()

    return clearing


def _on_host(init):
    """The constructor of a class that looks at the values of a tensor: it gets a copy on the host."""

    @functools.wraps(init)
    def __init__(self, tensor):
        init(self, tensor.cpu() if tensor.device.type == "npu" else tensor)

    return __init__


def _with_use_npu(init):
    @functools.wraps(init)
    def __init__(self, *args, use_npu=False, **kwargs):
        if use_npu:
            kwargs["use_device"] = "npu"
        init(self, *args, **kwargs)

    return __init__


@no_op("torch.compile captures no NPU graphs, so that no step of theirs begins")
def npugraph_mark_step_begin():
    """Says that a new step of a training or of an inference begins."""


@no_op("softnpu computes in every format, so that weights keep theirs")
def cast_weight(self, device):
    """Gives the weights of a module the formats in which a device computes."""
    if device is not None and not isinstance(device, int):
        torch.device(device)


def _to_npu_only(method):
    @functools.wraps(method)
    def to_npu(self, *args, **kwargs):
        device = kwargs.get("device", args[0] if args else None)
        if isinstance(device, (str, torch.device)):
            npu._utils._get_device_index(device)
        return method(self, *args, **kwargs)

    return to_npu
