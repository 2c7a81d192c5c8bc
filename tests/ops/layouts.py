"""The layout axis: a tensor's values in other places of memory.

Each function returns a tensor with its argument's values in the layout of that name, or the argument if the layout does not
apply. The last three of LAYOUTS also change shape or values; the CPU then gives the expected result or refusal.
"""

import itertools

import torch

from .placement import is_plain


def _around(tensor):
    """The filler between values: a kernel that reads it gives a wrong result or finds an invalid index."""
    return float("nan") if tensor.dtype.is_floating_point else 0 if tensor.dtype == torch.bool else 113


def dense(tensor):
    return tensor.clone(memory_format=torch.contiguous_format)


def transposed(tensor):
    if tensor.dim() < 2:
        return tensor
    order = list(reversed(range(tensor.dim())))
    return tensor.permute(order).clone(memory_format=torch.contiguous_format).permute(order)


def sliced(tensor):
    if tensor.dim() == 0:
        return tensor
    buffer = tensor.new_full((*tensor.shape[:-1], 2 * tensor.shape[-1] + 1), _around(tensor))
    view = buffer[..., 1::2]
    return view.copy_(tensor)


def offset(tensor):
    buffer = tensor.new_full((tensor.numel() + 3,), _around(tensor))
    return buffer[3:].view(tensor.shape).copy_(tensor)


def expanded(tensor):
    """Expands the first value along the last dimension that has more than one element."""
    wide = [dim for dim, size in enumerate(tensor.shape) if size > 1]
    return tensor.narrow(wide[-1], 0, 1).clone().expand(tensor.shape) if wide else tensor


def zero_dim(tensor):
    return tensor.flatten()[0].clone() if tensor.dim() > 0 and tensor.numel() > 0 else tensor


def empty(tensor):
    return tensor.narrow(0, 0, 0).clone() if tensor.dim() > 0 and tensor.shape[0] > 0 else tensor


LAYOUTS = {function.__name__: function for function in (transposed, sliced, offset, expanded, zero_dim, empty)}


class Relaid:
    """A sample with its argument tensors in another layout. `changed`: whether any tensor changed."""

    def __init__(self, sample, function):
        self._function = function
        self._done = {}
        self.changed = False
        self.input, self.args, self.kwargs = torch.utils._pytree.tree_map(
            self._relay, (sample.input, tuple(sample.args), dict(sample.kwargs))
        )

    def _relay(self, value):
        if not isinstance(value, torch.Tensor) or not is_plain(value) or value.device.type != "cpu":
            return value
        if id(value) not in self._done:
            changed = self._function(value.detach())
            self.changed |= changed.data_ptr() != value.data_ptr() or changed.shape != value.shape
            # The value is kept alive, so that its id stays unique.
            self._done[id(value)] = (value, changed.requires_grad_(value.requires_grad))
        return self._done[id(value)][1]


def spread(samples, count, window=8):
    """At most `count` of the samples, evenly from the first `window * count` ones; a single one is the first."""
    samples = list(itertools.islice(samples, window * count if count > 1 else count))
    if len(samples) <= count:
        return samples
    step = (len(samples) - 1) / max(count - 1, 1)
    return [samples[round(index * step)] for index in range(count)]
