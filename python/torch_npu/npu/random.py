"""Random numbers of npu: one Philox generator for each device, whose state is 16 bytes, the seed and the offset.

Generators are objects of the host: seeding takes effect at once, and starts no device. Calls that wait for the device
(`_lazy_call`) may seed, too; the newest seed counts."""

import torch

from .. import _C
from . import _lazy
from ._lazy import _lazy_call, _lazy_init, is_initialized
from ._utils import _get_device_index

_states = []  # of the default generators when the device was started


def default_generators():
    """The generators that npu draws from where none is named, one for each device."""
    return tuple(_generator(index) for index in range(_C._npu_device_count()))


def get_rng_state(device="npu"):
    """The state of a device's generator, a CPU tensor of type uint8."""
    _lazy_init()
    return _generator(device).get_state()


def get_rng_state_all():
    return [get_rng_state(index) for index in range(_C._npu_device_count())]


def set_rng_state(new_state, device="npu"):
    if not isinstance(new_state, torch.Tensor):
        raise TypeError(f"new_state must be a tensor, as get_rng_state() gives it, but got {type(new_state).__name__}")
    if new_state.dtype != torch.uint8 or new_state.device.type != "cpu":
        raise TypeError(
            "RNG state must be a torch.ByteTensor, that is of type uint8 on the CPU, "
            f"but got {new_state.dtype} on {new_state.device}; what torch.load() put on a device needs .cpu()"
        )
    _seed(lambda: _generator(device).set_state(new_state.contiguous()))


def set_rng_state_all(new_states):
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed):
    """Seeds the current device's generator."""
    seed = int(seed)
    _seed(lambda: _generator(None).manual_seed(seed))


def manual_seed_all(seed):
    """Seeds the generators of all devices; torch.manual_seed does it too."""
    seed = int(seed)
    if not -(2**63) <= seed < 2**64:
        raise RuntimeError(f"a seed must be -2**63 to 2**64 - 1, but got {seed}")
    _seed(lambda: _C._npu_seed_default_generators(seed % 2**64))


def seed():
    """Seeds the current device's generator by chance."""
    _seed(lambda: _generator(None).seed())


def seed_all():
    """Seeds the generators of all devices by chance, all alike."""
    manual_seed_all(_generator(None).seed())


def initial_seed():
    """The seed of the current device's generator."""
    _lazy_init()
    return _generator(None).initial_seed()


def _generator(device):
    """The default generator of a device. That of the current one exists even where there is no device: it can be seeded."""
    index = _get_device_index(device, optional=True)
    return _C._npu_default_generator(-1 if index == _C._npu_current_device() else index)


def _seed(function):
    """Calls it between older calls that wait for the device, which do not undo it, and newer ones."""
    if _lazy._waiting and is_initialized():
        _lazy._make_waiting_calls()
    function()
    if not is_initialized() and _lazy._waiting[-1:] != [_restore_states]:
        _lazy_call(_restore_states)


def _keep_states():
    _states[:] = [generator.get_state() for generator in default_generators()]


def _restore_states():
    for generator, state in zip(default_generators(), _states, strict=True):
        generator.set_state(state)


_lazy_call(_keep_states)  # the first of all that wait
