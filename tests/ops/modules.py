"""The checks of an entry of the module database: outputs, gradients of inputs and parameters, and buffers."""

import copy
import dataclasses

import torch

from .checks import SEED, compare_call, gradients
from .compare import Tolerance
from .layouts import spread


@dataclasses.dataclass
class Call:
    """A call of a module as a sample: the arguments of forward, and the module's own tensors as more of them."""

    input: object
    args: tuple
    kwargs: dict


def module(info, dtype, count, training):
    tolerance = Tolerance.of(info)
    torch.manual_seed(SEED)
    inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    for one in spread(inputs, count):
        if one.forward_input is None:
            continue
        torch.manual_seed(SEED)
        built = info.module_cls(*one.constructor_input.args, **one.constructor_input.kwargs).to(dtype).train(training)
        call = Call(None, tuple(one.forward_input.args), dict(one.forward_input.kwargs))
        if info.is_lazy:
            built(*copy.deepcopy(call.args), **copy.deepcopy(call.kwargs))
            built.zero_grad()

        def run(placement, built=built):
            here = copy.deepcopy(built).to(placement.device)
            results = gradients(placement, lambda _, *args, **kwargs: here(*args, **kwargs), parameters=here.parameters())
            return [results, dict(here.named_buffers())]

        yield call, compare_call(call, run, tolerance)


def train(info, dtype, count):
    """Compares a call in training mode."""
    yield from module(info, dtype, count, training=True)


def evaluate(info, dtype, count):
    """Compares a call in evaluation mode."""
    yield from module(info, dtype, count, training=False)
