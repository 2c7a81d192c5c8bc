"""torch.npu.utils: what programs for NPUs import from here, most of it from where it is at home."""

import torch

from .. import _C
from .._offer import no_op, not_offered
from ._lazy import _lazy_init
from ._utils import _get_device_index
from .devices import current_blas_handle, current_device, device, device_of, is_bf16_supported, set_device, synchronize
from .npu_config import finalize_dump, init_dump, set_dump
from .streams import StreamContext, current_stream, default_stream, set_stream, stream

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


def set_sync_debug_mode(debug_mode):
    """What becomes of calls that wait for the device, such as item(), nonzero() or a copy to the host: "default" or 0: nothing,
    "warn" or 1: a warning that names the operator, "error" or 2: RuntimeError. torch.npu.synchronize() waits in peace."""
    mode = _MODES.index(debug_mode) if debug_mode in _MODES else debug_mode
    if type(mode) is not int or mode not in (0, 1, 2):
        raise RuntimeError(f"debug_mode must be 0, 1, 2, 'default', 'warn' or 'error', but got {debug_mode!r}")
    _C._npu_set_sync_debug_mode(mode)


def get_sync_debug_mode():
    """0, 1 or 2, as set_sync_debug_mode() says."""
    return _C._npu_sync_debug_mode()


def get_cann_version(module="CANN"):
    """The version of a package of CANN, such as 8.5.0; with softnpu, that of the CANN whose behaviour it follows. Empty where
    CANN cannot say.

    module: CANN, RUNTIME, COMPILER, HCCL, TOOLKIT, OPP, OPP_KERNEL or DRIVER."""
    return _C._get_cann_version(module)


def is_support_inf_nan():
    """Whether a result that is too large becomes inf on the current device; if not, it becomes the largest number, and
    get_npu_overflow_flag() tells of it."""
    _lazy_init()
    return _C._npu_overflow_is_infinite()


def get_npu_overflow_flag():
    """Whether a result was too large since clear_npu_overflow_flag(); only for chips that have no inf."""
    if is_support_inf_nan():
        raise RuntimeError(
            "the current device has inf and nan and therefore no overflow flag; torch.npu.utils.npu_check_overflow(grad) "
            "looks for them"
        )
    return _C._npu_overflow_flag()


def clear_npu_overflow_flag():
    """Nothing on chips that have inf."""
    if not is_support_inf_nan():
        _C._npu_clear_overflow_flag()


def npu_check_overflow(grad):
    """Whether a number or a tensor holds inf or nan; on chips without them, also whether the overflow flag was up, which it
    clears."""
    if not isinstance(grad, float | torch.Tensor):
        raise TypeError(f"grad must be a float or a tensor, but got {type(grad).__name__}")
    overflowed = not torch.as_tensor(grad).isfinite().all().item()
    if not is_support_inf_nan() and get_npu_overflow_flag():
        clear_npu_overflow_flag()
        return True
    return overflowed


def check_uce_in_memory(device_id):
    """0: the device reports no damaged memory; 3: it does, and its tensors are not to be trusted."""
    _lazy_init()
    return 3 if _C._npu_damaged_memory(_get_device_index(device_id)) else 0


@no_op("operators of softnpu run to their end; CANN takes the limit")
def set_op_timeout_ms(timeout):
    """How long an operator may run, in milliseconds."""
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout <= 0:
        raise ValueError(f"the timeout is a positive number of milliseconds, but got {timeout!r}")
    _lazy_init()
    _C._npu_set_op_timeout(timeout)


def ipc_collect():
    """Frees memory of tensors that were sent to other processes and that nobody uses any more."""
    _lazy_init()
    _C._npu_ipc_collect()


@not_offered("it is a test of the hardware; to check results, torch.npu.debug.compare compares operators with the CPU")
def stress_detect(detect_type="aic"): ...


_OBFUSCATION = "it needs the trusted environment of a card; keep the model in plain form"


@not_offered(_OBFUSCATION)
def obfuscation_initialize(
    hidden_size, tp_rank, cmd, *, data_type=None, model_obf_seed_id=0, data_obf_seed_id=0, thread_num=4, obf_coefficient=1.0
): ...


@not_offered(_OBFUSCATION)
def obfuscation_calculate(fd, x, param, *, obf_coefficient=1.0): ...


@not_offered(_OBFUSCATION)
def obfuscation_finalize(fd_to_close): ...
