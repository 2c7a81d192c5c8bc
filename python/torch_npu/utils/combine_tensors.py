"""Combines tensors: they become views of one flat tensor, so that one operator works on all of them.

    flat = npu_combine_tensors([a, b])     # a and b are now views of flat, with the same shapes, strides and values
    flat.zero_()                           # a and b are zero too
    get_part_combined_tensor(flat, a.numel(), b.numel())     # the part of b, flat

Earlier views of `a` keep the old memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import torch

_data_ptr, _is_contiguous = torch._C.TensorBase.data_ptr, torch._C.TensorBase.is_contiguous


def npu_combine_tensors(list_of_tensor: Iterable[torch.Tensor], require_copy_value: bool = True) -> torch.Tensor | None:
    """The flat tensor, or None if there are no elements. With require_copy_value=False all values become zero."""
    tensors = list(list_of_tensor)
    _check(tensors)
    if not sum(tensor.numel() for tensor in tensors):
        return None
    first = tensors[0]
    combined = torch.zeros(sum(tensor.numel() for tensor in tensors), dtype=first.dtype, device=first.device)
    move_into(combined, tensors, copy=require_copy_value)
    if not require_copy_value:
        torch.autograd.graph.increment_version(tensors)
    return combined


def get_part_combined_tensor(combined_tensor: torch.Tensor | None, index: int, size: int) -> torch.Tensor | None:
    """`size` elements starting at `index`, as a flat view; None if there are none."""
    if combined_tensor is None or size == 0:
        return None
    if index < 0 or size < 0 or index + size > combined_tensor.numel():
        raise RuntimeError(
            f"the combined tensor has {combined_tensor.numel()} elements, but {index} to {index + size} were asked for"
        )
    return combined_tensor.view(-1)[index : index + size]


def is_combined_tensor_valid(combined_tensor: torch.Tensor | None, list_of_tensor: Sequence[torch.Tensor | None]) -> bool:
    """Whether all of these tensors are in the memory of the combined one."""
    if not list_of_tensor:
        return True
    if combined_tensor is None:
        return False
    begin, end = _range(combined_tensor)
    whole = combined_tensor.untyped_storage().nbytes() == end - begin
    # The usual case by maps of C functions, since amp asks this at every step: all are contiguous, and an address within the
    # whole of an allocation is that of a part of it.
    if whole and type(None) not in map(type, list_of_tensor) and all(map(_is_contiguous, list_of_tensor)):
        addresses = list(map(_data_ptr, list_of_tensor))
        if begin <= min(addresses) and max(addresses) < end:
            return True
    return all(tensor is not None and _is_within(tensor, begin, end) for tensor in list_of_tensor)


@torch.no_grad()
def move_into(combined: torch.Tensor, tensors: Sequence[torch.Tensor], copy: bool = True) -> None:
    """Makes dense tensors consecutive views of a flat one."""
    views = split_like(combined, tensors)
    if copy and views:
        torch._foreach_copy_(views, [tensor.detach() for tensor in tensors])
    for tensor, view in zip(tensors, views, strict=True):
        tensor.data = view


def split_like(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Consecutive views of a flat tensor, with the shapes and strides of dense tensors."""
    views, offset = [], flat.storage_offset()
    for tensor in tensors:
        views.append(flat.as_strided(tensor.shape, tensor.stride(), offset))
        offset += tensor.numel()
    return views


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill a range of memory without gaps, in any order of the dimensions."""
    return tensor.is_contiguous() or torch.empty_like(tensor, device="meta").stride() == tensor.stride()


def first_overlap(tensors: Sequence[torch.Tensor]) -> tuple[int, int] | None:
    """The numbers of two of these tensors that share memory, if there are any. Only dense tensors are looked at."""
    ranges = sorted((*_range(tensor), index) for index, tensor in enumerate(tensors) if tensor.numel() and is_dense(tensor))
    for (_, end, one), (begin, _, other) in itertools.pairwise(ranges):
        if begin < end:
            return min(one, other), max(one, other)
    return None


def _range(dense: torch.Tensor) -> tuple[int, int]:
    begin = dense.data_ptr()
    return begin, begin + dense.numel() * dense.element_size()


def _is_within(tensor: torch.Tensor, begin: int, end: int) -> bool:
    if not tensor.numel():
        return True
    first, last = _range(tensor)
    return begin <= first and last <= end and is_dense(tensor)


def _check(tensors: Sequence[torch.Tensor]) -> None:
    for index, tensor in enumerate(tensors):
        if not isinstance(tensor, torch.Tensor):
            raise RuntimeError(f"tensors to combine must be tensors, but number {index} is {tensor!r}")
        if tensor.device.type != "npu":
            raise RuntimeError(f"tensors to combine must be on npu, but number {index} is on {tensor.device}: move it by .npu()")
        first = tensors[0]
        if (tensor.dtype, tensor.device) != (first.dtype, first.device):
            raise RuntimeError(
                f"tensors to combine must have one dtype and device, but number 0 is {first.dtype} on {first.device}, "
                f"number {index} is {tensor.dtype} on {tensor.device}"
            )
        if not is_dense(tensor):
            raise RuntimeError(f"tensors to combine must be contiguous, but number {index} has the strides {tensor.stride()}")
    overlap = first_overlap(tensors)
    if overlap:
        raise RuntimeError(
            f"tensors to combine must not share memory, but numbers {overlap[0]} and {overlap[1]} do: clone one of them"
        )
