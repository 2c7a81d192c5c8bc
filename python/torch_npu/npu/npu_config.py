"""Settings of the device at run time.

    torch.npu.set_option({"ACL_OP_DEBUG_LEVEL": 3, "ACL_DEBUG_DIR": "."})
    torch.npu.matmul.allow_hf32 = True
    torch.npu.set_stream_limit(stream, cube_num=8)

Operators of softnpu are compiled ahead of time. Therefore these options are only checked and stored: options that begin with
ACL_, jitCompile, NPU_FUZZY_COMPILE_BLACKLIST and FORCE_ACLNN_OP_LIST. No operator is compiled, and no folder kernel_meta is
written."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _C
from .._api_status import no_op
from ._dump import finalize_dump, init_dump, set_dump
from ._lazy import _lazy_init
from .devices import _existing

if TYPE_CHECKING:
    from .streams import Stream


_NOT_COMPILED = "operators are compiled ahead of time"

_Rule = tuple[str, Callable[[str], bool]]  # a description of the allowed values, and a check of a value as text

_SWITCH = ("enable or disable", ("enable", "disable").__contains__)
_FOLDER = ("a folder that exists", os.path.isdir)
_ANYTHING = ("a text", lambda _: True)


def _one_of(*values: str) -> _Rule:
    return f"one of {', '.join(values)}", values.__contains__


_OPTIONS: dict[str, _Rule] = {
    "ACL_PRECISION_MODE": _one_of("allow_fp32_to_fp16", "must_keep_origin_dtype"),
    "ACL_OP_SELECT_IMPL_MODE": _one_of("high_precision", "high_performance"),
    "ACL_OPTYPELIST_FOR_IMPLMODE": (
        "one, and only one, of Pooling, SoftmaxV2, LRN, ROIAlign",
        ("Pooling", "SoftmaxV2", "LRN", "ROIAlign").__contains__,
    ),
    "ACL_AICORE_NUM": ("a number from 1 to 32", lambda value: value.isdecimal() and 1 <= int(value) <= 32),
    "ACL_OP_DEBUG_LEVEL": _one_of("0", "1", "2", "3", "4"),
    "ACL_DEBUG_DIR": _FOLDER,
    "ACL_OP_COMPILER_CACHE_MODE": _one_of("enable", "disable", "force"),
    "ACL_OP_COMPILER_CACHE_DIR": _FOLDER,
    "ACL_OP_DEBUG_OPTION": _ANYTHING,
    "jitCompile": _SWITCH,
    "NPU_FUZZY_COMPILE_BLACKLIST": _ANYTHING,
    "FORCE_ACLNN_OP_LIST": _ANYTHING,
    "OP_HOOK_ENABLE": _SWITCH,
    "STRONG_CONSISTENCY": _SWITCH,
    "MM_BMM_ND_ENABLE": _SWITCH,
    "ALLOW_INTERNAL_FORMAT": _SWITCH,
    "ALLOW_MATMUL_HF32": _SWITCH,
    "ALLOW_CONV_HF32": _SWITCH,
    "CUBE_MATH_TYPE": _one_of("0", "1", "2", "3", "4"),
    "mdldumpswitch": _SWITCH,
    "mdldumpconfigpath": ("a file that exists", os.path.isfile),
}

# The values of options: the defaults, and those set by the program.
_values = {"ACL_OP_SELECT_IMPL_MODE": "high_precision", "jitCompile": "disable", "MM_BMM_ND_ENABLE": "enable"}


class CubeMathType(enum.IntEnum):
    """The arithmetic of matrix products. softnpu uses the type of the operands."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3
    USE_FP32_ADD = 4


def set_option(option: dict[str, Any]) -> None:
    """Sets options, {name: value}. If one is wrong, none is set."""
    if not isinstance(option, dict):
        raise TypeError(f"options are a dict such as {{'ACL_OP_DEBUG_LEVEL': 1}}, but got {type(option).__name__}")
    for name, value in option.items():
        if name not in _OPTIONS:
            raise ValueError(f"there is no option {name!r}; there are {', '.join(_OPTIONS)}")
        words, accepts = _OPTIONS[name]
        if not accepts(str(value)):
            raise ValueError(f"the option {name} must be {words}, but got {value!r}")
    for name, value in option.items():
        _values[name] = str(value)
        if name in _EFFECTS:
            _EFFECTS[name](str(value))


_EFFECTS = {
    "ALLOW_MATMUL_HF32": lambda value: _C._npu_set_matmul_math(value == "enable"),
    "ALLOW_CONV_HF32": lambda value: _C._npu_set_conv_math(value == "enable"),
    "CUBE_MATH_TYPE": lambda value: _C._npu_set_matmul_math(int(value)),
    "mdldumpswitch": lambda value: init_dump() if value == "enable" else finalize_dump(),
    "mdldumpconfigpath": set_dump,
}


def _get_option(name: str) -> str | None:
    """The value of an option as text, or None if it was never set."""
    return _values.get(name)


def _word(name: str, value: Any) -> str:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, but got {value!r}")
    return "enable" if value else "disable"


class _Config:
    """torch.npu.config."""

    __slots__ = ()

    @property
    def allow_internal_format(self) -> bool:
        """Whether tensors may have a private format of the device."""
        return _get_option("ALLOW_INTERNAL_FORMAT") == "enable"

    @allow_internal_format.setter
    def allow_internal_format(self, value: bool) -> None:
        set_option({"ALLOW_INTERNAL_FORMAT": _word("allow_internal_format", value)})


class _Matmul:
    """torch.npu.matmul."""

    __slots__ = ()

    @property
    def allow_hf32(self) -> bool:
        """Whether float32 matrix products may be computed in HF32, which has 10 bits less."""
        return _C._npu_matmul_math() in (CubeMathType.ALLOW_FP32_DOWN_PRECISION, CubeMathType.USE_HF32)

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        set_option({"ALLOW_MATMUL_HF32": _word("allow_hf32", value)})

    @property
    def cube_math_type(self) -> CubeMathType:
        """The arithmetic of matrix products; allow_hf32 sets it too."""
        return CubeMathType(_C._npu_matmul_math())

    @cube_math_type.setter
    def cube_math_type(self, value: CubeMathType) -> None:
        if not isinstance(value, CubeMathType):
            raise TypeError(f"cube_math_type must be a torch.npu.CubeMathType, but got {value!r}")
        set_option({"CUBE_MATH_TYPE": value.value})


class _Conv:
    """torch.npu.conv."""

    __slots__ = ()

    @property
    def allow_hf32(self) -> bool:
        """Whether float32 convolutions may be computed in HF32, which has 10 bits less."""
        return _C._npu_conv_math() == CubeMathType.ALLOW_FP32_DOWN_PRECISION

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        set_option({"ALLOW_CONV_HF32": _word("allow_hf32", value)})


config = _Config()
matmul = _Matmul()
conv = _Conv()


@no_op(_NOT_COMPILED)
def set_compile_mode(jit_compile: bool = False) -> None:
    """Whether operators are compiled for the shapes they meet."""
    set_option({"jitCompile": _word("jit_compile", jit_compile)})


def is_jit_compile_false() -> bool:
    """Whether set_compile_mode is False, the default."""
    return _get_option("jitCompile") == "disable"


@no_op(_NOT_COMPILED)
def set_aoe(dump_path: str) -> None:
    """Sets the folder for graphs of operator tuning, and creates it."""
    Path(dump_path).mkdir(parents=True, exist_ok=True)


@no_op("softnpu stores matrices by their strides in every format")
def set_mm_bmm_format_nd(is_nd: bool = True) -> None:
    """Whether the operands of matrix products are in the format ND."""
    set_option({"MM_BMM_ND_ENABLE": _word("is_nd", is_nd)})


def get_mm_bmm_format_nd() -> bool:
    return _get_option("MM_BMM_ND_ENABLE") == "enable"


_use_compatible_impl = False


@no_op("operators already give the results of torch on the CPU")
def use_compatible_impl(is_enable: bool) -> None:
    """Whether gelu, matmul and max pooling follow torch where NPUs differ."""
    global _use_compatible_impl
    _word("is_enable", is_enable)
    _use_compatible_impl = is_enable


def are_compatible_impl_enabled() -> bool:
    return _use_compatible_impl


_limited = False


def set_device_limit(*args: Any, **kwargs: Any) -> None:
    """set_device_limit(device, cube_num=-1, vector_num=-1): limits the cores that operators use; -1 means all. May be called once
    per process. softnpu stores the limits, and they have no effect."""
    global _limited
    if _limited:
        raise RuntimeError(
            "set_device_limit may be called only once in a process, and was called before; use torch.npu.set_stream_limit, which "
            "may be called any number of times"
        )
    _limited = _set_device_limit(*args, **kwargs)


def _set_device_limit(device: int, cube_num: int = -1, vector_num: int = -1) -> bool:
    index = _index(device)
    numbers = _core_numbers(cube_num, vector_num, _C._npu_device_properties(index))
    for vector, number in numbers:
        _C._npu_set_core_limit(index, vector, number)
    return True


def get_device_limit(device: int) -> dict[str, int]:
    """{"cube_core_num": ..., "vector_core_num": ...}."""
    index = _index(device)
    return {"cube_core_num": _C._npu_core_limit(index, False), "vector_core_num": _C._npu_core_limit(index, True)}


def set_stream_limit(stream: Stream, cube_num: int = -1, vector_num: int = -1) -> None:
    """Limits the cores of a stream, as set_device_limit does for a device. May be called any number of times."""
    identity = _identity_of(stream)
    properties = _C._npu_device_properties(stream.device_index)
    for vector, number in _core_numbers(cube_num, vector_num, properties):
        _C._npu_set_stream_core_limit(*identity, vector, number)


def get_stream_limit(stream: Stream) -> dict[str, int]:
    """{"cube_core_num": ..., "vector_core_num": ...} of a stream."""
    identity = _identity_of(stream)
    return {
        "cube_core_num": _C._npu_stream_core_limit(*identity, False),
        "vector_core_num": _C._npu_stream_core_limit(*identity, True),
    }


def reset_stream_limit(stream: Stream) -> None:
    """Gives the stream the limits of its device."""
    _C._npu_reset_stream_core_limits(*_identity_of(stream))


def _index(device: int) -> int:
    if isinstance(device, bool) or not isinstance(device, int):
        raise TypeError(f"the device must be an int, but got {device!r}")
    _lazy_init()
    return _existing(device)


def _identity_of(stream: Stream) -> tuple[int, int, int]:
    from .streams import Stream, _identity

    if not isinstance(stream, Stream):
        raise TypeError(f"a torch.npu.Stream is needed, but got {stream!r}")
    return _identity(stream)


def _core_numbers(cube_num: int, vector_num: int, properties: Any) -> list[tuple[bool, int]]:
    """The limits to set: [(True for vector cores, number)]."""
    numbers = []
    limits = (
        (False, cube_num, "cube_num", properties.cube_core_num),
        (True, vector_num, "vector_num", properties.vector_core_num),
    )
    for vector, number, name, most in limits:
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"{name} must be an int, but got {number!r}")
        if number != -1 and not 1 <= number <= most:
            raise ValueError(f"{name} must be -1 or a number from 1 to {most}, which the device has, but got {number}")
        if number != -1:
            numbers.append((vector, number))
    return numbers
