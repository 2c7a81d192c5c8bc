"""Traced and scripted graphs: they name npu, so that they run where "cuda" does not mean npu."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .device_name import Name
from .replacement import Replacement


def fake_tensors() -> Iterator[Replacement]:
    """Tensors without data, such as those of torch.compile, are made for npu."""
    dispatch = FakeTensorMode.dispatch

    @functools.wraps(dispatch)
    def dispatch_for_npu(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(self, func, types, *_naming_npu(args, kwargs))

    yield FakeTensorMode, "dispatch", dispatch_for_npu


def exported_graphs() -> Iterator[Replacement]:
    """Graphs of torch.export and make_fx."""
    from torch.fx.experimental import proxy_tensor

    record, mode = proxy_tensor.proxy_call, proxy_tensor.PreDispatchTorchFunctionMode
    record_function = mode.__torch_function__

    @functools.wraps(record)
    def record_npu(proxy_mode: Any, func: Any, pre_dispatch: Any, args: Any, kwargs: Any) -> Any:
        return record(proxy_mode, func, pre_dispatch, *_naming_npu(args, kwargs))

    @functools.wraps(record_function)
    def record_autocast_of_npu(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.amp.autocast_mode._enter_autocast and args[0] == "cuda":
            args = ("npu", *args[1:])
        return record_function(self, func, types, args, kwargs)

    yield proxy_tensor, "proxy_call", record_npu
    yield mode, "__torch_function__", record_autocast_of_npu


def symbolic_traces() -> Iterator[Replacement]:
    """Graphs of torch.fx.symbolic_trace: they keep "cuda" until they are pickled."""
    from torch.fx.graph_module import GraphModule

    reduce = GraphModule.__reduce__

    def named(value: Any) -> Any:
        if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
            return value.replace("cuda", "npu", 1)
        return _without_cuda(value)

    @functools.wraps(reduce)
    def reduce_for_npu(self: Any) -> Any:
        for node in self.graph.nodes:
            if "device" in node.kwargs:
                node.kwargs = {**node.kwargs, "device": named(node.kwargs["device"])}
            if node.op == "call_method" and node.target == "to":
                node.args = (node.args[0], *map(named, node.args[1:]))
            if node.op == "call_method" and node.target == "cuda":
                node.target = "npu"
        self.recompile()
        return reduce(self)

    yield GraphModule, "__reduce__", reduce_for_npu


def scripts() -> Iterator[Replacement]:
    """Graphs of TorchScript, when they are saved."""

    def naming_npu(save: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(save)
        def save_for_npu(self: Any, *args: Any, **kwargs: Any) -> Any:
            for graph in _graphs_of(self._c):
                _name_npu(graph)
            return save(self, *args, **kwargs)

        return save_for_npu

    @functools.wraps(torch.jit.save)
    def save(m: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(m, torch.jit.ScriptFunction):
            _name_npu(m.graph)
        return original(m, *args, **kwargs)

    original = torch.jit.save
    yield torch.jit, "save", save
    for module in (torch.jit.ScriptModule, torch.jit.RecursiveScriptModule):
        for name in ("save", "save_to_buffer"):
            if hasattr(module, name):  # with PYTORCH_JIT=0 they do not exist
                yield module, name, naming_npu(getattr(module, name))


def dynamo_constants() -> Iterable[Replacement]:
    """Dynamo treats a Name as a constant, as it treats every str."""
    from torch._dynamo import utils

    utils.common_constant_types.add(Name)
    return ()


def compiled_without_backend() -> Iterator[Replacement]:
    """torch.compile(model) without a backend uses that of npu."""
    from ... import _dynamo

    yield _dynamo, "without_inductor", _dynamo.npu_backend


def _without_cuda(value: Any) -> Any:
    if isinstance(value, torch.device) and str.__eq__(value.type, "cuda"):
        return torch.device("npu", value.index) if value.index is not None else torch.device("npu")
    return value


def _naming_npu(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(_without_cuda, args)), {name: _without_cuda(value) for name, value in (kwargs or {}).items()}


def _graphs_of(module: Any) -> Iterator[Any]:
    for name in module._method_names():
        yield module._get_method(name).graph
    for _, child in torch._C.ModuleDict(module).items():
        yield from _graphs_of(child)


def _name_npu(graph: Any) -> None:
    """Replaces device constants of a TorchScript graph, and calls of x.cuda()."""
    for node in graph.findAllNodes("prim::Constant"):
        if node.output().type().kind() == "DeviceObjType" and node.s("value").startswith("cuda"):
            node.s_("value", node.s("value").replace("cuda", "npu", 1))
    for node in graph.findAllNodes("aten::cuda"):
        graph.setInsertPoint(node)
        device, no, nothing = (graph.insertConstant(value) for value in (torch.device("npu"), False, None))
        moved = graph.create("aten::to", [next(node.inputs()), device, nothing, no, no], 1).insertBefore(node)
        moved.output().setType(node.output().type())
        node.output().replaceAllUsesWith(moved.output())
        node.destroy()
