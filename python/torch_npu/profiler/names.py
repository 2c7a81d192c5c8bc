"""Names in results: types of operators, cores, and the task names that documents for NPU programs mention."""

from __future__ import annotations

import re
from functools import cache

from .records import CALLBACK, COLLECTIVE, COPY, FILL, OTHER, RECORD, WAIT, Task

UNKNOWN = "N/A"  # the cell for a value that the software device cannot know

# A host copy of a device tensor waits for its stream; a copy to contiguous memory does not.
SYNCHRONOUS_COPY, COPY_TO_CONTIGUOUS, FORMAT_CONTIGUOUS = "D2DCopywithStreamSynchronize", "PTCopy", "format_contiguous"
COPY_NAMES = (SYNCHRONOUS_COPY, COPY_TO_CONTIGUOUS, FORMAT_CONTIGUOUS)

# Not: cummax, lgamma, addrmsnorm, upsamplebilinear2d and others that contain such a word by chance.
_CUBE = re.compile(
    r"matmul|conv|gemm(?!a)|attention|^(add|baddb|addb|b|int)?mm(weightnz)?$|^(add)?mv$|^addr$|^linear$|^fusedlinear"
)
_AI_CPU = ("unique", "nonzero", "sort", "topk", "multinomial", "randperm", "nms", "histc", "bincount", "linalg", "cholesky")
_NOT_KERNELS = {COPY: "SDMA", FILL: "SDMA", WAIT: "EVENT_WAIT", RECORD: "EVENT_RECORD", CALLBACK: "CALLBACK", OTHER: "OTHER"}
_FORMAT_CASTS = ("npuformatcast", "transdata", "formatcast")


def operator_type(task: Task) -> str:
    """The type of the operator: the aclnn function without its prefix, such as Add of aclnnAdd."""
    return _type(task.name)


@cache
def _type(name: str) -> str:
    for prefix in ("aclnnSoft", "aclnnInplace", "aclnn"):
        if name.startswith(prefix) and len(name) > len(prefix):
            return name[len(prefix) :]
    return name


def core(task: Task) -> str:
    """The core on which a device of the vendor runs such an operator. This follows from the family of the operator and is not
    measured."""
    return _core(task.name, task.kind)


@cache
def _core(name: str, kind: str) -> str:
    if kind == COLLECTIVE:
        return "COMMUNICATION"
    if kind in _NOT_KERNELS:
        return _NOT_KERNELS[kind]
    name = _type(name).lower()
    if any(part in name for part in _AI_CPU):
        return "AI_CPU"
    return "AI_CORE" if _CUBE.search(name) else "AI_VECTOR_CORE"


def is_format_cast(task: Task) -> bool:
    return _is_format_cast(task.name)


@cache
def _is_format_cast(name: str) -> bool:
    return any(part in name.lower() for part in _FORMAT_CASTS)


def is_contiguous_copy(task: Task) -> bool:
    return shown(task) in COPY_NAMES and not is_format_cast(task)


def shown(task: Task) -> str:
    """The name of a task in results. Copies within a device have the names that documents for NPU programs mention."""
    if is_format_cast(task):
        return FORMAT_CONTIGUOUS
    if task.kind == COPY and task.direction == "DtoD":
        return SYNCHRONOUS_COPY
    copies = task.name.startswith(("aclnnInplaceCopy", "aclnnSoftCopy", "aclnnCopy"))
    return COPY_TO_CONTIGUOUS if copies and not _changes_type(task) else task.name


def _changes_type(task: Task) -> bool:
    """Whether the task copies to contiguous memory. A conversion such as x.half() is also a copy, but it does not count, because
    contiguous memory would not avoid it."""
    return bool(task.inputs and task.outputs) and task.inputs[0][1] != task.outputs[0][1]


METRIC_COLUMNS = {
    "ACL_AICORE_ARITHMETIC_UTILIZATION": (
        "mac_fp16_ratio",
        "mac_int8_ratio",
        "vec_fp32_ratio",
        "vec_fp16_ratio",
        "vec_int32_ratio",
        "vec_misc_ratio",
    ),
    "ACL_AICORE_PIPE_UTILIZATION": (
        "vec_ratio",
        "mac_ratio",
        "scalar_ratio",
        "mte1_ratio",
        "mte2_ratio",
        "mte3_ratio",
        "icache_miss_rate",
    ),
    "ACL_AICORE_MEMORY_BANDWIDTH": tuple(
        f"{place}_{way}_bw" for place in ("ub", "l1", "l2", "main_mem") for way in ("read", "write")
    ),
    "ACL_AICORE_L0B_AND_WIDTH": (
        "scalar_ld_ratio",
        "scalar_st_ratio",
        *(f"{place}_{way}_bw" for place in ("l0a", "l0b", "l0c") for way in ("read", "write")),
    ),
    "ACL_AICORE_RESOURCE_CONFLICT_RATIO": (
        "vec_bankgroup_cflt_ratio",
        "vec_bank_cflt_ratio",
        "vec_resc_cflt_ratio",
        "mte1_iq_full_ratio",
        "mte2_iq_full_ratio",
        "mte3_iq_full_ratio",
        "cube_iq_full_ratio",
        "vec_iq_full_ratio",
        "iq_full_ratio",
    ),
    "ACL_AICORE_MEMORY_UB": ("ub_read_bw_vector", "ub_write_bw_vector", "ub_read_bw_scalar", "ub_write_bw_scalar"),
    "ACL_AICORE_L2_CACHE": ("write_cache_hit", "write_cache_miss_allocate", "r0_read_cache_hit", "r0_read_cache_miss_allocate"),
    "ACL_AICORE_MEMORY_ACCESS": ("read_main_memory_datas", "write_main_memory_datas", "GM_to_L1_datas"),
    "ACL_AICORE_PIPE_EXECUTE_UTILIZATION": (),
    "ACL_AICORE_NONE": (),
}
# Values of aiCoreMetricsType of torch.npu.profileConfig.
METRIC_NUMBERS = {
    0: "ACL_AICORE_ARITHMETIC_UTILIZATION",
    1: "ACL_AICORE_PIPE_UTILIZATION",
    2: "ACL_AICORE_MEMORY_BANDWIDTH",
    3: "ACL_AICORE_L0B_AND_WIDTH",
    4: "ACL_AICORE_RESOURCE_CONFLICT_RATIO",
    0xFF: "ACL_AICORE_NONE",
}
