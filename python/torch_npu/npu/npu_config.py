"""Settings of the device at run time.

    torch.npu.set_option({"ACL_OP_DEBUG_LEVEL": 3, "ACL_DEBUG_DIR": "."})
    torch.npu.matmul.allow_hf32 = True
    torch.npu.set_stream_limit(stream, cube_num=8)

Operators of softnpu are compiled beforehand. So options for the compilation of operators (those that begin with ACL_, jitCompile
and the two lists) are checked and remembered, and nothing is compiled, cached or kept for debugging: no folder kernel_meta
appears, whatever ACL_OP_DEBUG_LEVEL says.
"""

import enum
import os
from pathlib import Path

from .. import _C
from .._offer import no_op, not_offered
from ._lazy import _lazy_init
from .devices import _existing

_NOT_COMPILED = "operators are compiled beforehand, not while the program runs"

# name -> (what a value must be, in words; whether a value, as text, is that)
_SWITCH = ("enable or disable", ("enable", "disable").__contains__)
_FOLDER = ("a folder that exists", os.path.isdir)
_ANYTHING = ("a text", lambda _: True)


def _one_of(*values):
    return f"one of {', '.join(values)}", values.__contains__


_OPTIONS = {
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
}

# What was set, and what holds before.
_values = {"ACL_OP_SELECT_IMPL_MODE": "high_precision", "jitCompile": "disable", "MM_BMM_ND_ENABLE": "enable"}


class CubeMathType(enum.IntEnum):
    """Which arithmetic a matrix product may use; softnpu uses that of the operands."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3
    USE_FP32_ADD = 4


def set_option(option):
    """Sets options, {name: value}; all of them or, if one is wrong, none."""
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
}


def _get_option(name):
    """The value of an option as text, or None if it was never set."""
    return _values.get(name)


def _word(name, value):
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, but got {value!r}")
    return "enable" if value else "disable"


class _Config:
    """torch.npu.config."""

    __slots__ = ()

    @property
    def allow_internal_format(self):
        """Whether tensors may have a format of the device's own."""
        return _get_option("ALLOW_INTERNAL_FORMAT") == "enable"

    @allow_internal_format.setter
    def allow_internal_format(self, value):
        set_option({"ALLOW_INTERNAL_FORMAT": _word("allow_internal_format", value)})


class _Matmul:
    """torch.npu.matmul."""

    __slots__ = ()

    @property
    def allow_hf32(self):
        """Whether float32 matrix products may be computed in HF32, which has 10 bits less."""
        return _C._npu_matmul_math() in (CubeMathType.ALLOW_FP32_DOWN_PRECISION, CubeMathType.USE_HF32)

    @allow_hf32.setter
    def allow_hf32(self, value):
        set_option({"ALLOW_MATMUL_HF32": _word("allow_hf32", value)})

    @property
    def cube_math_type(self):
        """What allow_hf32 chooses from: a torch.npu.CubeMathType."""
        return CubeMathType(_C._npu_matmul_math())

    @cube_math_type.setter
    def cube_math_type(self, value):
        if not isinstance(value, CubeMathType):
            raise TypeError(f"cube_math_type must be a torch.npu.CubeMathType, but got {value!r}")
        set_option({"CUBE_MATH_TYPE": value.value})


class _Conv:
    """torch.npu.conv."""

    __slots__ = ()

    @property
    def allow_hf32(self):
        """Whether float32 convolutions may be computed in HF32, which has 10 bits less."""
        return _C._npu_conv_math() == CubeMathType.ALLOW_FP32_DOWN_PRECISION

    @allow_hf32.setter
    def allow_hf32(self, value):
        set_option({"ALLOW_CONV_HF32": _word("allow_hf32", value)})


config = _Config()
matmul = _Matmul()
conv = _Conv()


@no_op(_NOT_COMPILED)
def set_compile_mode(jit_compile=False):
    """Whether operators are compiled for the shapes they meet."""
    set_option({"jitCompile": _word("jit_compile", jit_compile)})


def is_jit_compile_false():
    """What set_compile_mode(False), which is the default, makes True."""
    return _get_option("jitCompile") == "disable"


@no_op(_NOT_COMPILED)
def set_aoe(dump_path):
    """Where graphs for the tuning of operators go; the folder is made if there is none."""
    Path(dump_path).mkdir(parents=True, exist_ok=True)


@no_op("matrices lie in memory as torch has them, whichever format is asked for")
def set_mm_bmm_format_nd(is_nd=True):
    """Whether matrix products take their operands in the plain format."""
    set_option({"MM_BMM_ND_ENABLE": _word("is_nd", is_nd)})


def get_mm_bmm_format_nd():
    return _get_option("MM_BMM_ND_ENABLE") == "enable"


_use_compatible_impl = False


@no_op("every operator gives what torch gives on the CPU already")
def use_compatible_impl(is_enable):
    """Whether gelu, matmul and max pooling are to agree with torch where NPUs are used to differ."""
    global _use_compatible_impl
    _word("is_enable", is_enable)
    _use_compatible_impl = is_enable


def are_compatible_impl_enabled():
    return _use_compatible_impl


_DUMP = "tensors are not dumped yet; torch.npu.debug.print_ops shows operators with their arguments and results"


@not_offered(_DUMP)
def init_dump(): ...


@not_offered(_DUMP)
def set_dump(cfg_file): ...


@not_offered(_DUMP)
def finalize_dump(): ...


_limited = False


def set_device_limit(*args, **kwargs):
    """set_device_limit(device, cube_num=-1, vector_num=-1): how many cores of a device operators may use, -1 for all. Once in a
    process. softnpu remembers it; it has no cores to hold back."""
    global _limited
    if _limited:
        raise RuntimeError(
            "the limits of a device are set once in a process, and they are; torch.npu.set_stream_limit has no limit"
        )
    _limited = _set_device_limit(*args, **kwargs)


def _set_device_limit(device, cube_num=-1, vector_num=-1):
    index = _index(device)
    numbers = _core_numbers(cube_num, vector_num, _C._npu_device_properties(index))
    for vector, number in numbers:
        _C._npu_set_core_limit(index, vector, number)
    return True


def get_device_limit(device):
    """{"cube_core_num": ..., "vector_core_num": ...}."""
    index = _index(device)
    return {"cube_core_num": _C._npu_core_limit(index, False), "vector_core_num": _C._npu_core_limit(index, True)}


def set_stream_limit(stream, cube_num=-1, vector_num=-1):
    """As set_device_limit, for a stream, and as often as one likes."""
    identity = _identity_of(stream)
    properties = _C._npu_device_properties(stream.device_index)
    for vector, number in _core_numbers(cube_num, vector_num, properties):
        _C._npu_set_stream_core_limit(*identity, vector, number)


def get_stream_limit(stream):
    """As get_device_limit, for a stream."""
    identity = _identity_of(stream)
    return {
        "cube_core_num": _C._npu_stream_core_limit(*identity, False),
        "vector_core_num": _C._npu_stream_core_limit(*identity, True),
    }


def reset_stream_limit(stream):
    """The stream has the limits of its device again."""
    _C._npu_reset_stream_core_limits(*_identity_of(stream))


def _index(device):
    if isinstance(device, bool) or not isinstance(device, int):
        raise TypeError(f"the device must be an int, but got {device!r}")
    _lazy_init()
    return _existing(device)


def _identity_of(stream):
    from .streams import Stream, _identity

    if not isinstance(stream, Stream):
        raise TypeError(f"a torch.npu.Stream is needed, but got {stream!r}")
    return _identity(stream)


def _core_numbers(cube_num, vector_num, properties):
    """[(is it of vector cores, number)] of the limits that are to be set."""
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
