"""Which devices there are, and which one is current."""

from .. import _C
from . import _soc
from ._lazy import _lazy_init
from ._utils import _get_device_index

native_device = "npu"  # the name by which torch knows the device


def is_available():
    """Whether there is a device to use. Starts none."""
    return device_count() > 0


def device_count():
    """The number of devices that this process sees; 0 if the device library cannot be loaded. Starts none."""
    return _C._npu_device_count()


def current_device():
    """The index of the device that `npu` without an index means in this thread."""
    _lazy_init()
    return _C._npu_current_device()


def set_device(device):
    """Makes a device current in this thread; a negative index leaves everything as it is."""
    index = _get_device_index(device)
    if index >= 0:
        _lazy_init()
        _C._npu_set_device(index)


class device:
    """Context manager: makes a device current within it; None or a negative index changes nothing."""

    def __init__(self, device):
        self.idx = _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self):
        if self.idx >= 0:
            self.prev_idx = _C._npu_exchange_device(self.idx)

    def __exit__(self, *_):
        if self.prev_idx >= 0:
            _C._npu_exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager: makes the device of a tensor or storage current within it; of one that is not on npu, nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_npu else -1)


def synchronize(device=None):
    """Waits until everything that was asked of a device is done; raises what failed meanwhile."""
    _lazy_init()
    _C._npu_synchronize(_get_device_index(device, optional=True))


def get_device_properties(device_name=None):
    """Name, total_memory (bytes), cube_core_num, vector_core_num, L2_cache_size, multi_processor_count (the cube cores) and uuid.
    What a CUDA device has besides, such as major or warp_size, is None."""
    _lazy_init()
    return _C._npu_device_properties(_existing(device_name))


def get_device_name(device_name=None):
    """The name of the chip, such as Ascend910B3."""
    return get_device_properties(device_name).name


def get_device_capability(device=None):
    """None, since NPUs have no such number, and programs that ask before choosing a CUDA kernel are to choose none; or what the
    environment variable TORCH_NPU_DEVICE_CAPABILITY says: (9, 0) for 9.0."""
    if device is not None:
        _existing(device)
    return _C._npu_device_capability()


def get_soc_version():
    """The number of the chip, such as 223 for Ascend910B3; -1 for an unknown one."""
    return _soc.number_of(library_info()["soc"])


def get_arch_list():
    """The chips that the operators are made for: that of the device library in use."""
    return [library_info()["soc"]] if is_available() else []


def is_bf16_supported(including_emulation=False):
    """Whether the chip computes in bfloat16."""
    return is_available() and _C._npu_has_bf16()


def is_tf32_supported():
    """False: NPUs have HF32 instead; see torch.npu.matmul.allow_hf32."""
    return False


def utilization(device=None):
    """How busy the cores of a device are, in percent."""
    _lazy_init()
    cube, vector, _ = _C._npu_load(_existing(device))
    return max(cube, vector)


def memory_usage(device=None):
    """How much of the memory of a device is in use, by all processes, in percent."""
    _lazy_init()
    return _C._npu_load(_existing(device))[2]


def device_memory_used(device=None):
    """How much of the memory of a device is in use, by all processes, in bytes."""
    _lazy_init()
    free, total = _C._npu_mem_get_info(_existing(device))
    return total - free


def can_device_access_peer(device_id, peer_device_id):
    """Whether a device reaches the memory of another one by itself; none needs to reach its own that way."""
    return _C._npu_can_access_peer(_existing(device_id), _existing(peer_device_id))


def npurt():
    """Functions of the device library that return its code, 0 for success: npuHostRegister(address, bytes, flags),
    npuHostUnregister(address), npuStreamCreate(address of the result) and npuStreamDestroy(stream)."""
    _lazy_init()
    return _C._npurt


def current_blas_handle():
    """None: npu computes matrix products without one."""
    return None


def _sleep(cycles):
    """Keeps the current stream busy for so many nanoseconds."""
    _lazy_init()
    _C._npu_sleep(int(cycles))


def library_info():
    """The device library in use: its path, its origin (env, cann or softnpu), its version, and the chip (soc).

    Loads it if nobody did, and raises RuntimeError if there is none."""
    return _C._npu_library_info()


def _existing(device):
    index = _get_device_index(device, optional=True)
    if not 0 <= index < device_count():
        raise ValueError(
            f"there is no device npu:{index}; this process has {device_count()}. "
            "ASCEND_RT_VISIBLE_DEVICES says which ones it may use"
        )
    return index
