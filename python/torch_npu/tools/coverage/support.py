"""Whether a name of torch works on npu.

    from torch_npu.tools.coverage.support import api_support

    api_support("torch.nn.functional.conv2d").status        # supported, fallback, unsupported or unknown
    api_support("torch.cuda.nvtx.range_push").reason

    python -m torch_npu.tools.coverage.support torch.nn.Conv2d torch.Tensor.add_     # JSON
    python -m torch_npu.tools.coverage.support - < names.txt                         # one name per line

The answer comes from the dispatcher's registry of this process: operators.py. How a name leads to operators is in api_calls.py.
A name of torch.cuda is answered by what transfer_to_npu puts in its place. `unknown` means that nothing is known, not that it
fails.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import torch

from ... import _api_status
from ..._commands import run
from ...contrib._cuda_alias import REMOVED, libraries, profilers, torch_cuda
from .api_calls import operators_of, resolve
from .operators import LAYOUTS, Support, facts, operator_support, overloads

__all__ = ["Support", "api_support", "operator_support", "packet_support"]

_RANK = {"supported": 0, "unknown": 1, "fallback": 2, "unsupported": 3}


@functools.cache
def api_support(qualified_name: str) -> Support:
    """Whether a function, method or class works on npu: `torch.nn.functional.conv2d`, `torch.Tensor.add_`, `torch.nn.Conv2d`,
    `torch.cuda.Stream`, `torch.ops.aten.add.Tensor`, `aten::add`."""
    name = qualified_name.strip()
    if "::" in name:
        return packet_support(name)
    if name.startswith("torch.cuda.") or name == "torch.cuda":
        return _of_cuda(name)
    if name.startswith("torch.utils.cpp_extension."):
        _import_extensions()
    if name in _replaced():
        return _offered(name, _replaced()[name])
    try:
        thing = resolve(name)
    except (AttributeError, ImportError, ValueError):
        owner = name.partition(".")[0] or name
        return Support(name, "unknown", f"{owner} has no such name here")
    if name.split(".")[0] == "torch_npu" or name.startswith("torch.npu."):
        return _offered(name, thing)
    return _of_torch(name, thing)


def packet_support(name: str, dtype: str | None = None) -> Support:
    """The support of all forms of an operator (`aten::add`), out= forms aside, or of one overload (`aten::add.Tensor`)."""
    found = overloads(name)
    if not found:
        return Support(name, "unknown", f"no operator {name} is registered in this process")
    forms = [overload for overload in found if not _is_out(overload)] or found
    answers = [_in_any_layout(form, dtype) for form in forms]
    worst = max(answers, key=lambda answer: _RANK[answer.status])
    best = min(answers, key=lambda answer: _RANK[answer.status])
    if worst.status == "unsupported" and best.status == "supported":
        others = ", ".join(answer.name for answer in answers if answer.status == "unsupported")
        return Support(name, "supported", f"{best.reason}; not as {others}", tuple(forms))
    shown = worst if worst.status != "supported" else answers[0]
    reason = shown.reason if len(forms) == 1 or shown.status == "supported" else f"{shown.name}: {shown.reason}"
    return Support(name, shown.status, reason, tuple(forms))


def _in_any_layout(name: str, dtype: str | None) -> Support:
    """Operators of sparse, nested or quantized tensors have no kernel for dense ones."""
    dense = operator_support(name, dtype)
    if dense.status != "unsupported":
        return dense
    for layout in LAYOUTS:
        found = operator_support(name, dtype, layout)
        if found.status in ("supported", "fallback"):
            return Support(name, found.status, f"{found.reason} (tensors of layout {layout})")
    return dense


def _is_out(name: str) -> bool:
    base, _, overload = name.partition(".")
    arguments = torch._C._get_schema(base, overload).arguments
    return any(argument.kwarg_only and argument.alias_info is not None and argument.alias_info.is_write for argument in arguments)


def _of_torch(name: str, thing: Any) -> Support:
    names = sorted(operators_of(thing))
    if not names:
        if callable(thing) and not isinstance(thing, type) and type(thing).__name__ in ("builtin_function_or_method", "function"):
            module = getattr(thing, "__module__", None) or ""
            if not module.startswith("torch"):
                return Support(
                    name, "unknown", f"no operator of torch is found behind a function of {module or 'another library'}"
                )
        return Support(name, "supported", "no operator of a device is found behind it")
    answers = [packet_support(operator) for operator in names]
    worst = max(answers, key=lambda answer: _RANK[answer.status])
    operators = tuple(answer.name for answer in answers)
    if worst.status == "supported":
        return Support(name, "supported", _listed(answers) + _gaps(name), operators)
    if len(answers) == 1:
        return Support(name, worst.status, worst.reason, operators)
    parts = [answer for answer in answers if answer.status == worst.status]
    if len(parts) < len(answers):  # the source names them in one of its branches; others exist
        effect = "fall back to the CPU" if worst.status == "fallback" else "raise"
        return Support(name, "supported", f"{_listed(answers)}; branches with {_listed(parts)} {effect}", operators)
    return Support(name, worst.status, f"calls {parts[0].name}: {parts[0].reason}", operators)


def _listed(answers: Sequence[Support]) -> str:
    shown = ", ".join(answer.name for answer in answers[:4])
    return shown + (f" and {len(answers) - 4} more" if len(answers) > 4 else "")


def _gaps(name: str) -> str:
    """Known differences from the CPU. The entries of PyTorch's databases have the names of its functions."""
    entry = name.removeprefix("torch.").removeprefix("Tensor.").removesuffix("_")
    found = []
    for gap in facts()["gaps"]:
        operator, _, rest = gap["case"].partition("/")
        if fnmatch.fnmatchcase(entry, operator):
            found.append(f"known gap ({rest.replace('/', ', ')}): {gap['reason']}")
    return "".join(f"; {each}" for each in found)


# ---- names that are not operators ----


@functools.cache
def _replaced() -> dict[str, Any]:
    """What transfer_to_npu puts in the place of names of torch.cuda."""
    found: dict[str, Any] = {}
    _note(found, torch_cuda.replacements())
    _note(found, profilers.replacements())
    if "torch.utils.cpp_extension" in sys.modules:
        _note(found, libraries.extensions())
    return found


def _import_extensions() -> None:
    import torch.utils.cpp_extension  # noqa: F401

    if "torch.utils.cpp_extension.CUDAExtension" not in _replaced():
        _replaced.cache_clear()


def _note(found: dict[str, Any], replacements: Iterable[tuple[Any, str, Any]]) -> None:
    for owner, name, value in replacements:
        if getattr(owner, "__name__", "").startswith("torch") and not isinstance(owner, type):
            found[f"{owner.__name__}.{name}"] = value


def _of_cuda(name: str) -> Support:
    value = _replaced().get(name, REMOVED)
    if value is not REMOVED:
        return _offered(name, value)
    twin = name.replace("torch.cuda", "torch.npu", 1)
    for old, new in torch_cuda._OTHER_NAMES.items():
        twin = twin.replace(f".{old}", f".{new}")
    try:
        return _offered(name, resolve(twin))
    except (AttributeError, ImportError):
        pass
    try:
        resolve(name)
    except (AttributeError, ImportError):
        return Support(name, "unknown", f"torch {torch.__version__} has no such name")
    if any(known.startswith(f"{name}.") for known in _replaced()):
        return Support(name, "supported", "a module of which npu has functions; ask for each")
    if name.rpartition(".")[0] != "torch.cuda" and any(known.startswith(f"{name.rpartition('.')[0]}.") for known in _replaced()):
        return Support(name, "supported", "torch's own function, which needs no device of CUDA")
    return Support(name, "unsupported", f"{twin} does not exist: it has no counterpart on npu")


def _offered(name: str, thing: Any) -> Support:
    state, reason = _api_status.state(thing)
    if state == "not offered":
        return Support(name, "unsupported", reason)
    if state == "no-op":
        return Support(name, "supported", f"accepted, does nothing: {reason}")
    if not name.startswith(("torch.npu", "torch_npu")):
        return Support(name, "supported", "has a counterpart on npu")
    return Support(name, "supported", "offered by torch_npu")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m torch_npu.tools.coverage.support", description="Whether names of torch work on npu."
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="such as torch.nn.Conv2d or aten::add; - reads names from stdin")
    given = parser.parse_args(arguments).names
    names = [line for name in given for line in (sys.stdin.read().split() if name == "-" else [name])]
    print(json.dumps([asdict(api_support(name)) for name in names], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(run("torch_npu.tools.coverage.support", main))
