"""The profiler with the names of the vendor's package. It is torch.profiler with records of the device.

    from torch_npu.profiler import profile, schedule, tensorboard_trace_handler

    with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=tensorboard_trace_handler("./traces")) as prof:
        for batch in loader:
            train(batch)
            prof.step()

A folder *_ascend_pt appears for each cycle (docs/profiling.md). The tables of torch.profiler (key_averages) work too.
"""

from torch.profiler import ProfilerActivity

from . import dynamic_profile
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
from .single import time_operator

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "dynamic_profile",
    "profile",
    "schedule",
    "supported_activities",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
    "tensorboard_trace_handler",
    "time_operator",
]
