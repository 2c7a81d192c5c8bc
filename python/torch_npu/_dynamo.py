"""torch.compile on npu. Imported when torch._dynamo is.

The backends eager, aot_eager, aot_eager_decomp_partition and those that others register work. `backend="npu"` is aot_eager under
the name that programs for NPUs use: the graph is captured, differentiated as a whole, and run operator by operator. inductor
generates no code for npu and is refused (`refuse_inductor`).

Streams, events, device contexts and questions about the device are traced as those of torch.cuda are, without graph breaks.
"""

import functools

import torch
from torch._dynamo.backends.registry import lookup_backend, register_backend
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device

from . import _C, npu


class NpuInterface(DeviceInterface):
    """What Dynamo asks a device for."""

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
    def is_bf16_supported(including_emulation=False):
        return npu.is_bf16_supported()

    @staticmethod
    def get_raw_stream(device_idx):
        return npu.current_stream(device_idx).npu_stream

    @staticmethod
    def _set_stream_by_id(stream_id, device_index, device_type):
        _C._npu_set_stream(stream_id, device_index, device_type)


def refuse_inductor(compile_fx):
    """compile_fx of inductor, but with one sentence for graphs that touch npu."""

    @functools.wraps(compile_fx)
    def compile(model_, example_inputs_, *args, **kwargs):
        if _touches_npu(model_, example_inputs_):
            return without_inductor(model_, example_inputs_)
        return compile_fx(model_, example_inputs_, *args, **kwargs)

    return compile


def without_inductor(graph, inputs):
    """What inductor does with a graph that touches npu. transfer_to_npu has `npu_backend` in its place."""
    raise NotImplementedError(
        'the backend inductor generates no code for npu: write torch.compile(..., backend="npu"), '
        'or "aot_eager" or "eager", which run the captured graph operator by operator'
    )


def _touches_npu(model, inputs):
    nodes = model.graph.nodes if isinstance(model, torch.fx.GraphModule) else ()
    values = [node.meta.get("val", node.meta.get("example_value")) for node in nodes]
    leaves = torch.utils._pytree.tree_leaves((values, inputs))
    return any(isinstance(leaf, torch.Tensor) and leaf.device.type == "npu" for leaf in leaves)


def npu_backend(graph, inputs, **options):
    """aot_eager: see the module."""
    return lookup_backend("aot_eager")(graph, inputs, **options)


def _device_variable(generic):
    class NpuDeviceVariable(generic):
        _exchange_fn = NpuInterface.exchange_device
        _maybe_exchange_fn = NpuInterface.maybe_exchange_device
        _get_device_index_fn = staticmethod(npu._utils._get_device_index)

        def module_name(self):
            return "torch.npu"

        def python_type(self):
            return npu.device

    return NpuDeviceVariable


def _trace_torch_npu():
    """How calls of torch.npu are traced: as the same calls of torch.accelerator, or as constants."""
    from torch._dynamo.variables import ctx_manager
    from torch._dynamo.variables.user_defined import UserDefinedClassVariable

    if hasattr(ctx_manager, "register_device_context_manager"):  # torch before 2.13: a device context breaks the graph
        ctx_manager.register_device_context_manager(npu.device, _device_variable(ctx_manager.GenericDeviceVariable))
    UserDefinedClassVariable._in_graph_classes().update({npu.Stream, npu.Event})
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
    def current_device():
        return torch.accelerator.current_device_index()

    @torch.compiler.substitute_in_graph(npu.current_stream, skip_signature_check=True)
    def current_stream(device=None):
        return torch.accelerator.current_stream() if device is None else torch.accelerator.current_stream(device)

    @torch.compiler.substitute_in_graph(npu.synchronize, skip_signature_check=True)
    def synchronize(device=None):
        return torch.accelerator.synchronize() if device is None else torch.accelerator.synchronize(device)


def _register():
    register_interface_for_device("npu", NpuInterface)
    for index in range(npu.device_count()):
        register_interface_for_device(f"npu:{index}", NpuInterface)
    register_backend(npu_backend, name="npu")
    _trace_torch_npu()


_register()
