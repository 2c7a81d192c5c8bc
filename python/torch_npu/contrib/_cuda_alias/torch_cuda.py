"""torch.cuda and its modules: each name is the one of torch.npu, a version in the form of torch.cuda, or a refusal."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from ...npu._utils import _get_device_index
from .replacement import REMOVED, Replacement

if TYPE_CHECKING:
    from torch.types import Device

_OTHER_NAMES = {
    "CUDAPluggableAllocator": "NPUPluggableAllocator",
    "CUDAGraph": "NPUGraph",
}


def replacements() -> Iterator[Replacement]:
    """For each name of torch.cuda: the entry of _own(), else the name of torch.npu, else _late(), which imports or refuses it."""
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
    # The modules of torch.cuda hold the same functions. Numbers and tuples may share an id, so only callables are replaced.
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
    yield cuda.nccl, "version", lambda: (0, 0, 0)  # older than every version that programs compare with
    yield cuda._utils, "_get_device_index", _get_device_index
    yield cuda, "_get_device_index", _get_device_index


def _late(name: str) -> Any:
    """torch.cuda.__getattr__: returns a name that torch.npu imports on demand, or a function or class that raises when called."""
    with contextlib.suppress(AttributeError):
        return getattr(torch.npu, _OTHER_NAMES.get(name, name))
    if name not in torch.cuda.__all__:
        raise AttributeError(f"module 'torch.cuda' has no attribute {name!r}")
    return _refusing(name)


@functools.cache
def _refusing(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> None:
        raise NotImplementedError(f"torch.cuda.{name} has no counterpart on npu")

    # A class stays a class: programs name it in annotations.
    return type(name, (), {"__init__": refuse, "__module__": "torch.cuda"}) if _is_class(name) else refuse


def _is_class(name: str) -> bool:
    return name in _OTHER_NAMES or name.endswith(("Tensor", "Storage"))


class _WithCapability:
    """The properties of an NPU, with the compute capability that programs for CUDA compare."""

    def __init__(self, properties: Any, major: int, minor: int) -> None:
        self._properties, self.major, self.minor = properties, major, minor

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_properties":  # copy.copy() reads these before the copy has attributes
            raise AttributeError(name)
        return getattr(self._properties, name)

    def __repr__(self) -> str:
        return repr(self._properties)


def _own() -> dict[str, Any]:
    """Names whose signature or result differs between torch.cuda and torch.npu, and names that only torch.cuda has."""

    def is_bf16_supported(including_emulation: bool = True) -> bool:
        return torch.npu.is_bf16_supported()

    def get_device_capability(device: Device = None) -> tuple[int, int]:
        """(8, 0) where torch.npu has none. NPUs have what programs use from 8.0 on (bfloat16), but not what needs more."""
        return torch.npu.get_device_capability(device) or (8, 0)

    def get_device_properties(device: Device = None) -> _WithCapability:
        properties = torch.npu.get_device_properties(device)
        return _WithCapability(properties, *get_device_capability(device))

    def get_gencode_flags() -> str:
        return ""

    def check_error(res: int) -> None:
        if res != 0:
            raise torch.cuda.CudaError(res)

    class cudart:
        """torch.cuda.cudart(): has only the two functions of NVIDIA's profilers, which do nothing."""

        def cudaProfilerStart(self) -> int:
            return 0

        def cudaProfilerStop(self) -> int:
            return 0

        def __getattr__(self, name: str) -> Any:
            raise NotImplementedError(f"torch.cuda.cudart().{name} has no counterpart on npu")

    class graph(torch.npu.graph):
        """torch.npu.graph with the parameters of torch.cuda.graph."""

        def __init__(
            self,
            cuda_graph: Any,
            pool: Any = None,
            stream: Any = None,
            capture_error_mode: str = "global",
            enable_annotations: bool = False,
            check_input_liveness: bool = False,
        ) -> None:
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
