"""The profiler by the names of NPU programs: torch.profiler, which records what the host does.

    from torch_npu.profiler import profile, schedule, tensorboard_trace_handler

    with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=tensorboard_trace_handler("./traces")) as prof:
        for batch in loader:
            train(batch)
            prof.step()

Operators, their shapes, stacks, FLOPs and host times are recorded, with the tables of torch.profiler (key_averages). Records of
the device itself (kernels, its memory, its metrics) are not made yet, and what only concerns them is checked and has no effect.
"""

from torch.profiler import ProfilerActivity

from .experimental_config import (
    AiCMetrics,
    ExportType,
    HostSystem,
    ProfilerLevel,
    _ExperimentalConfig,
    supported_ai_core_metrics,
    supported_export_type,
    supported_profiler_level,
)
from .profiler import profile, tensorboard_trace_handler
from .profiler_interface import supported_activities
from .scheduler import ProfilerAction
from .scheduler import Schedule as schedule

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "profile",
    "schedule",
    "supported_activities",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
    "tensorboard_trace_handler",
]
