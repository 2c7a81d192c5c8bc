"""PyTorch on Ascend NPUs: importing this package gives torch the device `npu` and the module `torch.npu`.

No device is touched by the import; a missing device library is reported by the first use of the device.
"""

import importlib

from ._commands import run_if_asked

run_if_asked()

import torch  # noqa: E402

from ._built_for import TORCH as _BUILT_FOR  # noqa: E402
from .version import __version__  # noqa: E402


def _check_torch():
    found = ".".join(torch.__version__.split(".")[:2])
    if found != _BUILT_FOR:
        raise ImportError(
            f"torch_npu {__version__} was built for torch {_BUILT_FOR}, but torch {torch.__version__} is installed. "
            f"Install torch {_BUILT_FOR}, or a torch_npu that was built for torch {found}."
        )


def _register():
    torch.utils.rename_privateuse1_backend("npu")
    torch._register_device_module("npu", npu)
    _second_names.register()
    quantized = [torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8]
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True, unsupported_dtype=quantized)
    activities = torch._C._profiler.ProfilerActivity
    if not hasattr(activities, "NPU"):  # torch before 2.13
        activities.NPU = activities.PrivateUse1
    npu._data_parallel.install()
    _C._storage_Use_Count = torch._C._storage_Use_Count  # trl asks for it here
    reductions._register()
    ops.register()
    _torch_names.register()


_check_torch()

from . import _C, _checkpoints, _interchange, _second_names, _torch_names, _tracing, npu, ops, softnpu  # noqa: E402
from .multiprocessing import reductions  # noqa: E402

npu.debug._check_environment()  # before torch knows npu: a failed import leaves nothing behind
_register()
_interchange.register()
_checkpoints.register()
_tracing.register()
_switches = npu.debug._from_environment()

__all__ = ["__version__", "npu", "softnpu"]

_ON_DEMAND = {"contrib", "distributed", "jit", "optim", "profiler", "testing", "utils"}


def __getattr__(name):
    # `torch_npu.optim` and the operators need no import of their own, and cost nothing where nobody asks for them.
    if name in _ON_DEMAND:
        return importlib.import_module(f".{name}", __name__)
    return ops.public(name)


def __dir__():
    return sorted({*globals(), *_ON_DEMAND, *ops.FAMILY_OF})


if _C._transfers_to_npu():
    from .contrib import transfer_to_npu  # noqa: F401
