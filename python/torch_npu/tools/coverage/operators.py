"""How one overload runs on npu, from the live dispatcher and the facts that the build took from the sweep.

    operator_support("aten::add.Tensor").status                     # supported
    operator_support("aten::add.Tensor", dtype="float64").reason
    operator_support("aten::mm", layout="sparse_csr").status

| status | meaning |
|---|---|
| supported | a kernel of the device, or parts that PyTorch puts together |
| fallback | the CPU, with copies both ways |
| unsupported | the call raises |
| unknown | no such operator is registered in this process |
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .substitutes import substitute

STATUSES = ("supported", "fallback", "unsupported", "unknown")


@dataclass(frozen=True)
class Support:
    name: str
    status: str  # one of STATUSES
    reason: str
    operators: tuple[str, ...] = ()  # the operators behind a function of Python


@dataclass(frozen=True)
class _Keys:
    """The dispatch keys of a layout: of npu, of the CPU, and of kernels that compose other operators."""

    npu: str
    cpu: str
    composite: tuple[str, ...]


_EXPLICIT, _IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
_DENSE = _Keys("PrivateUse1", "CPU", (_EXPLICIT, f"{_EXPLICIT}NonFunctional", _IMPLICIT))
_COMPRESSED = _Keys("SparseCsrPrivateUse1", "SparseCsrCPU", (_EXPLICIT, _IMPLICIT))
LAYOUTS = {
    "strided": _DENSE,
    "sparse_coo": _Keys("SparsePrivateUse1", "SparseCPU", (_EXPLICIT, _IMPLICIT)),
    **dict.fromkeys(("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"), _COMPRESSED),
    "nested": _Keys("NestedTensorPrivateUse1", "NestedTensorCPU", (_EXPLICIT, f"{_IMPLICIT}NestedTensor", _IMPLICIT)),
    "quantized": _Keys("QuantizedPrivateUse1", "QuantizedCPU", (_EXPLICIT, _IMPLICIT)),
}
# The fallback copies tensors by means of these, so they cannot fall back.
_NEEDS_OWN = ("c10d::", "_c10d_functional")


@functools.cache
def facts() -> dict[str, Any]:
    """What codegen/op_support.py wrote at build time. Empty if the package was built without it."""
    path = Path(__file__).parents[2] / "_op_support.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return {"overloads": {}, "gaps": []}
    return found


def registered(name: str) -> bool:
    """Whether the dispatcher knows the schema of an overload such as `aten::add.Tensor`."""
    try:
        torch._C._dispatch_find_schema_or_throw(*split(name))
    except RuntimeError:
        return False
    return True


def overloads(name: str) -> list[str]:
    """All overloads of `aten::add`, or the one that the name gives, in the dispatcher's registry."""
    if "." in name:
        return [name] if registered(name) else []
    return _by_operator().get(name, [])


@functools.lru_cache(maxsize=1)
def _by_operator_of(count: int) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name in torch._C._dispatch_get_all_op_names():
        if registered(name):
            grouped.setdefault(name.partition(".")[0], []).append(name)
    return {name: sorted(found) for name, found in grouped.items()}


def _by_operator() -> dict[str, list[str]]:
    return _by_operator_of(len(torch._C._dispatch_get_all_op_names()))  # an import may register more


def operator_support(name: str, dtype: str | None = None, layout: str = "strided") -> Support:
    """How an overload such as `aten::add.Tensor` runs on npu, for tensors of this dtype (`float32`) and layout."""
    if not registered(name):
        return Support(name, "unknown", f"no operator {name} is registered in this process")
    if layout not in LAYOUTS:
        return Support(name, "unsupported", f"npu has no tensors of layout {layout}")
    keys = LAYOUTS[layout]
    twin = None if _has(name, keys.npu) else substitute(name)
    if twin is not None and registered(twin):
        there = operator_support(twin, dtype, layout)
        return Support(name, there.status, f"other devices only; on npu PyTorch calls {twin}: {there.reason}")
    found = _registration(name, keys)
    if found.status != "supported" or dtype is None:
        return found
    return _for_dtype(found, dtype)


def _has(name: str, *keys: str) -> bool:
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def _registration(name: str, keys: _Keys) -> Support:
    known = facts()["overloads"].get(name, {})
    if _has(name, keys.npu):
        by = known.get("by", "")
        return Support(name, "supported", f"kernel of npu ({by})" if by else "kernel of npu")
    if _has(name, *keys.composite):
        if not _has(name, _EXPLICIT, _IMPLICIT) and (twin := _out_form(name)) is not None:
            there = _registration(twin, keys)
            reason = there.reason if there.status == "supported" else f"calls {twin}: {there.reason}"
            return Support(name, there.status, reason)
        if known.get("by", "").startswith("falls back: "):
            return Support(name, "fallback", f"PyTorch composes it of operators, of which one {known['by']}")
        return Support(name, "supported", "PyTorch composes it of other operators")
    if any(name.startswith(space) for space in _NEEDS_OWN):
        return Support(name, "unsupported", "a collective never falls back to the CPU; use backend hccl and dense tensors")
    if not _has(name, keys.cpu):
        return Support(name, "unsupported", "neither npu nor the CPU has a kernel")
    returns = torch._C._get_schema(*split(name)).returns
    if any(item.alias_info is not None and not item.alias_info.is_write for item in returns):
        return Support(name, "unsupported", "a view without a kernel of npu cannot fall back to the CPU")
    reason = known.get("by", "") if known.get("runs") == "fallback" else ""
    return Support(name, "fallback", f"runs on the CPU: {reason or 'npu has no kernel'}")


def _out_form(name: str) -> str | None:
    """The out= overload that a structured operator calls: PyTorch registers the other forms only to allocate its results."""
    wanted = [argument.name for argument in torch._C._get_schema(*split(name)).arguments]
    for form in overloads(name.partition(".")[0].removesuffix("_")):
        arguments = torch._C._get_schema(*split(form)).arguments
        written = [argument.alias_info is not None and argument.alias_info.is_write for argument in arguments]
        if any(written) and [item.name for item, out in zip(arguments, written, strict=True) if not out] == wanted:
            return form
    return None


def split(name: str) -> tuple[str, str]:
    base, _, overload = name.partition(".")
    return base, overload


def _for_dtype(found: Support, dtype: str) -> Support:
    known = facts()["overloads"].get(found.name, {})
    if dtype == "float64" and os.environ.get("SOFTNPU_CHIP_LIMITS") == "1" and not _moves_only(found.name):
        reason = "the chip converts float64 but does not compute it (SOFTNPU_CHIP_LIMITS=1); use float32"
        return Support(found.name, "unsupported", reason)
    if dtype in known.get("failed", ()):
        return Support(found.name, "unsupported", f"{dtype} fails in the operator sweep")
    if dtype in known.get("ran", ()):
        return found
    takes = known.get("takes", ())
    if takes and dtype not in takes:
        return Support(
            found.name, "unsupported", f"{known.get('by', 'the device function')} takes {', '.join(takes)}; got {dtype}"
        )
    if known.get("ran"):
        return Support(found.name, "supported", f"{found.reason}; the operator sweep has no sample of {dtype}")
    return found


def _moves_only(name: str) -> bool:
    """Operators that copy or describe tensors without arithmetic: a chip without float64 has them."""
    runs = facts()["overloads"].get(name, {}).get("runs")
    return runs in ("view", "host") or name.partition(".")[0] in ("aten::copy_", "aten::_to_copy", "aten::clone", "aten::detach")
