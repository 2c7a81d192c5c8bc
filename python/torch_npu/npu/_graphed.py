"""torch.npu.make_graphed_callables: functions and modules whose forward and backward passes are replayed graphs.

Each call copies its inputs into the static inputs of the graphs. The graphs write static outputs, which the next call overwrites.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import devices, graphs, streams


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int, allow_unused_input: bool, pool: tuple[int, int] | None
) -> Any:
    if torch.is_autocast_enabled("npu") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not work with the cache of autocast, whose casts would not be captured; "
            "write torch.autocast('npu', cache_enabled=False)"
        )
    is_single = not isinstance(callables, tuple)
    if is_single:
        callables, sample_args = (callables,), (sample_args,)
    if len(callables) != len(sample_args):
        raise ValueError(f"{len(callables)} callables need as many sample_args, but {len(sample_args)} were given")
    parts = [_Part(*each, allow_unused_input) for each in zip(callables, sample_args, strict=True)]
    devices.synchronize()
    with streams.stream(streams.Stream()):
        for part in parts:
            part.warm_up(num_warmup_iters)
    devices.synchronize()
    pool = graphs.graph_pool_handle() if pool is None else pool
    for part in parts:
        part.capture_forward(pool)
    for part in reversed(parts):
        part.capture_backward(pool)
    graphed = tuple(part.replacement() for part in parts)
    return graphed[0] if is_single else graphed


class _Part:
    """A callable with its static tensors and its two graphs."""

    def __init__(self, function: Callable[..., Any] | None, args: tuple[Any, ...], allow_unused: bool) -> None:
        self.function: Any = function
        self.allow_unused = allow_unused
        self.args = args
        self.flat_args = pytree.arg_tree_leaves(*args)
        for value in self.flat_args:
            if not isinstance(value, torch.Tensor):
                raise TypeError(f"sample_args must be tensors, in any structure, but one is of type {type(value).__name__}")
        self.parameters = ()
        if isinstance(function, torch.nn.Module):
            _check_module(function)
            self.parameters = tuple(function.parameters())
        self.inputs = (*self.flat_args, *self.parameters)

    def _gradients(
        self, outputs: tuple[torch.Tensor, ...], grad_outputs: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor | None, ...]:
        needed = tuple(tensor for tensor in self.inputs if tensor.requires_grad)
        if not needed or not outputs:
            return ()
        return torch.autograd.grad(outputs, needed, grad_outputs, only_inputs=True, allow_unused=self.allow_unused)

    def warm_up(self, count: int) -> None:
        for _ in range(count):
            outputs = pytree.tree_leaves(self.function(*self.args))
            outputs = tuple(output for output in outputs if output.requires_grad)
            self._gradients(outputs, tuple(torch.empty_like(output) for output in outputs))

    def capture_forward(self, pool: tuple[int, int]) -> None:
        self.forward_graph = graphs.NPUGraph()
        with graphs.graph(self.forward_graph, pool=pool):
            result = self.function(*self.args)
        outputs, self.result_spec = pytree.tree_flatten(result)
        self.outputs = tuple(outputs)

    def capture_backward(self, pool: tuple[int, int]) -> None:
        outputs = tuple(output for output in self.outputs if output.requires_grad)
        self.grad_outputs = tuple(torch.empty_like(output) if output.requires_grad else None for output in self.outputs)
        self.backward_graph = None
        gradients: tuple[torch.Tensor | None, ...] = ()
        if outputs:
            self.backward_graph = graphs.NPUGraph()
            with graphs.graph(self.backward_graph, pool=pool):
                gradients = self._gradients(outputs, tuple(grad for grad in self.grad_outputs if grad is not None))
        rest = iter(gradients)
        self.grad_inputs = tuple(next(rest, None) if tensor.requires_grad else None for tensor in self.inputs)
        self.outputs = tuple(output.detach() for output in self.outputs)  # releases the autograd nodes, which are used up

    def __call__(self, *args: Any) -> Any:
        flat = pytree.arg_tree_leaves(*args)
        if len(flat) != len(self.flat_args):
            raise ValueError(f"the graph was captured with {len(self.flat_args)} tensors, but {len(flat)} are given")
        for number, (static, given) in enumerate(zip(self.flat_args, flat, strict=True)):
            if static.shape != given.shape:
                raise ValueError(
                    f"the graph was captured with shape {list(static.shape)} for tensor {number}, but {list(given.shape)} is "
                    "given; graph a callable for each shape"
                )
        return pytree.tree_unflatten(_Replay.apply(self, *flat, *self.parameters), self.result_spec)

    def replacement(self) -> Any:
        if not isinstance(self.function, torch.nn.Module):
            return self
        module, original, was_training = self.function, self.function.forward, self.function.training

        def forward(*args: Any) -> Any:
            return self(*args) if module.training == was_training else original(*args)

        module.forward = forward
        self.function = None
        return module


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: _Part, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.part = part
        for static, given in zip(part.flat_args, inputs, strict=False):
            if static.data_ptr() != given.data_ptr():
                static.copy_(given)
        part.forward_graph.replay()
        return tuple(output.detach() for output in part.outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[Any, ...]:
        part = ctx.part
        for static, given in zip(part.grad_outputs, gradients, strict=True):
            if static is not None and given is not None and static.data_ptr() != given.data_ptr():
                static.copy_(given)
        if part.backward_graph is not None:
            part.backward_graph.replay()
        return None, *(None if grad is None else grad.detach() for grad in part.grad_inputs)


def _check_module(module: torch.nn.Module) -> None:
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
        raise RuntimeError("a module must have no hooks when its graphs are captured; register them afterwards")
    if any(buffer.requires_grad for buffer in module.buffers()):
        raise RuntimeError("buffers of a module must not require gradients when its graphs are captured; only parameters may")
