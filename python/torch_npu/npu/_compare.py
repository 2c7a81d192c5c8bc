"""Compares an operator with the CPU, and writes a script that repeats a difference; see docs/debugging.md.

compare = Comparison(raises=False, folder=Path("npu_differences"))
watch(names, compare)                # see _watch.py
compare.differences                  # {"aten::add.Tensor": 3}
"""

from __future__ import annotations

import collections
import contextlib
import copy
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import _describe, _equivalents, _watch


class Twins:
    """CPU copies of the tensors of a call, with their strides and offsets. Tensors that share memory still share it."""

    def __init__(self, tensors: list[torch.Tensor], whole_storages: bool) -> None:
        self._ranges: dict[int, tuple[int, int]] = {}
        self._storages: dict[int, torch.UntypedStorage] = {}
        self.tensors: list[torch.Tensor] = []
        for tensor in tensors:
            if tensor._is_zerotensor():
                continue
            key = tensor.untyped_storage()._cdata
            begin, end = _bytes_of(tensor, whole_storages)
            known = self._ranges.get(key, (begin, end))
            self._ranges[key] = min(begin, known[0]), max(end, known[1])

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        twin = self._of_zeros(tensor) if tensor._is_zerotensor() else self._of_memory(tensor)
        self.tensors.append(twin)
        return twin

    @staticmethod
    def _of_zeros(tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of zeros without memory, as autograd makes it."""
        return torch._efficientzerotensor(tensor.shape, dtype=tensor.dtype, device="cpu")

    def _of_memory(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        begin, end = self._ranges[storage._cdata]
        if storage._cdata not in self._storages:
            view = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, begin, (end - begin,))
            self._storages[storage._cdata] = (
                torch.empty(end - begin, dtype=torch.uint8, device="cpu").copy_(view).untyped_storage()
            )
        offset = tensor.storage_offset() - begin // tensor.element_size()
        twin = torch.empty(0, dtype=tensor.dtype, device="cpu")
        twin.set_(self._storages[storage._cdata], offset, tensor.shape, tensor.stride())
        if tensor.is_conj():
            twin = torch._conj(twin)
        if tensor.is_neg():
            twin = torch._neg_view(twin)
        return twin


def _bytes_of(tensor: torch.Tensor, whole: bool) -> tuple[int, int]:
    """The range of bytes [begin, end) of the tensor in its storage; begin is a multiple of every element size."""
    size = tensor.element_size()
    if whole or tensor.numel() == 0:
        return 0, tensor.untyped_storage().nbytes()
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.storage_offset() * size // 16 * 16, (tensor.storage_offset() + last + 1) * size


def _is_view(op: Any) -> bool:
    return any(item.alias_info is not None and not item.alias_info.is_write for item in op._schema.returns)


def why_not(op: Any) -> str | None:
    """The reason why results of the operator cannot be compared, or None."""
    base = op._schema.name.partition("::")[2]
    types = " ".join(str(item.type) for item in op._schema.arguments)
    if "Generator" in types:
        return "it is random"
    if "empty" in base or "resize" in base:
        return "its result is uninitialised"
    if op._name in _watch.DEVICE_MATTERS or "Storage" in types or "Stream" in types:
        return "its result is a matter of the device"
    return None


def why_not_now(op: Any, args: Any, kwargs: Any) -> str | None:
    """The same for a call that begins. The operators of a captured stream are recorded and do not run."""
    if torch.Tag.nondeterministic_seeded in op.tags and _draws(op, args, kwargs):
        return "it is random"
    if any(_has_no_values(each) for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)):
        return "it was traced, by torch.compile for example"
    return "it ran inside a graph capture" if torch.npu.is_current_stream_capturing() else None


def _has_no_values(tensor: torch.Tensor) -> bool:
    """A fake tensor has the kernels of npu and a storage of meta."""
    return torch._C._has_storage(tensor) and tensor.untyped_storage().device.type == "meta"


def _draws(op: Any, args: Any, kwargs: Any) -> bool:
    """Whether it draws random numbers. Attention, lstm and others without dropout, or outside of training, do not."""
    given = {item.name: item.default_value for item in op._schema.arguments}
    given.update(zip(given, args, strict=False))
    given.update(kwargs)
    chances = [given[name] for name in ("dropout", "dropout_p", "p") if name in given]
    return chances != [0] and not (chances and given.get("train", True) is False)


class _Call:
    """A call on the device, with copies of its arguments to repeat it on the CPU. Made before the kernel runs."""

    def __init__(self, op: Any, args: Any, kwargs: Any) -> None:
        self.op = op
        tensors = [item for item in pytree.tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor)]
        twins = Twins(tensors, whole_storages=_is_view(op))
        self.described = _describe.arguments(op, args, kwargs)
        self.words = [f"{'given' if tensor.device.type == 'npu' else 'host'}[{i}]" for i, tensor in enumerate(tensors)]
        self.args, self.kwargs = pytree.tree_map(lambda item: self._on_cpu(item, twins), (args, kwargs))
        self._written = self.written(args, kwargs)
        self.inputs = copy.deepcopy(twins.tensors) if self._written else twins.tensors

    @staticmethod
    def _on_cpu(item: Any, twins: Twins) -> Any:
        if isinstance(item, torch.Tensor):
            return twins.of(item)
        return torch.device("cpu") if isinstance(item, torch.device) else item

    def named(self, args: Any, kwargs: Any) -> dict[str, Any]:
        return {**dict(zip((item.name for item in self.op._schema.arguments), args, strict=False)), **kwargs}

    def written(self, args: Any, kwargs: Any) -> list[Any]:
        """The arguments that the operator writes."""
        given = self.named(args, kwargs)
        written = [item.name for item in self.op._schema.arguments if item.alias_info and item.alias_info.is_write]
        return [given[name] for name in written if name in given]

    def actual(self, result: Any) -> tuple[Any, list[Any]]:
        return _equivalents.known(self.op, result), self._written

    def expected(self) -> tuple[Any, list[Any]]:
        return _equivalents.repeat(self.op, *self.args, **self.kwargs), self.written(self.args, self.kwargs)

    def script(self, lines: list[str], tolerances: dict[str, float | None], template: str = "") -> str:
        words = iter(self.words)
        texts = {name: _literal(item, words) for name, item in self.named(self.args, self.kwargs).items()}
        positional = list(texts)[: len(self.args)]
        given = ", ".join([texts[name] if name in positional else f"{name}={texts[name]}" for name in texts])
        operator, has_equivalent = f"torch.ops.{self.op}", _equivalents.has_one(self.op)
        return (template or _SCRIPT).format(
            head=lines[0],
            details="\n".join(lines[1:]).replace("\\", "/").replace('"""', "'''"),
            imports=f"from {_equivalents.__name__} import repeat" if has_equivalent else "import torch_npu  # noqa: F401",
            call=f"repeat({operator}, {given})" if has_equivalent else f"{operator}({given})",
            written=", ".join(self.written([texts[name] for name in positional], texts)),
            stride=_is_view(self.op),
            tolerances="".join(f", {name}={number}" for name, number in tolerances.items() if number is not None),
        )


def save_program(call: _Call, path: Path, text: str) -> str:
    """Writes the script and its inputs. Returns a sentence if that fails: the program that is observed goes on."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(call.inputs, path.with_suffix(".pt"))
        path.write_text(text, encoding="utf-8")
    except (OSError, RuntimeError) as error:  # torch.save has either for a full disk
        for part in (path, path.with_suffix(".pt")):
            with contextlib.suppress(OSError):
                part.unlink()
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        return f"{path} cannot be written: {reason}; choose another folder or free space"
    return ""


class Comparison:
    """An observer (_watch.py). The first difference of each operator is printed to stderr; with `raises`, the first of all is
    raised. All differences are counted."""

    def __init__(
        self, raises: bool, folder: str | os.PathLike[str], rtol: float | None = None, atol: float | None = None
    ) -> None:
        self.compared: collections.Counter[str] = collections.Counter()  # calls by operator
        self.differences: collections.Counter[str] = collections.Counter()
        self.skipped: dict[str, str] = {}  # operator -> why it was not compared
        self._raises = raises
        self._folder = Path(folder)
        self._tolerances = {"rtol": rtol, "atol": atol}

    def __call__(self, op: Any, args: Any, kwargs: Any) -> Callable[[Any], None] | None:
        if reason := why_not(op) or why_not_now(op, args, kwargs):
            self.skipped.setdefault(op._name, reason)
            return None
        call = _Call(op, args, kwargs)
        return lambda result: self._judge(call, result)

    def _judge(self, call: _Call, result: Any) -> None:
        name = call.op._name
        try:
            expected = call.expected()
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            self.skipped.setdefault(name, f"the CPU refuses it: {error}".splitlines()[0][:200])
            return
        self.compared[name] += 1
        try:
            torch.testing.assert_close(
                call.actual(result),
                expected,
                equal_nan=True,
                check_device=False,
                check_stride=_is_view(call.op),
                **self._tolerances,
            )
        except AssertionError as error:
            self.differences[name] += 1
            if self._raises or self.differences[name] == 1:
                self._report(call, str(error))

    def _report(self, call: _Call, message: str) -> None:
        head = f"{call.op._name} on npu differs from the CPU"
        lines = [head, f"called from {_describe.caller()}", f"with {call.described}", *filter(None, message.splitlines())]
        path = (self._folder / f"{call.op._name.replace('::', '.')}.py").absolute()
        problem = save_program(call, path, call.script(lines, self._tolerances))
        text = "\n  ".join([*lines, problem or f"to repeat it: python {path}"])
        if self._raises:
            raise RuntimeError(text)
        print(f"torch_npu: {text}", file=sys.stderr, flush=True)


def _literal(item: Any, tensors: Iterator[str]) -> str:
    """The source text of an argument in the script; `tensors` yields the texts of the tensors, in order."""
    if isinstance(item, torch.Tensor):
        return next(tensors)
    if isinstance(item, list | tuple):
        return f"[{', '.join(_literal(each, tensors) for each in item)}]"
    if isinstance(item, torch.device):
        return "device"
    if isinstance(item, float) and not math.isfinite(item):
        return f'float("{item}")'
    return repr(item)


_SCRIPT = '''\
"""{head}

{details}
Compares the two once more; the exit status is 1 if they differ and 0 if not.
"""

import sys
from pathlib import Path

import torch
{imports}


def load(device):
    return torch.load(Path(__file__).with_suffix(".pt"), map_location=device, weights_only=True)


def run(device):
    host, given = load("cpu"), load(device)
    result = {call}
    return result, [{written}]


try:
    torch.testing.assert_close(run("npu"), run("cpu"), equal_nan=True, check_device=False, check_stride={stride}{tolerances})
except AssertionError as error:
    sys.exit(str(error))
print("npu and the CPU agree")
'''
