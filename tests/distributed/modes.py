"""Ways to run the same collectives, and what torch.distributed defines for a dtype."""

from dataclasses import dataclass

import torch

from tests.distributed import nodes
from tests.distributed.rank_processes import Setting

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
DTYPES = (*FLOATS, *INTEGERS, torch.bool, *COMPLEX)
EVERY_DTYPE = (*DTYPES, *UNSIGNED)
REDUCTIONS = ("sum", "product", "min", "max", "avg", "premul_sum", "band", "bor", "bxor")


@dataclass(frozen=True)
class Mode:
    """backend and environment of the ranks; lacks: operations, reductions and dtypes that the backend does not have."""

    backend: str
    environment: tuple = ()
    lacks: frozenset = frozenset()


def _transport(name):
    return (("SOFTNPU_HCCL_TRANSPORT", name),)


# Lists of different sizes, coalescing, and some dtypes and reductions.
_MANAGED = ("all_reduce_managed", "all_gather_into_tensor_managed", "reduce_scatter_tensor_managed")
_GLOO_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64)
_GLOO_LACKS = frozenset(
    ["all_to_all", "all_gather_uneven", *_MANAGED, "avg", "premul_sum", *(set(EVERY_DTYPE) - set(_GLOO_DTYPES))]
)

MODES = {
    "hccl": Mode("hccl"),
    "tcp": Mode("hccl", _transport("tcp")),
    "staged": Mode("hccl", _transport("staged")),
    # Two pairs of ranks: 0 and 1, 2 and 3. The ranks of a pair share memory. Each pair has its own address. The pairs
    # use TCP, without a whitelist.
    "hosts": Mode(
        "hccl",
        (("SOFTNPU_HCCL_HOST", "host{pair}"), ("HCCL_IF_IP", "127.0.1.{pair}"), ("HCCL_WHITELIST_DISABLE", "1")),
    ),
    # The same with two nodes. Each node is a network namespace.
    "nodes": Mode("hccl", nodes.environment()),
    # CPU tensors, to check the model and the tests.
    "gloo": Mode("gloo", lacks=_GLOO_LACKS),
}


def setting(mode, world, environment=()):
    """The setting of the ranks of a mode."""
    return Setting(MODES[mode].backend, world, environment=MODES[mode].environment + tuple(environment))


def allowed(reduction, dtype):
    """Whether torch.distributed defines the reduction of a dtype."""
    if dtype.is_complex:
        return reduction in ("sum", "avg", "premul_sum")
    if reduction in ("band", "bor", "bxor"):
        return not dtype.is_floating_point
    if reduction == "avg":
        return dtype != torch.bool
    if reduction == "premul_sum":
        return dtype.is_floating_point
    return True
