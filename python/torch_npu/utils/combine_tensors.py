"""Many tensors as one: combined, they lie side by side in one flat tensor, and one operator works on all of them.

    flat = npu_combine_tensors([a, b])     # a and b are now views of flat, with the shapes, strides and values that they had
    flat.zero_()                           # so are a and b
    get_part_combined_tensor(flat, a.numel(), b.numel())     # the part of b, flat

Whatever was a view of `a` before keeps its old memory.
"""

import torch


def npu_combine_tensors(list_of_tensor, require_copy_value=True):
    """The flat tensor, or None where there is no element. With require_copy_value=False all become zero."""
    tensors = list(list_of_tensor)
    _check(tensors)
    if not sum(tensor.numel() for tensor in tensors):
        return None
    first = tensors[0]
    combined = torch.zeros(sum(tensor.numel() for tensor in tensors), dtype=first.dtype, device=first.device)
    move_into(combined, tensors, copy=require_copy_value)
    return combined


def get_part_combined_tensor(combined_tensor, index, size):
    """`size` elements from `index` on, as a flat view; None where there is nothing."""
    if combined_tensor is None or size == 0:
        return None
    if index < 0 or size < 0 or index + size > combined_tensor.numel():
        raise RuntimeError(
            f"the combined tensor has {combined_tensor.numel()} elements, but {index} to {index + size} were asked for"
        )
    return combined_tensor.view(-1)[index : index + size]


def is_combined_tensor_valid(combined_tensor, list_of_tensor):
    """Whether all of these tensors lie in the combined one."""
    if not list_of_tensor:
        return True
    if combined_tensor is None:
        return False
    begin = combined_tensor.data_ptr()
    end = begin + combined_tensor.numel() * combined_tensor.element_size()
    return all(tensor is not None and begin <= tensor.data_ptr() < end and is_dense(tensor) for tensor in list_of_tensor)


@torch.no_grad()
def move_into(combined, tensors, copy=True):
    """Makes dense tensors views of a flat one, from its first element on."""
    views = split_like(combined, tensors)
    if copy and views:
        torch._foreach_copy_(views, [tensor.detach() for tensor in tensors])
    for tensor, view in zip(tensors, views, strict=True):
        tensor.data = view


def split_like(flat, tensors):
    """Views of a flat tensor, one after the other, with the shapes and strides of dense tensors."""
    views, offset = [], flat.storage_offset()
    for tensor in tensors:
        views.append(flat.as_strided(tensor.shape, tensor.stride(), offset))
        offset += tensor.numel()
    return views


def is_dense(tensor):
    """Whether its elements fill a range of memory, in any order of the dimensions."""
    return tensor.is_contiguous() or torch.empty_like(tensor, device="meta").stride() == tensor.stride()


def _check(tensors):
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
