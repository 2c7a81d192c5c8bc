"""The devices of the process, their properties, and the current device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from .. import _C
from . import _soc
from ._lazy import _lazy_init
from ._utils import _get_device_index

if TYPE_CHECKING:
    import torch
    from torch.types import Device


native_device = "npu"  # the device type in torch


def is_available() -> bool:
    """Whether there is a device. Does not start one."""
    return device_count() > 0


def device_count() -> int:
    """The number of devices that this process sees; 0 if the device library cannot be loaded. Does not start one."""
    return _C._npu_device_count()


def current_device() -> int:
    """The index of the device that `npu` without an index means in this thread."""
    _lazy_init()
    return _C._npu_current_device()


def set_device(device: Device) -> None:
    """Makes a device current in this thread; a negative index changes nothing."""
    index = _get_device_index(device)
    if index >= 0:
        _lazy_init()
        _C._npu_set_device(index)


class device:
    """Context manager: makes a device current inside it; None or a negative index changes nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = _C._npu_exchange_device(self.idx)

    def __exit__(self, *_: object) -> Literal[False]:
        if self.prev_idx >= 0:
            _C._npu_exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager: makes the device of a tensor or storage current inside it. Does nothing if that is not on npu."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage | torch.TypedStorage) -> None:
        super().__init__(obj.get_device() if obj.is_npu else -1)


def synchronize(device: Device = None) -> None:
    """Waits until all work of a device is done. Raises the error of work that failed."""
    _lazy_init()
    _C._npu_synchronize(_get_device_index(device, optional=True))


def get_device_properties(device_name: Device = None) -> Any:
    """name, total_memory (bytes), cube_core_num, vector_core_num, L2_cache_size, multi_processor_count (the cube cores) and uuid.
    Other properties of CUDA devices, such as major or warp_size, are None."""
    _lazy_init()
    return _C._npu_device_properties(_existing(device_name))


def get_device_name(device_name: Device = None) -> str:
    """The name of the chip, such as Ascend910B3."""
    return get_device_properties(device_name).name


def get_device_capability(device: Device = None) -> tuple[int, int] | None:
    """None, because NPUs have no compute capability and programs must not choose a CUDA kernel by it. If the environment variable
    TORCH_NPU_DEVICE_CAPABILITY is set, its value: (9, 0) for 9.0."""
    if device is not None:
        _existing(device)
    return _C._npu_device_capability()


def get_soc_version() -> int:
    """The number of the chip, such as 223 for Ascend910B3; -1 for an unknown one."""
    return _soc.number_of(library_info()["soc"])


def get_arch_list() -> list[str]:
    """The chips that the operators were compiled for: the chip of the device library in use."""
    return [library_info()["soc"]] if is_available() else []


def is_bf16_supported(including_emulation: bool = False) -> bool:
    """Whether the chip computes in bfloat16."""
    return is_available() and _C._npu_has_bf16()


def is_tf32_supported() -> bool:
    """False: NPUs have HF32 instead; see torch.npu.matmul.allow_hf32."""
    return False


def utilization(device: Device = None) -> int:
    """The load of the cores of a device, in percent."""
    _lazy_init()
    cube, vector, _ = _C._npu_load(_existing(device))
    return max(cube, vector)


def memory_usage(device: Device = None) -> int:
    """The share of the memory of a device that all processes use, in percent."""
    _lazy_init()
    return _C._npu_load(_existing(device))[2]


def device_memory_used(device: Device = None) -> int:
    """The memory of a device that all processes use, in bytes."""
    _lazy_init()
    free, total = _C._npu_mem_get_info(_existing(device))
    return total - free


def can_device_access_peer(device_id: Device, peer_device_id: Device) -> bool:
    """Whether a device can access the memory of another one directly. False for a device and itself."""
    return _C._npu_can_access_peer(_existing(device_id), _existing(peer_device_id))


def npurt() -> Any:
    """Functions of the device library, which return its error code, 0 for success: npuHostRegister(address, bytes, flags),
    npuHostUnregister(address), npuStreamCreate(address of the result) and npuStreamDestroy(stream)."""
    _lazy_init()
    return _C._npurt


def current_blas_handle() -> None:
    """None: npu has no BLAS handle."""
    return None


def _sleep(cycles: int) -> None:
    """Keeps the current stream busy for `cycles` nanoseconds."""
    _lazy_init()
    _C._npu_sleep(int(cycles))


def library_info() -> dict[str, str]:
    """The device library in use: its path, its origin (env, cann or softnpu), its version, and the chip (soc).

    Loads the library if it is not loaded. Raises RuntimeError if there is none."""
    return _C._npu_library_info()


def _existing(device: Device) -> int:
    index = _get_device_index(device, optional=True)
    if not 0 <= index < device_count():
        raise ValueError(
            f"there is no device npu:{index}; this process has {device_count()}. "
            "ASCEND_RT_VISIBLE_DEVICES says which ones it may use"
        )
    return index
