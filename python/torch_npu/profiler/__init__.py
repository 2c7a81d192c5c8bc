"""The profiler under the names of the vendor's package. It is torch.profiler, which records the host.

    from torch_npu.profiler import profile, schedule, tensorboard_trace_handler

    with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=tensorboard_trace_handler("./traces")) as prof:
        for batch in loader:
            train(batch)
            prof.step()

It records operators with shapes, stacks, FLOPs and host times, and has the tables of torch.profiler (key_averages). The device
(kernels, memory, metrics) is not recorded yet: options for it are checked and have no effect.
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
