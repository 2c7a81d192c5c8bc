"""Libraries beside the tensors: process groups, C++ extensions and YAML."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import torch

from ..._api_status import marked
from .device_name import Name
from .replacement import Replacement


def process_groups() -> Iterator[Replacement]:
    """The backend nccl becomes hccl, and is available if hccl is."""
    if not torch.distributed.is_available():
        return

    def with_hccl(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs)
            backend = given.arguments.get("backend")
            if isinstance(backend, str) and "nccl" in backend.lower():
                given.arguments["backend"] = backend.lower().replace("nccl", "hccl").replace("cuda:", "npu:")
            return function(*given.args, **given.kwargs)

        return call

    c10d = torch.distributed.distributed_c10d
    for name in ("init_process_group", "new_group"):
        twin = with_hccl(getattr(c10d, name))
        yield c10d, name, twin
        yield torch.distributed, name, twin
    for module in (c10d, torch.distributed):
        yield module, "is_nccl_available", lambda: torch.distributed.is_hccl_available()


def extensions() -> Iterator[Replacement]:
    """Extensions with CUDA sources are refused."""
    from torch.utils import cpp_extension

    def refuse(what: str) -> NoReturn:
        raise NotImplementedError(
            f"{what} compiles CUDA kernels, which do not run on npu; use the operators of torch in their place, or write the "
            f"extension for npu: torch_npu.utils.cpp_extension.NpuExtension"
        )

    load = cpp_extension._jit_compile

    @functools.wraps(load)
    def load_without_cuda(name: str, sources: Any, *args: Any, **kwargs: Any) -> Any:
        if any(cpp_extension._is_cuda_file(source) for source in sources):
            refuse(f"the extension {name}")
        return load(name, sources, *args, **kwargs)

    def cuda_extension(name: str, *_: Any, **__: Any) -> NoReturn:
        refuse(f"CUDAExtension({name!r})")

    yield cpp_extension, "CUDAExtension", marked(cuda_extension, "not offered", "CUDA kernels do not run on npu")
    yield cpp_extension, "_jit_compile", load_without_cuda


def yaml_strings() -> Iterable[Replacement]:
    """YAML chooses a representer by the exact type: a Name is written as a str."""
    import yaml

    for representer in (yaml.representer.SafeRepresenter, yaml.representer.Representer):
        representer.add_representer(Name, lambda dumper, name: dumper.represent_str(str(name)))
    return ()
