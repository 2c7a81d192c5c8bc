"""Which devices there are, and which one is current."""

from .. import _C
from ._lazy import _lazy_init
from ._utils import _get_device_index


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


def get_device_properties(device=None):
    """Name, total_memory (bytes), cube_core_num, vector_core_num, L2_cache_size and uuid."""
    _lazy_init()
    return _C._npu_device_properties(_get_device_index(device, optional=True))


def get_device_name(device=None):
    """The name of the chip, such as Ascend910B3."""
    return get_device_properties(device).name


def get_device_capability(device=None):
    """None: NPUs have no such number, and programs that ask before choosing a CUDA kernel are to choose none."""
    _get_device_index(device, optional=True)
    return None


def can_device_access_peer(device, peer_device):
    """Whether a device reaches the memory of another one by itself; none needs to reach its own that way."""
    index, peer = _get_device_index(device), _get_device_index(peer_device)
    for each in (index, peer):
        if not 0 <= each < device_count():
            raise ValueError(f"there is no device npu:{each}; this process has {device_count()}")
    return index != peer


def library_info():
    """The device library in use: its path, its origin (env, cann or softnpu), its version, and the chip (soc).

    Loads it if nobody did, and raises RuntimeError if there is none."""
    return _C._npu_library_info()
