"""Copies of a sample on a device, with the same values, strides, offsets, shared storages and surrounding memory.

there = Placement(sample, "npu")
result = there.call(op)
there.memory()      # all of each storage, as flat CPU tensors, in the order in which the sample names them
there.tensors()     # the tensors themselves, in the same order
"""

import contextlib

import torch
from torch.utils import _pytree


def is_plain(value):
    """Whether a tensor consists of storage, strides and offset only."""
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided and not (
        value.is_nested or value.is_quantized or value.is_conj() or value.is_neg()
    )  # fmt: skip


class Placement:
    """A sample's arguments on a device. Only tensors of the CPU move; an argument that names the CPU names the device instead."""

    def __init__(self, sample, device):
        self.device = device
        self._flat = {}
        self._tensors = {}
        self.input, self.args, self.kwargs = _pytree.tree_map(
            self._place, (sample.input, tuple(sample.args), dict(sample.kwargs))
        )

    def factories(self):
        """Context of a call: functions without tensor arguments create their results on the device."""
        return contextlib.nullcontext() if self._tensors else torch.device(self.device)

    def call(self, function, **more):
        with self.factories():
            return function(self.input, *self.args, **self.kwargs, **more)

    def call_of(self, function):
        return lambda: self.call(function)

    def differentiable(self):
        """The tensors that need a gradient, in order."""
        return [tensor for tensor in self._tensors.values() if tensor.requires_grad]

    def has_empty(self):
        return any(tensor.numel() == 0 for tensor in self._tensors.values())

    def memory(self):
        return [flat.cpu() for flat in self._flat.values()]

    def tensors(self):
        return list(self._tensors.values())

    def nbytes(self):
        """The sizes of the storages that memory() gives."""
        return [flat.nbytes for flat in self._flat.values()]

    def _place(self, value):
        if isinstance(value, torch.Tensor):
            if value.device.type != "cpu":
                return value
            if id(value) not in self._tensors:
                self._tensors[id(value)] = self._copy(value)
            return self._tensors[id(value)]
        if isinstance(value, torch.device) and value.type == "cpu":
            return torch.device(self.device)
        return self.device if isinstance(value, str) and value == "cpu" else value

    def _copy(self, tensor):
        if not is_plain(tensor):
            return tensor.detach().clone().to(self.device).requires_grad_(tensor.requires_grad)
        storage = tensor.untyped_storage()
        key = (storage._cdata, tensor.dtype)
        if key not in self._flat:
            flat = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (storage.nbytes() // tensor.element_size(),), (1,))
            self._flat[key] = flat.clone() if self.device == "cpu" else flat.to(self.device)
        copy = self._flat[key].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        return copy.requires_grad_(tensor.requires_grad)
