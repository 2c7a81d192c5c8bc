"""Moves and selects elements."""

import torch
from torch.nn import functional

from .._api_status import no_op
from ._define import check, op


@op("npu_confusion_transpose(Tensor self, int[] perm, int[] shape, bool transpose_first) -> Tensor")
def npu_confusion_transpose(self, perm, shape, transpose_first):
    """The permuted tensor as shape, or (transpose_first False) the tensor as shape, permuted."""
    return self.permute(perm).reshape(shape) if transpose_first else self.reshape(shape).permute(perm).contiguous()


@op(
    "npu_transpose(Tensor self, int[] perm, bool require_contiguous=True) -> Tensor",
    called=lambda self, perm, require_contiguous=True, out=None: ...,
    out="*, Tensor(a!) out",
)
def npu_transpose(self, perm, require_contiguous=True):
    """The permuted tensor, copied."""
    return self.permute(perm).clone(memory_format=torch.contiguous_format)


@op("npu_slice(Tensor self, int[] offsets, int[] size) -> Tensor", out="*, Tensor(a!) out")
def npu_slice(self, offsets, size):
    """The slice that starts at offsets and has the given size; -1 means up to the end."""
    name = "npu_slice"
    check(len(offsets) == len(size) == self.dim(), name, f"{self.dim()} offsets and sizes, not {len(offsets)} and {len(size)}")
    for dim, (start, length) in enumerate(zip(offsets, size, strict=True)):
        length = self.size(dim) - start if length == -1 else length
        fits = 0 <= start <= start + length <= self.size(dim)
        check(fits, name, f"{start} to {start + length} is not inside of dimension {dim}, which has {self.size(dim)}")
        self = self.narrow(dim, start, length)
    return self.clone(memory_format=torch.contiguous_format)


@op(
    "npu_indexing(Tensor self, int[] begin, int[] end, int[] strides, int begin_mask=0, int end_mask=0, int ellipsis_mask=0,"
    " int new_axis_mask=0, int shrink_axis_mask=0) -> Tensor",
    out="*, Tensor(a!) out",
)
def npu_indexing(self, begin, end, strides, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0):
    """self[begin:end:strides], position by position. Bit i of a mask says of position i: it has no begin, has no end, is an
    ellipsis, is a new dimension, is the element `begin` instead of a slice."""
    name = "npu_indexing"
    check(len(begin) == len(end) == len(strides), name, f"{len(begin)} begins, {len(end)} ends and {len(strides)} strides")
    check(all(step != 0 for step in strides), name, "a stride is not 0")
    picks = []
    for i, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            picks.append(Ellipsis)
        elif new_axis_mask & bit:
            picks.append(None)
        elif shrink_axis_mask & bit:
            picks.append(first)
        else:
            picks.append(slice(None if begin_mask & bit else first, None if end_mask & bit else last, step))
    return _strided(self, picks).clone(memory_format=torch.contiguous_format)


@op("npu_pad(Tensor input, int[] paddings) -> Tensor", called=lambda input_, paddings: ...)
def npu_pad(input, paddings):
    """Pads with zeros before and after each dimension: (before 0, after 0, before 1, ...)."""
    check(
        len(paddings) == 2 * input.dim(),
        "npu_pad",
        f"{input.dim()} dimensions have {2 * input.dim()} paddings, not {len(paddings)}",
    )
    pairs = [paddings[i : i + 2] for i in range(0, len(paddings), 2)]
    return functional.pad(input, [n for pair in reversed(pairs) for n in pair])


@op("npu_reshape(Tensor self, int[] shape, bool can_refresh=False) -> Tensor", out="*, Tensor(a!) out")
def npu_reshape(self, shape, can_refresh=False):
    """The tensor as shape, copied."""
    return self.reshape(shape).clone()


@op("npu_broadcast(Tensor self, int[] size) -> Tensor", out="*, Tensor(a!) out")
def npu_broadcast(self, size):
    """The expanded tensor, copied."""
    return self.expand(size).contiguous()


@op("npu_stride_add(Tensor self, Tensor other, Scalar offset1, Scalar offset2, Scalar c1_len) -> Tensor")
def npu_stride_add(self, other, offset1, offset2, c1_len):
    """self starting at channel offset1 plus other starting at channel offset2, 16 * c1_len channels; missing channels are
    zeros."""
    length = 16 * int(c1_len)

    def part(x, offset):
        x = x[:, int(offset) : int(offset) + length]
        return functional.pad(x, [0, 0] * (x.dim() - 2) + [0, length - x.size(1)])

    check(self.dim() >= 2 and other.dim() >= 2, "npu_stride_add", "both tensors have channels, so two or more dimensions")
    return part(self, offset1) + part(other, offset2)


@op("npu_one_hot(Tensor self, int num_classes=-1, int depth=1, Scalar on_value=1, Scalar off_value=0) -> Tensor")
def npu_one_hot(self, num_classes=-1, depth=1, on_value=1, off_value=0):
    """float32: adds a dimension of depth elements, at the end or at num_classes: on_value at the index, off_value elsewhere."""
    hot = self.unsqueeze(-1) == torch.arange(depth, device=self.device, dtype=self.dtype)
    y = torch.where(hot, float(on_value), float(off_value)).to(torch.float32)
    return y if num_classes == -1 else y.movedim(-1, num_classes)


@op(
    "npu_max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    called=lambda self, dim, keepdim=False: ...,
)
def npu_max(self, dim, keepdim=False):
    """torch.max, with indices in int32."""
    values, indices = self.max(dim, keepdim)
    return values, indices.to(torch.int32)


@op("npu_min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
def npu_min(self, dim, keepdim=False):
    """torch.min, with indices in int32."""
    values, indices = self.min(dim, keepdim)
    return values, indices.to(torch.int32)


@op("npu_sort_v2(Tensor self, int dim=-1, bool descending=False) -> Tensor", out="*, Tensor(a!) out")
def npu_sort_v2(self, dim=-1, descending=False):
    """The sorted values."""
    return self.sort(dim, descending).values


@op("npu_scatter_nd_update(Tensor self, Tensor indices, Tensor updates) -> Tensor")
def npu_scatter_nd_update(self, indices, updates):
    """A copy of self with the updates at indices [..., d] of the first d dimensions."""
    return self.index_put(_places(self, indices, "npu_scatter_nd_update"), updates)


@op("npu_scatter_nd_update_(Tensor(a!) self, Tensor indices, Tensor updates) -> Tensor(a!)")
def npu_scatter_nd_update_(self, indices, updates):
    """npu_scatter_nd_update in place."""
    return self.index_put_(_places(self, indices, "npu_scatter_nd_update_"), updates)


@op("npu_scatter(Tensor self, Tensor indices, Tensor updates, int dim) -> Tensor")
def npu_scatter(self, indices, updates, dim):
    """A copy of self: for each position i of the other dimensions, element indices[i] of dim is updates[i]."""
    return self.scatter(dim, indices.long().unsqueeze(dim), updates.unsqueeze(dim))


@op("scatter_update(Tensor self, Tensor indices, Tensor updates, int axis) -> Tensor")
def scatter_update(self, indices, updates, axis):
    """A copy of self with the updates along the axis, for batch b starting at indices[b]."""
    return scatter_update_(self.clone(), indices, updates, axis)


@op("scatter_update_(Tensor(a!) self, Tensor indices, Tensor updates, int axis) -> Tensor(a!)")
def scatter_update_(self, indices, updates, axis):
    """scatter_update in place."""
    name = "scatter_update"
    check(indices.dim() == 1 and indices.numel() == self.size(0), name, f"indices are one per batch, {self.size(0)}")
    axis = axis % self.dim()
    check(axis > 0, name, "the axis is not that of the batch, 0")
    steps = torch.arange(updates.size(axis), device=self.device) + indices.long().unsqueeze(1)
    shape = [1] * self.dim()
    shape[0], shape[axis] = steps.shape
    return self.scatter_(axis, steps.view(shape).expand(updates.shape), updates)


@op("npu_sign_bits_pack(Tensor self, int size) -> Tensor")
def npu_sign_bits_pack(self, size):
    """uint8 [size, n]: a bit per element, lowest first, 1 if it is not negative. The last byte is padded with 0."""
    name = "npu_sign_bits_pack"
    check(self.dim() == 1 and self.is_floating_point(), name, "the input has one dimension and a floating type")
    bits = functional.pad((self >= 0).to(torch.int32), (0, -self.numel() % 8))
    packed = (bits.view(-1, 8) << torch.arange(8, device=self.device, dtype=torch.int32)).sum(1)
    check(packed.numel() % size == 0, name, f"{packed.numel()} bytes do not make {size} rows")
    return packed.to(torch.uint8).view(size, -1)


@op(
    "npu_sign_bits_unpack(Tensor input, int size, ScalarType dtype) -> Tensor",
    called=lambda inputs, size, dtype: ...,
)
def npu_sign_bits_unpack(input, size, dtype):
    """[size, n] of 1 and -1, one per bit of uint8, lowest first."""
    name = "npu_sign_bits_unpack"
    check(input.dtype == torch.uint8, name, f"the input is uint8, not {input.dtype}")
    bits = (input.flatten().to(torch.int32).unsqueeze(1) >> torch.arange(8, device=input.device, dtype=torch.int32)) & 1
    check(bits.numel() % size == 0, name, f"{bits.numel()} bits do not make {size} rows")
    return (bits * 2 - 1).view(size, -1).to(dtype)


@op("npu_gather_sparse_index(Tensor input, Tensor index) -> Tensor")
def npu_gather_sparse_index(input, index):
    """input[index]."""
    return input[index.long()]


@op("npu_prefetch(Tensor self, Tensor? dependency, int max_size, int offset=0) -> ()")
@no_op("softnpu has no second-level cache to fill")
def npu_prefetch(self, dependency, max_size, offset=0):
    """Does nothing: softnpu has no cache to prefetch into."""
    check(max_size > 0 and offset >= 0, "npu_prefetch", f"max_size {max_size} is more than 0, offset {offset} is not less")


@op("one_(Tensor(a!) self) -> Tensor(a!)")
def one_(self):
    """self.fill_(1)."""
    return self.fill_(1)


def _places(x, indices, operator):
    check(
        0 < indices.size(-1) <= x.dim(),
        operator,
        f"the last dimension of indices, {indices.size(-1)}, counts dimensions of the {x.dim()}",
    )
    return tuple(indices.long().unbind(-1))


def _strided(x, picks):
    """x[picks], with slices that may run backwards."""
    dim, turned = 0, []
    for pick in picks:
        if pick is Ellipsis:
            dim += x.dim() - sum(isinstance(other, (slice, int)) for other in picks)
            turned.append(pick)
            continue
        if isinstance(pick, slice) and pick.step < 0:
            places = list(range(x.size(dim)))[pick]
            x = x.index_select(dim, torch.tensor(places, dtype=torch.int64, device=x.device))
            pick = slice(None)
        turned.append(pick)
        dim += pick is not None
    return x[tuple(turned)]
