"""torch.npu: devices, streams, events, memory and random numbers of the NPU, by the names that torch.cuda users know.

Importing it uses no device. The first call that needs one initialises it (`_lazy_init`); whatever is asked before, such as
`device_count`, does not, so that a process may still fork.
"""

from . import _exit, _utils, amp, debug, memory, random, streams  # noqa: F401
from ._lazy import _is_in_bad_fork, _lazy_call, _lazy_init, init, is_initialized  # noqa: F401
from .amp import get_amp_supported_dtype, is_bf16_supported
from .devices import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    library_info,
    set_device,
    synchronize,
)
from .fallback import fallback_stats, is_strict_fallback, reset_fallback_stats, set_strict_fallback
from .memory import (
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_empty_cache,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "debug",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "fallback_stats",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "host_empty_cache",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_strict_fallback",
    "library_info",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "random",
    "reset_accumulated_memory_stats",
    "reset_fallback_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_strict_fallback",
    "stream",
    "streams",
    "synchronize",
]


def __getattr__(name):
    # Answers that change as the process goes on. torch.utils.checkpoint reads _initialized.
    if name == "_initialized":
        return is_initialized()
    if name == "default_generators":
        return random.default_generators()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
