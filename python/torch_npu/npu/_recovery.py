"""Getting a device back without ending the process.

torch.npu.stop_device(0)        # a thread ends what another one waits for
torch.npu.restart_device(0)     # and the device is as good as new
"""

from .. import _C
from ._lazy import _lazy_init
from .devices import _existing


def stop_device(device_id):
    """Ends the work that was given to a device. Who waits for it gets an error, and its results are not there."""
    _lazy_init()
    _C._npu_abort_device(_existing(device_id))


def restart_device(device_id, rebuild_all_resources=False, disable_tensor_unsafe_check=False):
    """Makes a device that was stopped ready for new work; errors that nobody was told of are forgotten. Streams, memory and
    tensors of softnpu survive a stop, so that there is nothing to rebuild or to check."""
    index = _existing(device_id)
    _lazy_init()
    try:
        _C._npu_synchronize(index)
    except RuntimeError:
        _C._npu_synchronize(index)  # what failed is reported once
