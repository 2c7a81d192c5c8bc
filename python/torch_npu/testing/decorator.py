"""Tests for each dtype and format.

@instantiate_tests
class TestAdd(TestCase):
    @Dtypes(torch.float16, torch.float32)
    @Formats(2, 29)
    def test_add(self, device, dtype, npu_format): ...     # becomes test_add_float16_2, test_add_float16_29, ...
"""

import functools
import inspect
import itertools

import torch


class Dtypes:
    def __init__(self, *args):
        if not args or not all(isinstance(arg, torch.dtype) for arg in args):
            raise RuntimeError(f"Dtypes takes torch dtypes, as Dtypes(torch.float32), not {args}")
        self.args = args

    def __call__(self, fn):
        fn.dtypes = self.args
        return fn


class Formats:
    def __init__(self, *args):
        if not args:
            raise RuntimeError("Formats takes formats, as Formats(2, 29)")
        self.args = args

    def __call__(self, fn):
        fn.formats = self.args
        return fn


def feed_data(func, new_name, *args, **kwargs):
    """A test method of another name, that calls func with these arguments."""

    @functools.wraps(func)
    def run(self):
        return func(self, *args, **kwargs)

    run.__name__ = new_name
    del run.__wrapped__  # or else pytest would take the arguments of func for fixtures
    return run


def instantiate_tests(arg=None, **kwargs):
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


def _target(name, parameters, key):
    found = [parameter for parameter in parameters if key in parameter]
    if len(found) != 1:
        raise RuntimeError(f"{name} must have one argument with {key!r} in its name, but has {found}")
    return found[0]


def _name(name, values):
    return "_".join([name, *(str(value).removeprefix("torch.") for value in values)])


def gen_ops_testcase(cls, func, name, keys, value, op_info):
    """Gives a class the test func for one operator, and one value for each key."""
    data = dict(zip(keys, value, strict=True))
    new_name = _name(f"{func.__name__}_{name}", value)
    test = feed_data(func, new_name, **data, op=op_info)
    for decorator in op_info.get_decorators(cls.__name__, func.__name__, "cpu", data.get("dtype"), {}):
        test = decorator(test)
    setattr(cls, new_name, test)


def gen_op_input(testcase, func, op_info):
    """Which dtypes and formats a test of an operator is made for; test_variant_consistency_eager takes one dtype."""
    dtypes = getattr(op_info, "dtypesIfNPU", None) or op_info.dtypes
    if "test_variant_consistency_eager" in testcase:
        chosen = {torch.float32} if torch.float32 in dtypes else {list(dtypes)[-1]}
    else:
        chosen = getattr(func, "dtypes", dtypes)
    return {"dtype": chosen, "npu_format": getattr(func, "formats", getattr(op_info, "formats", (-1,)))}


def instantiate_ops_tests(op_db):
    """Decorates a test class: each test becomes one for each operator, dtype and format: test(self, dtype, npu_format, op)."""

    def decorate(cls):
        for testcase in [name for name in dir(cls) if name.startswith("test_")]:
            func = getattr(cls, testcase)
            for op_info in op_db:
                data = gen_op_input(testcase, func, op_info)
                for value in itertools.product(*data.values()):
                    gen_ops_testcase(cls, func, op_info.name, data.keys(), value, op_info)
            delattr(cls, testcase)
        return cls

    return decorate
