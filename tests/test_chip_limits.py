"""SOFTNPU_CHIP_LIMITS=1: operators have the limits of the chip; without it none of them."""

import json

import pytest

PROGRAM = """
import json

import torch

torch.manual_seed(0)
a, b, bias = torch.randn(8, 16), torch.randn(16, 4), torch.randn(4) * 1000
found = {}

try:
    (torch.ones(2, dtype=torch.float64).npu() + 1).cpu()
    found["float64"] = "computed"
except RuntimeError as error:
    found["float64"] = str(error)
found["afterwards"] = (torch.ones(2).npu() + 1).tolist()

half = torch.tensor([60000.0, -60000.0, float("inf"), float("nan"), 1.0]).half().npu()
found["twice"] = (half * 2).tolist()
found["inplace"] = half.clone().mul_(2).tolist()
found["cast"] = torch.tensor([1e6, -1e6]).npu().half().tolist()
found["single"] = (torch.tensor([3e38]).npu() * 10).tolist()


def same(npu, cpu):
    return torch.equal(npu.cpu(), cpu) or bool((npu.cpu() - cpu).abs().max() < 1e-4)


def rounded(x):
    return x.half().float()


def judge(name, function, operands, addends=()):
    npu = function(*[x.npu() for x in (*operands, *addends)])
    exact = function(*operands, *addends)
    cube = function(*map(rounded, operands), *addends)
    found[name] = ["exact"] * same(npu, exact) + ["rounded"] * same(npu, cube)


judge("mm", torch.mm, (a, b))
judge("addmm", lambda x, y, z: torch.addmm(z, x, y), (a, b), (bias,))
judge("bmm", torch.bmm, (a[None], b[None]))
judge("linear", lambda x, y, z: torch.nn.functional.linear(x, y.t(), z), (a, b), (bias,))
judge("conv", torch.conv2d, (torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)), (bias,))
judge("mul", torch.mul, (a, a))
print(json.dumps(found))
"""
PRODUCTS = ("mm", "addmm", "bmm", "linear", "conv")


def run(child, value):
    done = child(PROGRAM, SOFTNPU_CHIP_LIMITS=value)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def limited(child):
    return run(child, "1")


@pytest.fixture(scope="module")
def free(child):
    return run(child, "0")


def test_float64_is_refused_with_the_name_of_the_switch(limited, free):
    assert "float64" in limited["float64"]
    assert "SOFTNPU_CHIP_LIMITS" in limited["float64"]
    assert limited["afterwards"] == [2.0, 2.0]
    assert free["float64"] == "computed"


def test_float16_saturates(limited, free):
    assert limited["twice"] == [65504.0, -65504.0, 65504.0, 0.0, 2.0]
    assert limited["inplace"] == limited["twice"]
    assert limited["cast"] == [65504.0, -65504.0]
    assert free["cast"] == [float("inf"), float("-inf")]
    assert free["twice"][:2] == [float("inf"), float("-inf")]


def test_float32_does_not_saturate(limited):
    assert limited["single"] == [float("inf")]


@pytest.mark.parametrize("name", PRODUCTS)
def test_operands_of_products_are_rounded_to_float16(limited, free, name):
    assert limited[name] == ["rounded"]
    assert free[name] == ["exact"]


def test_other_operators_are_exact(limited):
    assert limited["mul"] == ["exact"]
