"""Random numbers of npu: one Philox generator per device. Its state is 16 bytes: the seed and the offset.

Generators are host objects: seeding takes effect at once and does not start a device. Calls queued by `_lazy_call` may seed too;
the latest seed applies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch

from .. import _C
from . import _lazy
from ._lazy import _lazy_call, _lazy_init, is_initialized
from ._utils import _get_device_index

if TYPE_CHECKING:
    from torch.types import Device


_states: list[torch.Tensor] = []  # of the default generators at the start of the device


def default_generators() -> tuple[torch.Generator, ...]:
    """The generators used where none is given, one per device."""
    return tuple(_generator(index) for index in range(_C._npu_device_count()))


def get_rng_state(device: Device = "npu") -> torch.Tensor:
    """The state of a device's generator, a uint8 tensor on the CPU."""
    _lazy_init()
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(_C._npu_device_count())]


def set_rng_state(new_state: torch.Tensor, device: Device = "npu") -> None:
    if not isinstance(new_state, torch.Tensor):
        raise TypeError(f"new_state must be a tensor, as get_rng_state() gives it, but got {type(new_state).__name__}")
    if new_state.dtype != torch.uint8 or new_state.device.type != "cpu":
        raise TypeError(
            "RNG state must be a torch.ByteTensor, that is of type uint8 on the CPU, "
            f"but got {new_state.dtype} on {new_state.device}; call .cpu() on a state that torch.load() put on a device"
        )
    _seed(lambda: _generator(device).set_state(new_state.contiguous()))


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    seed = int(seed)
    _seed(lambda: _generator(None).manual_seed(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices; torch.manual_seed calls it."""
    seed = int(seed)
    if not -(2**63) <= seed < 2**64:
        raise RuntimeError(f"a seed must be -2**63 to 2**64 - 1, but got {seed}")
    _seed(lambda: _C._npu_seed_default_generators(seed % 2**64))


def seed() -> None:
    """Seeds the current device's generator with a random number."""
    _seed(lambda: _generator(None).seed())


def seed_all() -> None:
    """Seeds the generators of all devices with one random number."""
    manual_seed_all(_generator(None).seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    _lazy_init()
    return _generator(None).initial_seed()


def _generator(device: Device) -> torch.Generator:
    """The default generator of a device. The current device has one even if no device exists, so that it can be seeded."""
    index = _get_device_index(device, optional=True)
    return _C._npu_default_generator(-1 if index == _C._npu_current_device() else index)


def _seed(function: Callable[[], object]) -> None:
    """Seeds now, and makes the seed survive calls that were queued for the start of the device before."""
    if _lazy._waiting and is_initialized():
        _lazy._make_waiting_calls()
    function()
    if not is_initialized() and _lazy._waiting[-1:] != [_restore_states]:
        _lazy_call(_restore_states)


def _keep_states() -> None:
    _states[:] = [generator.get_state() for generator in default_generators()]


def _restore_states() -> None:
    for generator, state in zip(default_generators(), _states, strict=True):
        generator.set_state(state)


_lazy_call(_keep_states)  # the first queued call
