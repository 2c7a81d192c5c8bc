"""A model of every collective in one process: the inputs of all ranks give the outputs of all ranks.

Inputs and outputs are lists by rank of lists of CPU tensors. An output of None means that the operation does not define what the
rank gets. Values are never changed in place.
"""

import functools
import operator

import torch

# float16 and bfloat16 are combined in float32 and rounded once. PyTorch has no arithmetic of larger unsigned integers.
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
WIDER |= dict.fromkeys((torch.uint16, torch.uint32, torch.uint64), torch.int64)

COMBINE = {
    "sum": operator.add,
    "avg": operator.add,
    "premul_sum": operator.add,
    "product": operator.mul,
    "min": torch.minimum,
    "max": torch.maximum,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
}
# A sum of bools is true if one of them is, a product if all are.
COMBINE_BOOL = {**COMBINE, "sum": torch.logical_or, "product": torch.logical_and}

PREMUL_FACTOR = 0.5


def combine(tensors, reduction):
    """The reduction of tensors, in their order."""
    dtype = tensors[0].dtype
    table = COMBINE_BOOL if dtype == torch.bool else COMBINE
    wide = [tensor.to(WIDER.get(dtype, dtype)) for tensor in tensors]
    if reduction == "premul_sum":
        wide = [tensor * PREMUL_FACTOR for tensor in wide]
    result = functools.reduce(table[reduction], wide)
    if reduction == "avg" and dtype.is_complex:  # as pairs of real numbers, because complex division by 3 differs in the last bit
        result = torch.view_as_complex(torch.view_as_real(result) / len(tensors))
    elif reduction == "avg":
        result = torch.div(result, len(tensors), rounding_mode=None if dtype.is_floating_point else "trunc")
    return result.to(dtype)


def all_reduce(inputs, reduction):
    result = [combine(same, reduction) for same in zip(*inputs, strict=True)]
    return [result for _ in inputs]


def reduce(inputs, reduction, root):
    return [result if rank == root else None for rank, result in enumerate(all_reduce(inputs, reduction))]


def broadcast(inputs, root):
    return [inputs[root] for _ in inputs]


def all_gather(inputs):
    """Each rank has one tensor; the sizes may differ."""
    return [[tensor for (tensor,) in inputs] for _ in inputs]


def all_gather_into_tensor(inputs):
    """Each rank has some tensors; each is gathered into one."""
    result = [torch.cat(same) for same in zip(*inputs, strict=True)]
    return [result for _ in inputs]


def gather(inputs, root):
    return [[tensor for (tensor,) in inputs] if rank == root else [] for rank in range(len(inputs))]


def scatter(inputs, root):
    """The root has a tensor for every rank."""
    return [[inputs[root][rank]] for rank in range(len(inputs))]


def all_to_all(inputs):
    """Each rank has a tensor for every rank; the sizes may differ."""
    return [[theirs[rank] for theirs in inputs] for rank in range(len(inputs))]


def all_to_all_single(inputs, splits):
    """Each rank has one tensor; splits[r][q] rows of rank r go to rank q."""
    parts = [tensor.split(rows) for (tensor,), rows in zip(inputs, splits, strict=True)]
    return [[torch.cat(received)] for received in all_to_all(parts)]


def shift(inputs, distance):
    """Each rank sends its tensors to the rank `distance` further on."""
    return [inputs[(rank - distance) % len(inputs)] for rank in range(len(inputs))]
