"""The fast shape rule of an operator gives the dtype, sizes and strides that the CPU gives."""

from pathlib import Path

import pytest
import torch
import torch_npu  # noqa: F401
from device_table import read_device_table
from plugin_table import read_plugin_table

ROOT = Path(__file__).resolve().parents[2]

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
    torch.bool, torch.complex64,
)  # fmt: skip
LAYOUTS = {
    "contiguous": lambda: ((2, 3, 4, 5), (60, 20, 5, 1)),
    "channels_last": lambda: ((2, 3, 4, 5), (60, 1, 15, 3)),
    "transposed": lambda: ((4, 5), (1, 4)),
    "scalar": lambda: ((), ()),
    "empty": lambda: ((0, 3), (3, 1)),
    "size_one": lambda: ((3, 1, 2), (2, 7, 1)),
}


def fast_rows():
    device = read_device_table(ROOT / "softnpu/ops/aclnn.yaml")
    return {op.name: op for op in read_plugin_table(ROOT / "csrc/aten/ops.yaml", device) if op.fast}


ROWS = fast_rows()


def overload(function):
    name = function.func.name
    return getattr(getattr(torch.ops.aten, str(name.name)), name.overload_name or "default")


def tensor(dtype, layout, device):
    sizes, strides = LAYOUTS[layout]()
    return torch.empty_strided(sizes, strides, dtype=dtype, device=device).fill_(1)


def arguments(function, dtype, layout, device, scalar, number=None):
    """One value per argument of the schema; `number` replaces the second tensor."""
    values, keywords, seen = [], {}, 0
    for argument in function.func.arguments.flat_all:
        kind = str(argument.type)
        if kind == "Tensor":
            seen += 1
            value = number if seen == 2 and number is not None else tensor(dtype, layout, device)
        elif kind in ("Scalar", "Scalar?"):
            value = scalar
        else:
            value = {"bool": False, "str": "none"}[kind]
        if argument in function.func.arguments.flat_positional:
            values.append(value)
        else:
            keywords[argument.name] = value
    return values, keywords


def agrees(got, wanted, layout):
    """A refusal is not a wrong layout. For empty tensors the CPU may refuse in a kernel that npu does not call."""
    return got in (wanted, "refused") or (layout == "empty" and wanted == "refused")


def outcome(function, *description):
    values, keywords = arguments(function, *description)
    try:
        result = overload(function)(*values, **keywords)
        torch.npu.synchronize()
    except (RuntimeError, TypeError):
        return "refused"
    return result.dtype, tuple(result.shape), result.stride()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ROWS)
def test_the_rule_agrees_with_the_shape_function(name, layout):
    group = ROWS[name].group
    for function in filter(None, (group.functional, group.inplace)):
        for dtype in DTYPES:
            for scalar in (1, 0.5):
                wanted = outcome(function, dtype, layout, "cpu", scalar)
                got = outcome(function, dtype, layout, "npu", scalar)
                assert agrees(got, wanted, layout), f"{function.func.name}, {dtype}, scalar {scalar}: {got}, not {wanted}"


@pytest.mark.parametrize("name", [name for name, op in ROWS.items() if "other" in op.scalar])
def test_a_python_number_leaves_the_layout_alone(name):
    function = ROWS[name].group.functional
    for layout in LAYOUTS:
        for dtype in DTYPES:
            for number in (2, 0.5, True, 1j):
                wanted = outcome(function, dtype, layout, "cpu", 1, number)
                got = outcome(function, dtype, layout, "npu", 1, number)
                assert agrees(got, wanted, layout), f"{dtype}, {layout}, {number}: {got}, not {wanted}"
