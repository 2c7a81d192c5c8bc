"""Tests for each dtype and format.

@instantiate_tests
class TestAdd(TestCase):
    @Dtypes(torch.float16, torch.float32)
    @Formats(2, 29)
    def test_add(self, device, dtype, npu_format): ...     # becomes test_add_float16_2, test_add_float16_29, ...
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch


class Dtypes:
    def __init__(self, *args: torch.dtype) -> None:
        if not args or not all(isinstance(arg, torch.dtype) for arg in args):
            raise RuntimeError(f"Dtypes takes torch dtypes, as Dtypes(torch.float32), not {args}")
        self.args = args

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        fn.dtypes = self.args  # type: ignore[attr-defined]
        return fn


class Formats:
    def __init__(self, *args: int) -> None:
        if not args:
            raise RuntimeError("Formats takes formats, as Formats(2, 29)")
        self.args = args

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        fn.formats = self.args  # type: ignore[attr-defined]
        return fn


def feed_data(func: Callable[..., Any], new_name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """A test method with a new name that calls func with these arguments."""

    @functools.wraps(func)
    def run(self: Any) -> Any:
        return func(self, *args, **kwargs)

    run.__name__ = new_name
    del run.__wrapped__  # with it, pytest would read the arguments of func as fixtures
    return run


def instantiate_tests(arg: Any = None, **kwargs: Any) -> Any:
    """Decorates a test class: a test with Dtypes or Formats becomes one for each combination.

    The values go to the argument that has "dtype" or "format" in its name; an argument named device is "npu"."""
    cls = arg
    for name, func in list(vars(cls).items()):
        data = {key: getattr(func, f"{key}s") for key in ("dtype", "format") if hasattr(func, f"{key}s")}
        if not data:
            continue
        parameters = inspect.getfullargspec(func).args
        targets = [_target(name, parameters, key) for key in data]
        device = {"device": "npu"} if "device" in parameters else {}
        for values in itertools.product(*data.values()):
            new_name = _name(name, values)
            setattr(cls, new_name, feed_data(func, new_name, **device, **dict(zip(targets, values, strict=True))))
        delattr(cls, name)
    return cls


def _target(name: str, parameters: list[str], key: str) -> str:
    found = [parameter for parameter in parameters if key in parameter]
    if len(found) != 1:
        raise RuntimeError(f"{name} must have one argument with {key!r} in its name, but has {found}")
    return found[0]


def _name(name: str, values: Iterable[Any]) -> str:
    return "_".join([name, *(str(value).removeprefix("torch.") for value in values)])


def gen_ops_testcase(
    cls: type, func: Callable[..., Any], name: str, keys: Iterable[str], value: Sequence[Any], op_info: Any
) -> None:
    """Adds a test of func to a class, for one operator and one value for each key."""
    data = dict(zip(keys, value, strict=True))
    new_name = _name(f"{func.__name__}_{name}", value)
    test = feed_data(func, new_name, **data, op=op_info)
    for decorator in op_info.get_decorators(cls.__name__, func.__name__, "cpu", data.get("dtype"), {}):
        test = decorator(test)
    setattr(cls, new_name, test)


def gen_op_input(testcase: str, func: Callable[..., Any], op_info: Any) -> dict[str, Any]:
    """The dtypes and formats of the tests of an operator; test_variant_consistency_eager has one dtype."""
    dtypes = getattr(op_info, "dtypesIfNPU", None) or op_info.dtypes
    if "test_variant_consistency_eager" in testcase:
        chosen = {torch.float32} if torch.float32 in dtypes else {list(dtypes)[-1]}
    else:
        chosen = getattr(func, "dtypes", dtypes)
    return {"dtype": chosen, "npu_format": getattr(func, "formats", getattr(op_info, "formats", (-1,)))}


def instantiate_ops_tests(op_db: Iterable[Any]) -> Callable[[type], type]:
    """Decorates a test class: each test becomes one for each operator, dtype and format: test(self, dtype, npu_format, op)."""

    def decorate(cls: type) -> type:
        for testcase in [name for name in dir(cls) if name.startswith("test_")]:
            func = getattr(cls, testcase)
            for op_info in op_db:
                data = gen_op_input(testcase, func, op_info)
                for value in itertools.product(*data.values()):
                    gen_ops_testcase(cls, func, op_info.name, data.keys(), value, op_info)
            delattr(cls, testcase)
        return cls

    return decorate
