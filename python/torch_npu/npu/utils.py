"""torch.npu.utils: debug modes, overflow flags and versions, and names of other modules that programs import from here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .. import _C
from .._api_status import no_op, not_offered
from ._lazy import _lazy_init
from ._utils import _get_device_index
from .devices import current_blas_handle, current_device, device, device_of, is_bf16_supported, set_device, synchronize
from .npu_config import finalize_dump, init_dump, set_dump
from .streams import StreamContext, current_stream, default_stream, set_stream, stream

if TYPE_CHECKING:
    from torch.types import Device


__all__ = [
    "StreamContext",
    "check_uce_in_memory",
    "clear_npu_overflow_flag",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "finalize_dump",
    "get_cann_version",
    "get_npu_overflow_flag",
    "get_sync_debug_mode",
    "init_dump",
    "ipc_collect",
    "is_bf16_supported",
    "is_support_inf_nan",
    "npu_check_overflow",
    "obfuscation_calculate",
    "obfuscation_finalize",
    "obfuscation_initialize",
    "set_device",
    "set_dump",
    "set_op_timeout_ms",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "stress_detect",
    "synchronize",
]

_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Reports calls that wait for the device, such as item(), nonzero() or a copy to the host. "default" or 0: no report, "warn"
    or 1: a warning that names the operator, "error" or 2: RuntimeError. torch.npu.synchronize() is never reported."""
    mode = _MODES.index(debug_mode) if debug_mode in _MODES else debug_mode
    if type(mode) is not int or mode not in (0, 1, 2):
        raise RuntimeError(f"debug_mode must be 0, 1, 2, 'default', 'warn' or 'error', but got {debug_mode!r}")
    _C._npu_set_sync_debug_mode(mode)


def get_sync_debug_mode() -> int:
    """The mode: 0, 1 or 2; see set_sync_debug_mode()."""
    return _C._npu_sync_debug_mode()


def get_cann_version(module: str = "CANN") -> str:
    """The version of a package of CANN, such as 8.5.0. With softnpu: the version of CANN that it emulates. Empty if unknown.

    module: CANN, RUNTIME, COMPILER, HCCL, TOOLKIT, OPP, OPP_KERNEL or DRIVER."""
    return _C._get_cann_version(module)


def is_support_inf_nan() -> bool:
    """Whether an overflow gives inf on the current device. If not, it gives the largest number and sets the overflow flag."""
    _lazy_init()
    return _C._npu_overflow_is_infinite()


def get_npu_overflow_flag() -> bool:
    """Whether a result has overflowed since clear_npu_overflow_flag(). Raises RuntimeError on chips that have inf."""
    if is_support_inf_nan():
        raise RuntimeError(
            "the current device has inf and nan and therefore no overflow flag; torch.npu.utils.npu_check_overflow(grad) "
            "looks for them"
        )
    return _C._npu_overflow_flag()


def clear_npu_overflow_flag() -> None:
    """Clears the overflow flag. Does nothing on chips that have inf."""
    if not is_support_inf_nan():
        _C._npu_clear_overflow_flag()


def npu_check_overflow(grad: float | torch.Tensor) -> bool:
    """Whether a number or a tensor holds inf or nan. On chips without inf it also reads and clears the overflow flag."""
    if not isinstance(grad, float | torch.Tensor):
        raise TypeError(f"grad must be a float or a tensor, but got {type(grad).__name__}")
    overflowed = not torch.as_tensor(grad).isfinite().all().item()
    if not is_support_inf_nan() and get_npu_overflow_flag():
        clear_npu_overflow_flag()
        return True
    return overflowed


def check_uce_in_memory(device_id: Device) -> int:
    """0: the device reports no damaged memory. 3: it does, and its tensors may be wrong."""
    _lazy_init()
    return 3 if _C._npu_damaged_memory(_get_device_index(device_id)) else 0


@no_op("softnpu does not abort operators; CANN applies the limit")
def set_op_timeout_ms(timeout: int) -> None:
    """Sets the time limit of an operator in milliseconds."""
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout <= 0:
        raise ValueError(f"the timeout is a positive number of milliseconds, but got {timeout!r}")
    _lazy_init()
    _C._npu_set_op_timeout(timeout)


def ipc_collect() -> None:
    """Frees memory of sent tensors that no receiving process uses any more."""
    _lazy_init()
    _C._npu_ipc_collect()


@not_offered("it tests hardware; to check results, use torch.npu.debug.compare, which compares operators with the CPU")
def stress_detect(detect_type: str = "aic") -> Any: ...


_OBFUSCATION = "it needs the trusted environment of a card; use the model without obfuscation"


@not_offered(_OBFUSCATION)
def obfuscation_initialize(
    hidden_size: int,
    tp_rank: int,
    cmd: int,
    *,
    data_type: torch.dtype | None = None,
    model_obf_seed_id: int = 0,
    data_obf_seed_id: int = 0,
    thread_num: int = 4,
    obf_coefficient: float = 1.0,
) -> torch.Tensor: ...


@not_offered(_OBFUSCATION)
def obfuscation_calculate(
    fd: torch.Tensor, x: torch.Tensor, param: torch.Tensor, *, obf_coefficient: float = 1.0
) -> torch.Tensor: ...


@not_offered(_OBFUSCATION)
def obfuscation_finalize(fd_to_close: torch.Tensor) -> torch.Tensor: ...
