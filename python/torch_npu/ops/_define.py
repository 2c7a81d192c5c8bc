"""Decorators and helpers by which a family defines its operators.

    @op("npu_linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", called=lambda input_, weight, bias=None: ...)
    def linear(input, weight, bias=None):
        "The formula."

The function gets the schema's arguments. `called` has the names and defaults of the parameters of torch_npu.npu_linear where they
differ from the schema. Calls may also use the schema's names, and pass keyword-only arguments by position. For a parameter of the
schema type `int` a dtype arrives as a number, see dtypes.py.
"""

import functools
import inspect
import re

import torch

LIBRARY = torch.library.Library("npu", "FRAGMENT")
PUBLIC = {}


def op(schema, called=None, out=None):
    """Defines npu::NAME, whose kernel for all backends and autograd is the decorated function, and torch_npu.NAME. `out`, the
    schema text of the output tensors, also defines npu::NAME.out."""

    def define(function):
        name = schema[: schema.index("(")]
        LIBRARY.define(schema)
        LIBRARY.impl(name, function, "CompositeImplicitAutograd")
        base = name.split(".")[0]
        if base not in PUBLIC or called:
            PUBLIC[base] = _public(base, torch._C.parse_schema(f"npu::{schema}").arguments, function, called)
        if out:
            _define_out(name, schema, function, out)
        return function

    return define


def _define_out(name, schema, function, out):
    names = re.findall(r"Tensor\(\w!\) (\w+)", out)
    returns = ", ".join(re.findall(r"Tensor\(\w!\)", out))
    arguments = schema[schema.index("(") : schema.rindex(") -> ")]
    full = f"{name}.out{arguments}, {out}) -> {returns if len(names) == 1 else f'({returns})'}"

    def fill(*args, **kwargs):
        given = [kwargs.pop(name) for name in names]
        kwargs.pop("workspace", None)
        results = function(*args, **kwargs)
        for tensor, result in zip(given, (results,) if len(names) == 1 else results, strict=True):
            if result.numel() == 0:
                continue
            if tensor.numel() == 0:
                tensor.resize_(result.shape)
            check(tensor.shape == result.shape, name, f"out must have the shape {list(result.shape)}, not {list(tensor.shape)}")
            tensor.copy_(result)
        return given[0] if len(names) == 1 else tuple(given)

    LIBRARY.define(full)
    LIBRARY.impl(f"{name}.out", fill, "CompositeImplicitAutograd")


def function(plain):
    """Makes a function torch_npu.NAME without an operator."""
    PUBLIC[plain.__name__] = plain
    return plain


def check(condition, operator, message):
    """Raises ValueError with the operator's name unless the condition holds."""
    if not condition:
        raise ValueError(f"{operator}: {message}")


def precisely(function):
    """Disables autocast inside the function, so that float32 computations stay in float32."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        with torch._C._DisableAutocast():
            return function(*args, **kwargs)

    return run


def precise(x):
    """x, converted to float32 if it is float16 or bfloat16."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def refuse(operator, **arguments):
    """Raises NotImplementedError if one of the arguments, which softnpu does not support, is given."""
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise NotImplementedError(f"{operator} does not offer the argument {', '.join(given)}; leave it out")


def _public(name, arguments, function, called):
    own = [argument.name for argument in arguments]
    positional = sum(not argument.kwarg_only for argument in arguments)
    signature = inspect.signature(called) if called else inspect.Signature([_parameter(argument) for argument in arguments])
    listed = list(signature.parameters)
    unused_self = listed[0] == "self" and "query" in listed
    if unused_self:
        del listed[0]
    order = [own[i] if name not in own and i < len(own) else name for i, name in enumerate(listed)]
    renamed = dict(zip(listed, order, strict=True))
    order += [name for name in own if name not in order]
    tensors = {i for i, argument in enumerate(arguments) if str(argument.type) == "Tensor" and not argument.kwarg_only}

    @functools.wraps(function)
    def call(*args, **kwargs):
        if unused_self:
            kwargs.pop("self", None)
            args = args[1:] if len(args) > positional else args
        kwargs = {renamed.get(key, key): value for key, value in kwargs.items()}
        if len(args) > len(order):
            raise TypeError(f"{name}() takes {len(order)} arguments, but {len(args)} were given")
        for key, value in zip(order[positional:], args[positional:], strict=False):
            if key in kwargs:
                raise TypeError(f"{name}() got multiple values for argument '{key}'")
            kwargs[key] = value
        for i in tensors:
            if i < len(args) and args[i] is None:
                raise TypeError(f"{name}() takes a tensor for the argument '{own[i]}', not None")
        if kwargs.get("out", call) is None:
            del kwargs["out"]
        return getattr(torch.ops.npu, name)(*args[:positional], **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__module__ = "torch_npu"
    call.__signature__ = signature
    return call


def _parameter(argument):
    if argument.kwarg_only and not argument.has_default_value():
        return inspect.Parameter(argument.name, inspect.Parameter.KEYWORD_ONLY)
    default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
    return inspect.Parameter(argument.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
