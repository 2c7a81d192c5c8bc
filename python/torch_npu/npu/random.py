"""Random numbers of npu: one Philox generator for each device, whose state is 16 bytes, the seed and the offset.

Seeding starts no device: it is remembered until the device is used."""

import torch

from .. import _C
from ._lazy import _lazy_call, _lazy_init
from ._utils import _get_device_index


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
    state = new_state.clone(memory_format=torch.contiguous_format)
    _lazy_call(lambda: _generator(device).set_state(state))


def set_rng_state_all(new_states):
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed):
    """Seeds the current device's generator."""
    seed = int(seed)
    _lazy_call(lambda: _generator(None).manual_seed(seed), "seed")


def manual_seed_all(seed):
    """Seeds the generators of all devices; torch.manual_seed does it too."""
    seed = int(seed)
    _lazy_call(lambda: [generator.manual_seed(seed) for generator in default_generators()], "seed_all")


def seed():
    """Seeds the current device's generator by chance."""
    _lazy_call(lambda: _generator(None).seed())


def seed_all():
    """Seeds the generators of all devices by chance, all alike."""
    _lazy_call(lambda: manual_seed_all(_generator(None).seed()))


def initial_seed():
    """The seed of the current device's generator."""
    _lazy_init()
    return _generator(None).initial_seed()


def _generator(device):
    return _C._npu_default_generator(_get_device_index(device, optional=True))
