"""What torch_npu.contrib.transfer_to_npu exchanges in torch, as (owner, name, value); all else is done by torch_npu._C."""

import codecs
import contextlib
import functools
import inspect
import types

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ..npu._utils import _get_device_index

REMOVED = object()
"""The value of a name that is to be found by the module's __getattr__."""

_OTHER_NAMES = {
    "CUDAPluggableAllocator": "NPUPluggableAllocator",
    "CUDAGraph": "NPUGraph",
}


class Name(str):
    """What torch says of an NPU, such as "npu", "npu:0" or "torch.npu.FloatTensor", to a program that asks for CUDA: it equals,
    begins with and contains also what torch would say of CUDA. Dicts and sets know it as npu. Pickled, it is a str, also where
    torch.load(weights_only=True) reads it without torch_npu."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other):
        return str.__eq__(self, other) is True or (isinstance(other, str) and str.__eq__(self._of_cuda(), other))

    def __ne__(self, other):
        return not self == other

    def __contains__(self, part):
        return str.__contains__(self, part) or part in self._of_cuda()

    def startswith(self, prefix, *limits):
        return str.startswith(self, prefix, *limits) or self._of_cuda().startswith(prefix, *limits)

    def _of_cuda(self):
        return self.replace("npu", "cuda", 1)

    def __reduce__(self):
        # Of the functions that weights_only admits, the only one that gives a str, and it gives another one than it gets.
        return codecs.encode, (codecs.encode(str(self), "rot13"), "rot13")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


def exchanges():
    yield from _torch_cuda()
    yield from _profilers()
    yield from _tensors()
    yield from _checkpoints()
    yield from _autocast()
    yield from _tracing()
    yield from _scripts()
    yield from _distributed()
    # Its warning that torch was built without cuDNN is of no use here.
    yield torch.backends.cudnn, "is_acceptable", lambda tensor: False


def _torch_cuda():
    """torch.cuda and its modules: the function of torch.npu, what `_own` has instead, or a refusal."""
    cuda, npu = torch.cuda, torch.npu
    own = _own()
    private = ("_initialized", "_is_in_bad_fork", "_lazy_call", "_lazy_init", "_sleep")
    names = [name for name in (*cuda.__all__, *private) if not isinstance(vars(cuda).get(name), types.ModuleType)]
    twins = {}
    for name in names:
        if name in own:
            twins[name] = own[name]
        elif name in vars(npu):
            twins[name] = vars(npu)[name]
        elif _is_class(name) or name in npu._ON_DEMAND or not isinstance(vars(cuda).get(name), (bool, type)):
            twins[name] = REMOVED
    yield cuda, "__getattr__", _late
    originals = {id(vars(cuda)[name]): twin for name, twin in twins.items() if name in vars(cuda) and twin is not REMOVED}
    for name, twin in twins.items():
        if twin is not REMOVED or name in vars(cuda):
            yield cuda, name, twin
    # The same functions by their longer names. Numbers and tuples are no names of functions.
    for module in (cuda.graphs, cuda.memory, cuda.profiler, cuda.random, cuda.streams, cuda._utils):
        for name, value in list(vars(module).items()):
            if id(value) in originals and callable(value):
                yield module, name, originals[id(value)]
    for name in ("CUDAGraph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"):
        yield cuda.graphs, name, getattr(npu, _OTHER_NAMES.get(name, name))
    for name in ("_record_memory_history", "_snapshot", "_dump_snapshot"):
        if name in vars(npu.memory):
            yield cuda.memory, name, vars(npu.memory)[name]
    yield npu.Stream, "cuda_stream", npu.Stream.npu_stream
    yield npu.Event, "cuda_event", npu.Event.npu_event
    yield cuda.nccl, "is_available", lambda tensors: False
    yield cuda.nccl, "version", lambda: (0, 0, 0)  # older than all that programs ask for
    yield cuda._utils, "_get_device_index", _get_device_index
    yield cuda, "_get_device_index", _get_device_index


def _late(name):
    """torch.cuda.__getattr__: what torch.npu imports when it is asked for, and what has no twin there."""
    with contextlib.suppress(AttributeError):
        return getattr(torch.npu, _OTHER_NAMES.get(name, name))
    if name not in torch.cuda.__all__:
        raise AttributeError(f"module 'torch.cuda' has no attribute {name!r}")
    return _refusing(name)


@functools.cache
def _refusing(name):
    def refuse(*_, **__):
        raise NotImplementedError(f"torch.cuda.{name} has no counterpart on npu")

    # A class stays a class: programs name it in annotations.
    return type(name, (), {"__init__": refuse, "__module__": "torch.cuda"}) if _is_class(name) else refuse


def _is_class(name):
    return name in _OTHER_NAMES or name.endswith(("Tensor", "Storage"))


class _WithCapability:
    """The properties of an NPU, with the numbers that programs for CUDA compare."""

    def __init__(self, properties, major, minor):
        self._properties, self.major, self.minor = properties, major, minor

    def __getattr__(self, name):
        if name.startswith("__") or name == "_properties":  # a copy is asked for these before it has any attribute
            raise AttributeError(name)
        return getattr(self._properties, name)

    def __repr__(self):
        return repr(self._properties)


def _own():
    """What torch.cuda answers in another form than torch.npu does, or only torch.cuda has."""

    def is_bf16_supported(including_emulation=True):
        return torch.npu.is_bf16_supported()

    def get_device_capability(device=None):
        """(8, 0) where torch.npu tells none: an NPU has what programs use from there on (bfloat16), but not what needs more."""
        return torch.npu.get_device_capability(device) or (8, 0)

    def get_device_properties(device=None):
        properties = torch.npu.get_device_properties(device)
        return _WithCapability(properties, *get_device_capability(device))

    def get_gencode_flags():
        return ""

    def check_error(res):
        if res != 0:
            raise torch.cuda.CudaError(res)

    class cudart:
        """torch.cuda.cudart(): of the runtime, only the switches of NVIDIA's profilers, which do nothing."""

        def cudaProfilerStart(self):
            return 0

        def cudaProfilerStop(self):
            return 0

        def __getattr__(self, name):
            raise NotImplementedError(f"torch.cuda.cudart().{name} has no counterpart on npu")

    class graph(torch.npu.graph):
        """Has other parameters, in another order."""

        def __init__(
            self,
            cuda_graph,
            pool=None,
            stream=None,
            capture_error_mode="global",
            enable_annotations=False,
            check_input_liveness=False,
        ):
            super().__init__(cuda_graph, pool, stream, capture_error_mode=capture_error_mode)

    return {
        "graph": graph,
        "is_bf16_supported": is_bf16_supported,
        "get_device_capability": get_device_capability,
        "get_device_properties": get_device_properties,
        "get_gencode_flags": get_gencode_flags,
        "check_error": check_error,
        "cudart": cudart,
        "has_half": True,
        "default_generators": REMOVED,
        "_initialized": REMOVED,
    }


def _profile_on_npu(init):
    @functools.wraps(init)
    def __init__(self, *args, use_cuda=False, use_device=None, **kwargs):
        on_cuda = use_cuda or (use_device is not None and use_device == "cuda")
        init(self, *args, use_device="npu" if on_cuda else use_device, **kwargs)

    return __init__


def _profilers():
    """That of torch times npu. Marks are for NVIDIA's tools, which see nothing of npu."""
    depth = 0

    def range_push(msg):
        nonlocal depth
        depth += 1
        return depth - 1

    def range_pop():
        nonlocal depth
        depth -= 1
        return depth

    yield torch.cuda.nvtx, "range_push", range_push
    yield torch.cuda.nvtx, "range_pop", range_pop
    yield torch.cuda.nvtx, "range_start", lambda msg: 0
    yield torch.cuda.nvtx, "range_end", lambda range_id: None
    yield torch.cuda.nvtx, "mark", lambda msg: None
    yield torch.autograd.profiler.profile, "__init__", _profile_on_npu(torch.autograd.profiler.profile.__init__)
    yield torch.autograd.profiler.emit_nvtx, "__enter__", lambda self: self if self.enabled else None
    yield torch.autograd.profiler.emit_nvtx, "__exit__", lambda self, *error: False


def _tensors():
    Tensor = torch.Tensor
    as_type, pin_memory, is_pinned = Tensor.type, Tensor.pin_memory, Tensor.is_pinned
    set_default_type = torch.set_default_tensor_type

    def cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
        there = torch.device("npu", _get_device_index(device, optional=True))
        return self.to(there, non_blocking=non_blocking, memory_format=memory_format)

    @functools.wraps(as_type)
    def type_(self, dtype=None, *args, **kwargs):
        if isinstance(dtype, str):
            dtype = str(dtype).replace("torch.cuda.", "torch.npu.")
        found = as_type(self, dtype, *args, **kwargs)
        return Name(found) if isinstance(found, str) and self.is_npu else found

    @functools.wraps(set_default_type)
    def set_default_tensor_type(t, /):
        set_default_type(t.replace("torch.cuda.", "torch.npu.") if isinstance(t, str) else t)

    yield Tensor, "cuda", cuda
    yield Tensor, "is_cuda", property(lambda self: self.is_npu)
    yield Tensor, "type", type_
    yield torch, "set_default_tensor_type", set_default_tensor_type
    # Which device it is pinned for is a word of the past: there is one accelerator.
    yield Tensor, "pin_memory", lambda self, device=None: pin_memory(self)
    yield Tensor, "is_pinned", lambda self, device=None: is_pinned(self)


def _checkpoints():
    """map_location={"cuda:0": ...} is also meant for what was saved from npu."""
    by_location = torch.serialization._get_restore_location

    def by_location_of_npu(map_location):
        if isinstance(map_location, dict):
            twins = {name.replace("cuda", "npu", 1): value for name, value in map_location.items() if name.startswith("cuda")}
            map_location = twins | map_location
        return by_location(map_location)

    yield torch.serialization, "_get_restore_location", by_location_of_npu


def _autocast():
    """The state of torch.autocast("cuda"), which is kept by device type. Without one, "cuda" is meant."""

    def by_type(function):
        @functools.wraps(function)
        def for_npu(device_type="npu", *args):
            if isinstance(device_type, bool):  # the old form: of CUDA
                return function("npu", device_type)
            return function("npu" if device_type == "cuda" else device_type, *args)

        return for_npu

    for name in ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype"):
        twin = by_type(getattr(torch, name))
        _keep_scripting(getattr(torch, name), twin)
        yield torch, name, twin
    yield torch, "get_autocast_gpu_dtype", functools.partial(torch.get_autocast_dtype, "npu")
    yield torch, "set_autocast_gpu_dtype", functools.partial(torch.set_autocast_dtype, "npu")


def _keep_scripting(function, twin):
    """torch.jit.script knows functions of torch by identity."""
    operator = torch.jit._builtins._find_builtin(function)
    if operator is not None:
        torch.jit._builtins._register_builtin(twin, operator)


def _without_cuda(value):
    if isinstance(value, torch.device) and str.__eq__(value.type, "cuda"):
        return torch.device("npu", value.index) if value.index is not None else torch.device("npu")
    return value


def _naming_npu(args, kwargs):
    return tuple(map(_without_cuda, args)), {name: _without_cuda(value) for name, value in (kwargs or {}).items()}


def _tracing():
    """Tensors without data, of torch.compile and others, are made for npu too."""
    dispatch = FakeTensorMode.dispatch

    @functools.wraps(dispatch)
    def dispatch_for_npu(self, func, types, args=(), kwargs=None):
        return dispatch(self, func, types, *_naming_npu(args, kwargs))

    yield FakeTensorMode, "dispatch", dispatch_for_npu


def _graphs():
    """Graphs of torch.export and make_fx name npu, so that they run where cuda does not mean npu."""
    from torch.fx.experimental import proxy_tensor

    record, mode = proxy_tensor.proxy_call, proxy_tensor.PreDispatchTorchFunctionMode
    record_function = mode.__torch_function__

    @functools.wraps(record)
    def record_npu(proxy_mode, func, pre_dispatch, args, kwargs):
        return record(proxy_mode, func, pre_dispatch, *_naming_npu(args, kwargs))

    @functools.wraps(record_function)
    def record_autocast_of_npu(self, func, types, args=(), kwargs=None):
        if func is torch.amp.autocast_mode._enter_autocast and args[0] == "cuda":
            args = ("npu", *args[1:])
        return record_function(self, func, types, args, kwargs)

    yield proxy_tensor, "proxy_call", record_npu
    yield mode, "__torch_function__", record_autocast_of_npu


def _symbolic_traces():
    """So do the graphs of torch.fx.symbolic_trace when they are pickled; until then they hold what the program says."""
    from torch.fx.graph_module import GraphModule

    reduce = GraphModule.__reduce__

    def named(value):
        if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
            return value.replace("cuda", "npu", 1)
        return _without_cuda(value)

    @functools.wraps(reduce)
    def reduce_for_npu(self):
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


def _scripts():
    """Files of TorchScript name npu, for the same reason."""

    def naming_npu(save):
        @functools.wraps(save)
        def save_for_npu(self, *args, **kwargs):
            for graph in _graphs_of(self._c):
                _name_npu(graph)
            return save(self, *args, **kwargs)

        return save_for_npu

    @functools.wraps(torch.jit.save)
    def save(m, *args, **kwargs):
        if isinstance(m, torch.jit.ScriptFunction):
            _name_npu(m.graph)
        return original(m, *args, **kwargs)

    original = torch.jit.save
    yield torch.jit, "save", save
    for module in (torch.jit.ScriptModule, torch.jit.RecursiveScriptModule):
        for name in ("save", "save_to_buffer"):
            if hasattr(module, name):  # PYTORCH_JIT=0 leaves none
                yield module, name, naming_npu(getattr(module, name))


def _graphs_of(module):
    for name in module._method_names():
        yield module._get_method(name).graph
    for _, child in torch._C.ModuleDict(module).items():
        yield from _graphs_of(child)


def _name_npu(graph):
    """Devices that are constants of a TorchScript graph, and x.cuda()."""
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


def _distributed():
    """nccl is hccl."""
    if not torch.distributed.is_available():
        return

    def with_hccl(function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args, **kwargs):
            given = signature.bind(*args, **kwargs)
            backend = given.arguments.get("backend")
            if isinstance(backend, str) and "nccl" in backend.lower():
                _check_hccl()
                given.arguments["backend"] = backend.lower().replace("nccl", "hccl").replace("cuda:", "npu:")
            return function(*given.args, **given.kwargs)

        return call

    c10d = torch.distributed.distributed_c10d
    for name in ("init_process_group", "new_group"):
        twin = with_hccl(getattr(c10d, name))
        yield c10d, name, twin
        yield torch.distributed, name, twin


def _check_hccl():
    if not hasattr(torch.distributed.Backend, "HCCL"):
        raise NotImplementedError(
            "the backend nccl becomes hccl on npu, which this version does not have; use backend='gloo' with tensors on the CPU, "
            "or one process"
        )


def _dynamo():
    """What a device is called is a constant for Dynamo, as every str is."""
    from torch._dynamo import utils

    utils.common_constant_types.add(Name)
    return ()


def _yaml():
    """What a device is called is a str, which it writes by exact type."""
    import yaml

    for representer in (yaml.representer.SafeRepresenter, yaml.representer.Representer):
        representer.add_representer(Name, lambda dumper, name: dumper.represent_str(str(name)))
    return ()


def _compile():
    """torch.compile(model), which names no backend."""
    from .. import _dynamo

    yield _dynamo, "without_inductor", _dynamo.npu_backend


def _extensions():
    """Sources of CUDA kernels are not compiled for npu."""
    from torch.utils import cpp_extension

    def refuse(what):
        raise NotImplementedError(
            f"{what} compiles CUDA kernels, which do not run on npu; use the operators of torch in their place, or write the "
            f"extension for npu: torch_npu.utils.cpp_extension.NpuExtension"
        )

    load = cpp_extension._jit_compile

    @functools.wraps(load)
    def load_without_cuda(name, sources, *args, **kwargs):
        if any(cpp_extension._is_cuda_file(source) for source in sources):
            refuse(f"the extension {name}")
        return load(name, sources, *args, **kwargs)

    yield cpp_extension, "CUDAExtension", lambda name, *_, **__: refuse(f"CUDAExtension({name!r})")
    yield cpp_extension, "_jit_compile", load_without_cuda


LATER = {
    "torch._dynamo.utils": _dynamo,
    "torch.fx.experimental.proxy_tensor": _graphs,
    "torch.fx.graph_module": _symbolic_traces,
    "torch.utils.cpp_extension": _extensions,
    "torch_npu._dynamo": _compile,
    "yaml": _yaml,
}
"""What is exchanged in modules that few programs import."""
