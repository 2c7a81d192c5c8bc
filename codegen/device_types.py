"""C and C++ types of the parameters of device functions, and their positions in an executor."""

from device_table import DeviceFunction
from op_types import Type

LIST_OBJECTS = {
    "Tensor": "aclTensorList", "Scalar": "aclScalarList", "int": "aclIntArray", "float": "aclFloatArray", "bool": "aclBoolArray",
}  # fmt: skip
VALUES = {
    "int": "int64_t", "int8": "int8_t", "int32": "int32_t", "uint64": "uint64_t", "bool": "bool", "float": "float",
    "double": "double", "str": "const char *", "dtype": "aclDataType",
}  # fmt: skip
OBJECTS = {"Tensor": "aclTensor", "Scalar": "aclScalar"}
KINDS = {"Tensor": "kTensorList", "Scalar": "kScalarList", "int": "kIntArray", "float": "kFloatArray", "bool": "kBoolArray"}


def c_type(parameter_type: Type) -> str:
    """The type in the C function."""
    constant = "" if parameter_type.written else "const "
    if parameter_type.is_list:
        return f"{constant}{LIST_OBJECTS[parameter_type.base]} *"
    if parameter_type.base in OBJECTS:
        return f"{constant}{OBJECTS[parameter_type.base]} *"
    return VALUES[parameter_type.base]


def kernel_type(parameter_type: Type) -> str:
    """The type in a function of softnpu::ops::kernels."""
    base, optional = parameter_type.base, parameter_type.optional
    if parameter_type.is_list:
        lists = {
            "Tensor": "at::TensorList", "Scalar": "at::ArrayRef<at::Scalar>", "bool": "at::IntArrayRef",
            "int": "at::OptionalIntArrayRef" if optional else "at::IntArrayRef",
            "float": "std::optional<at::ArrayRef<double>>" if optional else "at::ArrayRef<double>",
        }  # fmt: skip
        return "const c10::List<std::optional<at::Tensor>>&" if parameter_type.optional_elements else lists[base]
    if base in OBJECTS:
        if optional:
            return f"const std::optional<at::{base}>&"
        return "at::Tensor&" if parameter_type.written else f"const at::{base}&"
    if base == "str":
        return "std::optional<std::string_view>" if optional else "std::string_view"
    values = {"bool": "bool", "dtype": "at::ScalarType", "float": "double", "double": "double", "uint64": "uint64_t"}
    return values.get(base, "int64_t")


def build_method(parameter_type: Type) -> str:
    """The method of softnpu::ops::Build that takes it."""
    if parameter_type.is_list:
        lists = {"Tensor": "tensors", "Scalar": "scalars", "int": "integers", "float": "reals", "bool": "flags"}
        return lists[parameter_type.base]
    words = {"Tensor": "tensor", "Scalar": "scalar", "str": "text", "float": "real", "double": "real"}
    return words.get(parameter_type.base, "integer")


def is_quick(function: DeviceFunction) -> bool:
    """Whether build_quickly() of quick_build.h takes the parameters: no text, and lists of tensors or ints only."""
    methods = {build_method(parameter.type) for parameter in function.parameters}
    return not function.sync and methods <= {"tensor", "scalar", "integer", "real", "tensors", "integers"}


def parameter_kind(parameter_type: Type) -> str:
    if parameter_type.is_list:
        return KINDS[parameter_type.base]
    return f"k{parameter_type.base}" if parameter_type.base in OBJECTS else "kValue"


def positions(function: DeviceFunction) -> tuple[dict[str, int], dict[str, int]]:
    """Name -> number of the parameter within its kind, and kind -> count.

    Kinds are single tensors, single scalars, values, and arrays together with lists."""
    counts: dict[str, int] = {}
    found: dict[str, int] = {}
    for parameter in function.parameters:
        kind = "kSlice" if parameter.type.is_list else parameter_kind(parameter.type)
        found[parameter.name] = counts.get(kind, 0)
        counts[kind] = found[parameter.name] + 1
    return found, counts
