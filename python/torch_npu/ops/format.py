"""Formats: the memory layouts of hardware. In softnpu a format is only a label; the layout is always that of the strides.

    x = torch_npu.npu_format_cast(x, torch_npu.Format.FRACTAL_NZ)
    torch_npu.get_npu_format(x)                     # Format.FRACTAL_NZ, and x has the same values and strides as before

A cast is a copy with a new label; a cast in place only changes the label. The label belongs to the storage: views share it,
results of operators do not have it. The default depends on the rank: NCHW for four dimensions, NCDHW for five, ND for others. A
format that the rank does not allow is replaced by that default, with a warning. torch.compile drops formats; torch.save keeps
private ones.
"""

import math
import warnings

import torch

from .._api_status import no_op
from ..npu._format import PRIVATE, Format
from ._define import PUBLIC, check, op

_RANKS = {
    Format.NCHW: (4,),
    Format.NHWC: (4,),
    Format.NC1HWC0: (4,),
    Format.NC1HWC0_C04: (4,),
    Format.FRACTAL_Z: (4,),
    Format.HWCN: (4,),
    Format.NDHWC: (5,),
    Format.NCDHW: (5,),
    Format.NDC1HWC0: (5,),
    Format.FRACTAL_Z_3D: (5,),
    Format.NC: (2,),
    Format.NCL: (3,),
}
_FRACTAL = {
    Format.FRACTAL_NZ: None,
    Format.FRACTAL_NZ_C0_16: 16,
    Format.FRACTAL_NZ_C0_32: 32,
    Format.FRACTAL_NZ_C0_2: 2,
    Format.FRACTAL_NZ_C0_4: 4,
    Format.FRACTAL_NZ_C0_8: 8,
}
_NEW = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, int acl_format=2"


@op(
    "npu_format_cast(Tensor self, int acl_format, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor",
    called=lambda self, acl_format, customize_dtype=None: ...,
)
def npu_format_cast(self, acl_format, *, customize_dtype=None, input_dtype=None):
    """A copy of the tensor in a format (a number, a torch_npu.Format, or that of another tensor); itself if it has that
    format."""
    goal = _checked(self, acl_format, "npu_format_cast")
    return self if goal == _format(self) else _named(self.clone(), goal)


@op("npu_format_cast.Tensor(Tensor self, Tensor dst, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor")
def npu_format_cast_like(self, dst, *, customize_dtype=None, input_dtype=None):
    return npu_format_cast(self, _format(dst))


@op("npu_format_cast_(Tensor(a!) self, Tensor src, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor(a!)")
def npu_format_cast_(self, src, *, customize_dtype=None, input_dtype=None):
    """npu_format_cast in place: changes the format of the storage. src is a format, or a tensor with it."""
    return _named(self, _checked(self, _format(src), "npu_format_cast_"))


@op(
    "npu_format_cast_.acl_format(Tensor(a!) self, int acl_format, *, int? customize_dtype=None, int? input_dtype=None)"
    " -> Tensor(a!)"
)
def npu_format_cast_number_(self, acl_format, *, customize_dtype=None, input_dtype=None):
    return _named(self, _checked(self, acl_format, "npu_format_cast_"))


@op("_npu_format_cast(Tensor self, int acl_format) -> Tensor")
def _npu_format_cast(self, acl_format):
    """npu_format_cast."""
    return npu_format_cast(self, acl_format)


@op("_npu_format_cast.aclnn(Tensor self, int acl_format, int customize_dtype) -> Tensor")
@op("_npu_format_cast.input_dtype(Tensor self, int acl_format, int customize_dtype, int input_dtype) -> Tensor")
def _npu_format_cast_of(self, acl_format, customize_dtype, input_dtype=None):
    """npu_format_cast with the data type that determines the padding; the values do not change."""
    return npu_format_cast(self, acl_format, customize_dtype=customize_dtype, input_dtype=input_dtype)


@op("get_npu_format(Tensor self) -> int")
def get_npu_format_number(self):
    return int(_format(self))


def get_npu_format(self):
    """The torch_npu.Format of a tensor on npu."""
    _on_npu(self, "get_npu_format")
    return _format(self)


PUBLIC["get_npu_format"] = get_npu_format


@op(f"empty_with_format(int[] size, {_NEW}, int? base_addr_aligned_kb=None) -> Tensor")
def empty_with_format(size, *, dtype=None, layout=None, device=None, pin_memory=None, acl_format=2, base_addr_aligned_kb=None):
    """torch.empty on npu, in a format."""
    check(layout in (None, torch.strided), "empty_with_format", f"layout is torch.strided, not {layout}")
    x = torch.empty(size, dtype=dtype, device="npu" if device is None else device)
    return _named(x, _checked(x, acl_format, "empty_with_format"))


@op(f"unsafe_empty_with_format(int[] size, {_NEW}, bool keep_format=False) -> Tensor")
def unsafe_empty_with_format(size, *, dtype=None, layout=None, device=None, pin_memory=None, acl_format=2, keep_format=False):
    """empty_with_format."""
    return empty_with_format(size, dtype=dtype, layout=layout, device=device, acl_format=acl_format)


@op("empty_with_swapped_memory(int[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor")
def empty_with_swapped_memory(size, *, dtype=None, device=None):
    """torch.empty on npu. Hardware would place it in host memory, where softnpu has every tensor."""
    return torch.empty(size, dtype=dtype, device="npu" if device is None else device)


@op("get_storage_size(Tensor self) -> int")
def get_storage_size(self):
    """The number of elements of the storage in the tensor's format, including padding."""
    _on_npu(self, "get_storage_size")
    return math.prod(_padded(self.shape, _format(self), self.element_size()))


@op("copy_memory_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)")
def copy_memory_(self, src, non_blocking=False):
    """Copies a tensor of the same dtype and number of elements, on the same device."""
    name = "copy_memory_"
    check(self.dtype == src.dtype, name, f"{src.dtype} cannot be copied as memory of {self.dtype}; use copy_")
    check(self.device == src.device, name, f"{src.device} is not the device {self.device}; use copy_")
    check(self.numel() == src.numel(), name, f"{src.numel()} elements are not {self.numel()}")
    return self.copy_(src.reshape(self.shape), non_blocking)


@op("npu_change_data_ptr(Tensor dst, Tensor src, int index) -> int")
def npu_change_data_ptr(dst, src, index):
    """Makes dst a view of src's storage, starting at element `index`. Returns 0."""
    name = "npu_change_data_ptr"
    check(dst.dtype == src.dtype, name, f"dst is {dst.dtype}, but src is {src.dtype}")
    check(dst.device == src.device, name, f"dst is on {dst.device}, but src on {src.device}")
    room = src.untyped_storage().nbytes() // src.element_size()
    end = index + (
        1 + sum((size - 1) * stride for size, stride in zip(dst.shape, dst.stride(), strict=True)) if dst.numel() else 0
    )
    check(index >= 0 and end <= room, name, f"elements {index} to {end} are not inside of the {room} of src")
    with torch.no_grad():
        dst.set_(src.untyped_storage(), index, dst.shape, dst.stride())
    return 0


@no_op("a block is reused only after the streams that used it have finished")
def erase_stream(tensor, stream):
    """Undoes Tensor.record_stream: the stream no longer uses the tensor's memory."""
    _on_npu(tensor, "erase_stream")
    if not isinstance(stream, torch.Stream):
        raise TypeError(f"erase_stream takes a stream, not {type(stream).__name__}")


def _on_npu(x, operator):
    if x.device.type != "npu":
        raise RuntimeError(
            f"{operator}: formats and storages are of tensors on npu, but this one is on {x.device}; write x.npu()"
        )


def _format(x):
    known = getattr(x.untyped_storage(), "_npu_format", None)
    if known is not None:
        return known
    return {4: Format.NCHW, 5: Format.NCDHW}.get(x.dim(), Format.ND)


def _checked(x, number, operator):
    _on_npu(x, operator)
    try:
        goal = Format(number)
    except ValueError:
        raise ValueError(f"{operator}: {number} is no format; torch_npu.Format has {', '.join(Format.__members__)}") from None
    check(goal != Format.UNDEFINED, operator, "a tensor cannot be cast to Format.UNDEFINED")
    if _fits(x, goal):
        return goal
    base = {4: Format.NCHW, 5: Format.NCDHW}.get(x.dim(), Format.ND)
    warnings.warn(f"a tensor of {x.dim()} dimensions has no format {goal.name}; it is {base.name}", stacklevel=4)
    return base


def _fits(x, format):
    return x.dim() >= 2 if format in _FRACTAL else x.dim() in _RANKS.get(format, (x.dim(),))


def restore_format(x, number):
    """Sets the format of a tensor that was read from a file, if its rank allows it."""
    if number in PRIVATE and _fits(x, number):
        _named(x, Format(number))


def _named(x, goal):
    x.untyped_storage()._npu_format = goal
    return x


def _padded(shape, format, itemsize):
    """The shape of a storage in a format."""
    up = lambda n, unit: -(-n // unit)  # noqa: E731
    if format in _FRACTAL:
        unit = _FRACTAL[format] or 32 // min(itemsize, 2)
        *batch, rows, columns = shape
        return [*batch, up(columns, unit), up(rows, 16), 16, unit]
    if format in (Format.NC1HWC0, Format.NC1HWC0_C04):
        n, c, h, w = shape
        unit = 4 if format == Format.NC1HWC0_C04 else 16
        return [n, up(c, unit), h, w, unit]
    if format == Format.FRACTAL_Z:
        n, c, h, w = shape
        return [up(c, 16) * h * w, up(n, 16), 16, 16]
    if format == Format.NDC1HWC0:
        n, c, d, h, w = shape
        return [n, d, up(c, 16), h, w, 16]
    if format == Format.FRACTAL_Z_3D:
        n, c, d, h, w = shape
        return [d * up(c, 16) * h * w, up(n, 16), 16, 16]
    return shape
