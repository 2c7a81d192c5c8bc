"""The operators behind a function, method or module class of torch, found without running it.

    operators_of(torch.Tensor.add_)             # {"aten::add_"}: compiled, named as its operator
    operators_of(torch.nn.functional.interpolate)   # the operators that its source names
    operators_of(torch.nn.Conv2d)               # those of its forward()

A Python function of torch is read, not called: the calls in its source, and in the functions of torch that it calls, are
collected from all branches. Operators of arithmetic signs are not collected.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import torch

from .operators import overloads, split

_COMPILED = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)
_FOLLOWED = re.compile(
    r"torch(\.nn(\.functional|\.modules|\.init|\.parallel|\.utils)|\.functional|\._tensor|\.optim|\.linalg|\.fft|\.special|\.sparse"
    r"|\._lowrank|\._lobpcg|\.amp|\.distributions)?(\.|$)"
)
_NOT_FOLLOWED = re.compile(
    r"torch\.(overrides|jit|_jit|fx|_dynamo|_C|cuda|utils|_utils|serialization|compiler|distributed|_guards|library|_logging|types|storage)"
)
_DEPTH = 5


def resolve(qualified_name: str) -> Any:
    """The object that a dotted name such as torch.nn.Conv2d means. Raises AttributeError if there is none."""
    words = qualified_name.split(".")
    if not all(word.isidentifier() for word in words):
        raise AttributeError(qualified_name)
    found, used = importlib.import_module(words[0]), 1
    for index, word in enumerate(words[1:], 2):
        try:
            found = inspect.getattr_static(found, word) if isinstance(found, type) else getattr(found, word)
        except AttributeError:
            found = _submodule(words[:index], qualified_name)
        used = index
    assert used == len(words)
    return found


def _submodule(words: list[str], qualified_name: str) -> Any:
    try:
        return importlib.import_module(".".join(words))
    except Exception:  # a module may need libraries that are not installed
        raise AttributeError(qualified_name) from None


def operators_of(thing: Any) -> frozenset[str]:
    """Names without overloads, such as `aten::add`. Those that only describe a tensor, such as `aten::dim`, are left out."""
    return frozenset(name for name in _collect(thing, _DEPTH, set()) if _computes(name))


@functools.cache
def _computes(name: str) -> bool:
    schemas = [torch._C._get_schema(*split(form)) for form in overloads(name)]
    returns = {str(item.type) for schema in schemas for item in schema.returns}
    return not schemas or name == "aten::item" or any("Tensor" in item or item == "t" for item in returns) or not returns


def _collect(thing: Any, depth: int, seen: set[int]) -> Iterator[str]:
    if isinstance(thing, (staticmethod, classmethod)):
        thing = thing.__func__
    if isinstance(thing, property):
        thing = thing.fget
    if isinstance(thing, torch._ops.OpOverload):
        yield thing._schema.name
        return
    if isinstance(thing, torch._ops.OpOverloadPacket):
        yield thing._qualified_op_name
        return
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, _COMPILED):
        yield from compiled_operator(thing.__name__)
        return
    if isinstance(thing, type):
        for name in ("forward", "step", "__call__") if issubclass(thing, (torch.nn.Module, torch.optim.Optimizer)) else ():
            if name in {key for base in thing.__mro__[:-1] for key in vars(base)} and name != "__call__":
                yield from _collect(_Method(thing, name), depth, seen)
        return
    owner = None
    if isinstance(thing, _Method):
        owner, thing = thing.owner, inspect.getattr_static(thing.owner, thing.name)
    function = inspect.unwrap(thing) if callable(thing) else None
    if isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, types.FunctionType):
        yield from _named_in(function, owner, depth, seen)


class _Method:
    """A method of a class whose `self` has that class."""

    def __init__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner, name


def compiled_operator(name: str) -> Iterator[str]:
    """The operator of a compiled function, which has its name. `x + y` calls __add__, whose operator is add."""
    plain = re.fullmatch(r"__([ir]?)(\w+?)__", name)
    candidates = [name]
    if plain:
        stem = plain[2]
        candidates += [f"{plain[1]}{stem}", f"{stem}_"] if plain[1] == "i" else [f"{plain[1]}{stem}", stem]
    for candidate in candidates:
        if overloads(f"aten::{candidate}"):
            yield f"aten::{candidate}"
            return


@functools.lru_cache(maxsize=4096)
def _tree(code: types.CodeType) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):
        return None


def _named_in(function: types.FunctionType, owner: type | None, depth: int, seen: set[int]) -> Iterator[str]:
    module = function.__module__ or ""
    if depth == 0 or not _FOLLOWED.match(module) or _NOT_FOLLOWED.match(module):
        return
    names = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    for cell in inspect.getclosurevars(function).nonlocals.values():
        if isinstance(cell, types.FunctionType):  # torch.nn.functional.max_pool2d chooses one of two functions
            yield from _collect(cell, depth - 1, seen)
    tree = _tree(function.__code__)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and isinstance(names.get(node.id), types.FunctionType):
            yield from _collect(names[node.id], depth - 1, seen)  # `func = _multi_tensor_adam`
        if not isinstance(node, ast.Call):
            continue
        words = _dotted(node.func)
        if words is None or words[-1] in ("handle_torch_function", "has_torch_function"):
            continue
        yield from _called(words, names, owner, function.__code__.co_varnames, depth, seen)


def _called(
    words: list[str], names: dict[str, Any], owner: type | None, variables: tuple[str, ...], depth: int, seen: set[int]
) -> Iterator[str]:
    root, rest = words[0], words[1:]
    if root == "self" and owner is not None and len(rest) == 1:
        if callable(getattr(owner, rest[0], None)):
            yield from _collect(_Method(owner, rest[0]), depth - 1, seen)
        return
    if root in variables or root == "":
        if rest and isinstance(inspect.getattr_static(torch.Tensor, rest[-1], None), _COMPILED):
            yield from compiled_operator(rest[-1])
        return
    target = names.get(root)
    for word in rest:
        target = getattr(target, word, None)
    if target is not None and not isinstance(target, types.ModuleType):
        yield from _collect(target, depth - 1, seen)


def _dotted(node: ast.expr) -> list[str] | None:
    """["torch", "nn", "f"] for torch.nn.f; the root is "" for a method of another expression."""
    words: list[str] = []
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return [*reversed([*words, node.id])]
    return ["", words[0]] if words else None
