"""Settings for records of the device. They are checked when they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class ProfilerLevel:
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"
    Level_none = "Level_none"


class AiCMetrics:
    PipeUtilization = "ACL_AICORE_PIPE_UTILIZATION"
    ArithmeticUtilization = "ACL_AICORE_ARITHMETIC_UTILIZATION"
    Memory = "ACL_AICORE_MEMORY_BANDWIDTH"
    MemoryL0 = "ACL_AICORE_L0B_AND_WIDTH"
    MemoryUB = "ACL_AICORE_MEMORY_UB"
    ResourceConflictRatio = "ACL_AICORE_RESOURCE_CONFLICT_RATIO"
    L2Cache = "ACL_AICORE_L2_CACHE"
    MemoryAccess = "ACL_AICORE_MEMORY_ACCESS"
    AiCoreNone = "ACL_AICORE_NONE"


class ExportType:
    Text = "text"
    Db = "db"


class HostSystem:
    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"
    NUMA = "numa"


def supported_profiler_level() -> set[str]:
    return _values(ProfilerLevel)


def supported_ai_core_metrics() -> set[str]:
    return _values(AiCMetrics)


def supported_export_type() -> set[str]:
    return _values(ExportType)


class _ExperimentalConfig:
    """Settings for records of the device. They are stored as attributes.

    The software device has no counters: columns of aic_metrics hold N/A, and files of l2_cache, sys_io and host_sys are absent.

    aic_metrics applies to Level1 and Level2. At the other levels it is AiCMetrics.AiCoreNone."""

    l2_cache: bool
    msprof_tx: bool
    mstx: bool

    def __init__(
        self,
        profiler_level: str = ProfilerLevel.Level0,
        aic_metrics: str = AiCMetrics.PipeUtilization,
        l2_cache: bool = False,
        msprof_tx: bool = False,
        mstx: bool = False,
        data_simplification: bool = True,
        record_op_args: bool = False,
        op_attr: bool = False,
        gc_detect_threshold: float | None = None,
        export_type: str | Sequence[str] = ExportType.Text,
        host_sys: Sequence[str] | None = None,
        mstx_domain_include: Sequence[str] | None = None,
        mstx_domain_exclude: Sequence[str] | None = None,
        sys_io: bool = False,
        sys_interconnection: bool = False,
    ) -> None:
        _one_of("profiler_level", profiler_level, ProfilerLevel)
        _one_of("aic_metrics", aic_metrics, AiCMetrics)
        self.profiler_level = profiler_level
        measured = profiler_level in (ProfilerLevel.Level1, ProfilerLevel.Level2)
        self.aic_metrics = aic_metrics if measured else AiCMetrics.AiCoreNone
        switches = {"l2_cache": l2_cache, "msprof_tx": msprof_tx, "mstx": mstx, "data_simplification": data_simplification}
        switches |= {"record_op_args": record_op_args, "op_attr": op_attr}
        switches |= {"sys_io": sys_io, "sys_interconnection": sys_interconnection}
        for name, switch in switches.items():
            if not isinstance(switch, bool):
                raise TypeError(f"_ExperimentalConfig: {name} must be True or False, not {switch!r}")
            setattr(self, name, switch)
        self.export_type = [export_type] if isinstance(export_type, str) else _list("export_type", export_type)
        if not self.export_type:
            raise ValueError("_ExperimentalConfig: export_type must name at least one of ExportType.Text, ExportType.Db")
        for value in self.export_type:
            _one_of("export_type", value, ExportType)
        self.host_sys = _list("host_sys", host_sys)
        for value in self.host_sys:
            _one_of("host_sys", value, HostSystem)
        if gc_detect_threshold is not None and (
            not isinstance(gc_detect_threshold, (int, float))
            or isinstance(gc_detect_threshold, bool)
            or not gc_detect_threshold >= 0
        ):
            raise ValueError(
                f"_ExperimentalConfig: gc_detect_threshold must be None or milliseconds that are not negative, "
                f"not {gc_detect_threshold!r}"
            )
        self.gc_detect_threshold = gc_detect_threshold
        self.mstx_domain_include = _list("mstx_domain_include", mstx_domain_include)
        self.mstx_domain_exclude = _list("mstx_domain_exclude", mstx_domain_exclude)
        if mstx_domain_include and mstx_domain_exclude:
            raise ValueError("_ExperimentalConfig: give mstx_domain_include or mstx_domain_exclude, not both")

    @property
    def with_gc(self) -> bool:
        return self.gc_detect_threshold is not None

    @property
    def tx_enabled(self) -> bool:
        return self.msprof_tx or self.mstx


def _values(names: type) -> set[str]:
    return {value for name, value in vars(names).items() if not name.startswith("_")}


def _one_of(name: str, value: Any, names: type) -> None:
    if not isinstance(value, str) or value not in _values(names):
        choices = ", ".join(f"{names.__name__}.{each}" for each in vars(names) if not each.startswith("_"))
        raise ValueError(f"_ExperimentalConfig: {name} must be one of {choices}, not {value!r}")


def _list(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"_ExperimentalConfig: {name} must be a list of strings, not {value!r}")
    return list(value)
