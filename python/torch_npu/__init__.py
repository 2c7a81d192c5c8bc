"""PyTorch on Ascend NPUs: `import torch_npu` gives torch the device `npu` and the module `torch.npu`.

The import does not start a device. The first use of the device reports a missing device library.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from ._commands import run_if_asked

run_if_asked()

import torch  # noqa: E402

try:
    from ._built_for import TORCH as _BUILT_FOR
except ModuleNotFoundError:  # only a build has it
    raise ImportError(
        f"{os.path.dirname(__file__)} has the sources of torch_npu, not a build. Python found them before the installed package: "
        "start it in another folder, and remove this one from PYTHONPATH. scripts/build makes a build and installs it."
    ) from None
from .version import __version__  # noqa: E402


def _check_torch() -> None:
    found = ".".join(torch.__version__.split(".")[:2])
    if found != _BUILT_FOR:
        raise ImportError(
            f"torch_npu {__version__} was built for torch {_BUILT_FOR}, but torch {torch.__version__} is installed. "
            f"Install torch {_BUILT_FOR}, or a torch_npu that was built for torch {found}."
        )


def _register() -> None:
    torch.utils.rename_privateuse1_backend("npu")
    torch._register_device_module("npu", npu)
    _module_aliases.register()
    quantized = [torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8]
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True, unsupported_dtype=quantized)
    activities = torch._C._profiler.ProfilerActivity
    if not hasattr(activities, "NPU"):  # torch before 2.13
        activities.NPU = activities.PrivateUse1
    npu._data_parallel.install()
    _C._storage_Use_Count = torch._C._storage_Use_Count  # trl reads it from torch_npu._C
    reductions._register()
    ops.register()
    _old_names.register()
    _torch_patches.register()
    _process_groups.register()


_check_torch()

from . import (  # noqa: E402
    _C,
    _checkpoints,
    _interchange,
    _module_aliases,
    _old_names,
    _process_groups,
    _torch_patches,
    _tracing,
    npu,
    ops,
    softnpu,
)
from .multiprocessing import reductions  # noqa: E402

npu.debug._check_environment()  # before _register(), so that a failed import changes nothing in torch
_register()
_interchange.register()
_checkpoints.register()
_tracing.register()
_switches = npu.debug._from_environment()

__all__ = ["__version__", "npu", "softnpu"]

_ON_DEMAND = {"accuracy", "contrib", "distributed", "jit", "optim", "profiler", "testing", "utils"}


def __getattr__(name: str) -> Any:
    # `torch_npu.optim` and the operators are imported on first use, so that unused ones cost nothing.
    if name in _ON_DEMAND:
        return importlib.import_module(f".{name}", __name__)
    return ops.public(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_DEMAND, *ops.FAMILY_OF})


if _C._transfers_to_npu():
    from .contrib import transfer_to_npu  # noqa: F401

if os.environ.get("PROF_CONFIG_PATH"):
    importlib.import_module(".profiler.dynamic_profile", __name__).from_environment()
