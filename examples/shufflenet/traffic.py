"""Counts the data movement of a program: what the documents find with a profiler as Copy and TransData operators.

with Traffic() as traffic:
    step()
traffic.copies, traffic.strided, traffic.mixed, traffic.uploads
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_COPIES = {"cat", "clone", "copy_", "gather", "index_add", "index_add_", "index_select", "npu_format_cast", "stack"}
_KERNELS = {"convolution", "convolution_backward", "native_batch_norm", "native_batch_norm_backward", "threshold_backward"}


class Traffic(TorchDispatchMode):
    """Counters of operators between the start and the end of the context.

    copies: operators that only move data on the device.
    strided: tensors that convolutions, normalisations and ReLUs get in a layout that is not dense. Their kernels copy them first.
    mixed: such operators that get tensors of two layouts. They convert one of them.
    uploads: copies from the host to the device.
    """

    def __init__(self):
        super().__init__()
        self.copies = self.strided = self.mixed = self.uploads = 0

    def __torch_dispatch__(self, operator, types, arguments=(), options=None):
        result = operator(*arguments, **(options or {}))
        name = operator._overloadpacket.__name__
        if name == "_to_copy":
            self.uploads += arguments[0].device.type == "cpu" and result.device.type != "cpu"
        elif name in _COPIES:
            self.copies += 1
        elif name in _KERNELS:
            images = [x for x in arguments if isinstance(x, torch.Tensor) and x.dim() == 4 and min(x.shape[1:]) > 1]
            layouts = [_layout(x) for x in images]
            self.strided += layouts.count(None)
            self.mixed += len(set(layouts) - {None}) > 1
        return result


def _layout(x):
    """The layout of a dense tensor."""
    for layout in (torch.contiguous_format, torch.channels_last):
        if x.is_contiguous(memory_format=layout):
            return layout
    return None
