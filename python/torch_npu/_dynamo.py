"""torch.compile on npu. Imported right after torch._dynamo (_tracing.py).

The backends eager, aot_eager, aot_eager_decomp_partition and those that other packages register work. `backend="npu"` is
aot_eager: the graph is captured, differentiated as a whole, and run operator by operator. inductor generates no code for npu and
is refused (`refuse_inductor`).

Streams, events, device contexts and device queries are traced without graph breaks, as those of torch.cuda are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.backends.registry import lookup_backend, register_backend
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._dynamo.eval_frame import skip_code

from . import _C, npu
from .npu import _watch


class NpuInterface(DeviceInterface):
    """The device functions that Dynamo calls."""

    device = npu.device
    Event = npu.Event
    Stream = npu.Stream
    current_device = staticmethod(npu.current_device)
    set_device = staticmethod(npu.set_device)
    device_count = staticmethod(npu.device_count)
    is_available = staticmethod(npu.is_available)
    stream = staticmethod(npu.stream)
    current_stream = staticmethod(npu.current_stream)
    set_stream = staticmethod(npu.set_stream)
    synchronize = staticmethod(npu.synchronize)
    get_device_properties = staticmethod(npu.get_device_properties)
    get_compute_capability = staticmethod(npu.get_device_name)
    memory_allocated = staticmethod(npu.memory_allocated)
    exchange_device = staticmethod(torch._C._accelerator_exchangeDevice)
    maybe_exchange_device = staticmethod(torch._C._accelerator_maybeExchangeDevice)

    class Worker:
        set_device = staticmethod(npu.set_device)
        current_device = staticmethod(npu.current_device)
        get_device_properties = staticmethod(npu.get_device_properties)

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return npu.is_bf16_supported()

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return npu.current_stream(device_idx).npu_stream

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        _C._npu_set_stream(stream_id, device_index, device_type)


def refuse_inductor(compile_fx: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps compile_fx of inductor: a graph with tensors on npu raises without_inductor()'s error."""

    @functools.wraps(compile_fx)
    def compile(model_: Any, example_inputs_: Any, *args: Any, **kwargs: Any) -> Any:
        if _touches_npu(model_, example_inputs_):
            return without_inductor(model_, example_inputs_)
        return compile_fx(model_, example_inputs_, *args, **kwargs)

    return compile


def without_inductor(graph: Any, inputs: Any) -> Any:
    """Called instead of inductor for a graph with tensors on npu. transfer_to_npu replaces it by `npu_backend`."""
    raise NotImplementedError(
        'the backend inductor generates no code for npu: write torch.compile(..., backend="npu"), '
        'or "aot_eager" or "eager", which run the captured graph operator by operator'
    )


def _touches_npu(model: Any, inputs: Any) -> bool:
    nodes = model.graph.nodes if isinstance(model, torch.fx.GraphModule) else ()
    values = [node.meta.get("val", node.meta.get("example_value")) for node in nodes]
    leaves = torch.utils._pytree.tree_leaves((values, inputs))
    return any(isinstance(leaf, torch.Tensor) and leaf.device.type == "npu" for leaf in leaves)


def npu_backend(graph: Any, inputs: Any, **options: Any) -> Any:
    """The backend aot_eager."""
    return lookup_backend("aot_eager")(graph, inputs, **options)


def _device_variable(generic: Any) -> Any:
    class NpuDeviceVariable(generic):
        _exchange_fn = NpuInterface.exchange_device
        _maybe_exchange_fn = NpuInterface.maybe_exchange_device
        _get_device_index_fn = staticmethod(npu._utils._get_device_index)

        def module_name(self) -> str:
            return "torch.npu"

        def python_type(self) -> type:
            return npu.device

    return NpuDeviceVariable


def _trace_torch_npu() -> None:
    """Makes Dynamo trace calls of torch.npu as the same calls of torch.accelerator, or as constants."""
    from torch._dynamo.variables import ctx_manager
    from torch._dynamo.variables.user_defined import UserDefinedClassVariable

    if hasattr(ctx_manager, "register_device_context_manager"):  # before torch 2.13 a device context breaks the graph
        ctx_manager.register_device_context_manager(npu.device, _device_variable(ctx_manager.GenericDeviceVariable))
    UserDefinedClassVariable._in_graph_classes().update((npu.Stream, npu.Event))
    torch.compiler.allow_in_graph(npu.stream)
    for name in (
        "is_available",
        "device_count",
        "get_device_name",
        "get_device_properties",
        "is_bf16_supported",
        "default_stream",
    ):
        torch.compiler.assume_constant_result(getattr(npu, name))

    @torch.compiler.substitute_in_graph(npu.current_device, skip_signature_check=True)
    def current_device() -> Any:
        return torch.accelerator.current_device_index()

    @torch.compiler.substitute_in_graph(npu.current_stream, skip_signature_check=True)
    def current_stream(device: Any = None) -> Any:
        return torch.accelerator.current_stream() if device is None else torch.accelerator.current_stream(device)

    @torch.compiler.substitute_in_graph(npu.synchronize, skip_signature_check=True)
    def synchronize(device: Any = None) -> Any:
        return torch.accelerator.synchronize() if device is None else torch.accelerator.synchronize(device)


def _keep_rules_of_cuda() -> None:
    """Dynamo looks the functions of torch.cuda up by name when it builds its rules, and again after init_process_group() has
    cleared them. While transfer_to_npu is applied, these names mean torch.npu's functions, which have rules of their own."""
    from torch._dynamo import trace_rules

    from ._tracing import with_names_of_cuda

    build = trace_rules.get_torch_obj_rule_map.__wrapped__

    @functools.cache
    def get_torch_obj_rule_map() -> Any:
        with with_names_of_cuda():
            return build()

    trace_rules.get_torch_obj_rule_map = get_torch_obj_rule_map


def _register() -> None:
    register_interface_for_device("npu", NpuInterface)
    for index in range(npu.device_count()):
        register_interface_for_device(f"npu:{index}", NpuInterface)
    register_backend(npu_backend, name="npu")
    _trace_torch_npu()
    _keep_rules_of_cuda()
    for function in (_watch._Operator._begin, _watch._Operator._end):  # observers of operators
        skip_code(function.__code__)


_register()
