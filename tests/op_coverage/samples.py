"""Calls to run on npu: op_db, the foreach databases, module_db and some programs of our own, as functions without arguments.

    for title, call in samples(dtypes=[torch.float32], count=1, look=30):
        call()

Of the first `look` samples of an entry, `count` are taken for each kind of arguments: a number for a tensor is another kind.
Dtypes other than WIDE have the first sample only.
"""

import collections
import functools
import itertools
import random
import warnings

import torch
from torch.testing._internal import common_methods_invocations as methods
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree

FOREACH = [entry for name in sorted(vars(methods)) if name.startswith("foreach_") and name.endswith("_op_db")
           for entry in getattr(methods, name)]  # fmt: skip


WIDE = (torch.float32, torch.int64)


def on_npu(value, gradients=False):
    """Copies on the device of all tensors in it; device arguments become npu."""

    def move(item):
        if isinstance(item, torch.Tensor):
            if item.layout != torch.strided or item.is_quantized:
                raise NotImplementedError("only strided tensors")
            return item.detach().to("npu").requires_grad_(gradients and item.requires_grad)
        if isinstance(item, torch.device) or item == "cpu":
            return "npu"
        return item

    return _pytree.tree_map(move, value)


def backward(results):
    roots = [item for item in _pytree.tree_leaves(results) if isinstance(item, torch.Tensor) and item.requires_grad]
    if roots:
        torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])


def run_sample(entry, sample):
    function = entry.op if entry.op is not None else entry.method_variant
    given, args, kwargs = on_npu((sample.input, sample.args, sample.kwargs), gradients=True)
    result = function(given, *args, **kwargs)
    backward(result)


def run_inplace(variant, sample):
    given, args, kwargs = on_npu((sample.input, sample.args, sample.kwargs))
    variant(given, *args, **kwargs)


def run_out(entry, sample):
    given, args, kwargs = on_npu((sample.input, sample.args, sample.kwargs))
    result = entry.op(given, *args, **kwargs)
    empty = _pytree.tree_map(lambda item: torch.empty_like(item) if isinstance(item, torch.Tensor) else item, result)
    entry.op(given, *args, **kwargs, out=tuple(empty) if isinstance(empty, tuple | list) else empty)


def forms_of(entry, sample):
    """In place and into out=, where there is such a form."""
    for variant in (entry.inplace_variant, getattr(entry, "inplace_operator_variant", None)):
        if variant is not None:
            yield functools.partial(run_inplace, variant, sample)
    if getattr(entry, "supports_out", False) and entry not in FOREACH:
        yield functools.partial(run_out, entry, sample)


def kind_of(sample):
    """The types of the arguments, by which overloads are chosen."""

    def kind(item):
        if isinstance(item, list | tuple):
            return f"{type(item).__name__}[{kind(item[0]) if item else ''}]"
        return type(item).__name__

    positional = [kind(item) for item in (sample.input, *sample.args)]
    return str((positional, sorted((name, kind(item)) for name, item in sample.kwargs.items())))


def chosen(samples, count, look):
    taken = collections.Counter()
    for sample in itertools.islice(samples, look):
        taken[kind_of(sample)] += 1
        if taken[kind_of(sample)] <= count:
            yield sample


def of_entry(entry, dtypes, count, look):
    for dtype in dtypes:
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        tracked = entry.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        given = entry.sample_inputs("cpu", dtype, requires_grad=tracked)
        torch.manual_seed(0)
        random.seed(0)
        taken = list(chosen(given, count, look if dtype in WIDE else 1))  # before other code draws random numbers
        for index, sample in enumerate(taken):
            yield f"{entry.full_name} {dtype} {index}", functools.partial(run_sample, entry, sample)
            for form in forms_of(entry, sample):
                yield f"{entry.full_name} {dtype} {index} {form.func.__name__}", form


def run_module(info, given, training):
    torch.manual_seed(0)
    args, kwargs = given.constructor_input.args, given.constructor_input.kwargs
    module = info.module_cls(*args, **kwargs).to("npu").train(training)
    args, kwargs = on_npu((given.forward_input.args, given.forward_input.kwargs), gradients=True)
    backward(module(*args, **kwargs))


def of_module(info, dtypes, count):
    for dtype in dtypes:
        if dtype not in info.dtypes or not dtype.is_floating_point:
            continue
        for training in (True, False):
            torch.manual_seed(0)
            inputs = info.module_inputs_func(info, "cpu", dtype, requires_grad=True, training=training)
            for index, given in enumerate(inputs[:count]):
                yield f"{info.name} {dtype} {index}", functools.partial(run_module, info, given, training)


def optimizer_step(make, gradients):
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(3, 4, device="npu")) for _ in range(2)]
    optimizer = make(parameters)
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter) if gradients else None
        optimizer.step()


def scaled_step():
    """Automatic mixed precision's operators."""
    parameter = torch.nn.Parameter(torch.ones(3, device="npu"))
    scaler, optimizer = torch.amp.GradScaler("npu"), torch.optim.SGD([parameter], lr=0.1)
    scaler.scale((parameter * 2).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def of_optimizers():
    for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD"):
        for way in ("foreach", "fused"):
            if way == "fused" and name not in ("SGD", "Adam", "AdamW", "Adagrad"):
                continue
            more = {"momentum": 0.9} if name == "SGD" else {}
            make = functools.partial(getattr(torch.optim, name), lr=0.01, **{way: True}, **more)
            yield f"{name} {way}", functools.partial(optimizer_step, make, True)
    yield "amp", scaled_step


def interpolate(size):
    given = torch.ones(1, 1, *(2 for _ in size), device="npu", requires_grad=True)
    torch.nn.functional.interpolate(given, size=size, mode="nearest").sum().backward()


def of_others():
    """Operators that no database calls."""
    x = torch.linspace(-1, 1, 6, device="npu")
    yield "random_", lambda: (x.clone().random_(), x.clone().random_(5), x.clone().random_(2, 5), x.clone().bernoulli_(0.5))
    yield "normal", lambda: (torch.normal(x, 1.0), torch.normal(0.0, x.abs()), torch.poisson(x.abs()))
    yield "set_", lambda: (torch.empty(0, device="npu").set_(x), x.clone().set_(), x.clone().set_(x.untyped_storage()))
    yield "is_set_to", lambda: (x.is_set_to(x), x.record_stream(torch.npu.current_stream()))
    yield "pick", lambda: (torch.range(0, 3, out=x.clone()), torch.remainder(2, x), torch.clamp(x, max=0.5, out=x.clone()))
    yield "clamp", lambda: (torch.clamp_max(x, 0.5, out=x.clone()), torch.randperm(4, out=torch.empty(4, device="npu").long()))
    yield "renorm", lambda: torch.nn.functional.embedding(torch.tensor([0, 2], device="npu"), x.view(3, 2).clone(), max_norm=0.1)
    for size in ((4, 4), (4, 4, 4)):
        yield "nearest", functools.partial(interpolate, size)
    yield "silu", lambda: torch.nn.functional.silu(x.clone().requires_grad_()).sum().backward()


def samples(dtypes, count, look, only=""):
    """Title and call; sample functions that the database itself cannot run are left out."""
    for entry in methods.op_db:
        if only in entry.full_name:
            yield from guarded(of_entry(entry, dtypes, count, look))
    for entry in FOREACH:
        if only in entry.full_name:
            yield from guarded(of_entry(entry, dtypes, count, 40))
    for info in module_db:
        if only in info.name:
            yield from guarded(of_module(info, dtypes, count))
    if not only:
        yield from of_optimizers()
        yield from of_others()


def guarded(generator):
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                item = next(generator)
        except StopIteration:
            return
        except Exception:
            return
        yield item
