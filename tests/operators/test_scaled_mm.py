"""Products of float8 and int8 matrices and grouped products give the results and the refusals of the CPU."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from tests.compare import assert_same
from tests.support import TORCH, needs_torch

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def float8(*shape, dtype=E4M3, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def on_npu(value):
    if isinstance(value, list):
        return [on_npu(item) for item in value]
    return value.npu() if isinstance(value, torch.Tensor) else value


def both(function, *arguments, **keywords):
    """The call on the CPU and on npu."""
    cpu = function(*arguments, **keywords)
    npu = function(*map(on_npu, arguments), **{name: on_npu(value) for name, value in keywords.items()})
    return npu, cpu


A, B = float8(16, 32), float8(24, 32, seed=1).t()
ONE, TWO = torch.tensor(1.5), torch.tensor(0.25)
ROWS, COLUMNS = torch.rand(16, 1), torch.rand(1, 24)
SCALED_ROWS = needs_torch(2, 13, "the CPU scales whole tensors only")


@pytest.mark.parametrize("out_dtype", [torch.bfloat16, torch.float16, torch.float32, E4M3, E5M2, None])
@pytest.mark.parametrize("scales", [(ONE, TWO), pytest.param((ROWS, COLUMNS), marks=SCALED_ROWS)], ids=["tensor", "rows"])
def test_scaled_mm(scales, out_dtype):
    npu, cpu = both(torch._scaled_mm, A, B, *scales, out_dtype=out_dtype)
    assert_same(npu.float(), cpu.float(), rtol=0, atol=0)
    assert npu.dtype == cpu.dtype


def test_scaled_mm_takes_a_bias_a_result_scale_and_other_layouts():
    bias = torch.randn(24)
    assert_same(*both(torch._scaled_mm, A, B, ONE, TWO, bias=bias, out_dtype=torch.bfloat16))
    npu, cpu = both(torch._scaled_mm, A, B, ONE, TWO, scale_result=TWO, out_dtype=E4M3)
    assert_same(npu.float(), cpu.float())
    assert_same(*both(torch._scaled_mm, A, B.contiguous(), ONE, TWO, out_dtype=torch.float32))
    assert_same(*both(torch._scaled_mm, A[:, :31], B[:31], ONE, TWO, out_dtype=torch.float32))
    assert_same(*both(torch._scaled_mm, A.to(E5M2), B, ONE, TWO, out_dtype=torch.float32))
    assert_same(*both(torch._scaled_mm, A[:0], B, ONE, TWO, out_dtype=torch.float32))


def test_scaled_mm_writes_to_out():
    out = torch.empty(0, dtype=torch.bfloat16, device="npu")
    torch.ops.aten._scaled_mm.out(A.npu(), B.npu(), ONE.npu(), TWO.npu(), out_dtype=torch.bfloat16, out=out)
    assert_same(out, torch._scaled_mm(A, B, ONE, TWO, out_dtype=torch.bfloat16))


@SCALED_ROWS
def test_scaled_mm_by_recipe():
    tensorwise, rowwise = F.ScalingType.TensorWise, F.ScalingType.RowWise
    for a, b, recipe in ((ONE, TWO, tensorwise), (ROWS, COLUMNS, rowwise)):
        cpu = F.scaled_mm(A, B, a, recipe, b, recipe, output_dtype=torch.bfloat16)
        npu = F.scaled_mm(A.npu(), B.npu(), a.npu(), recipe, b.npu(), recipe, output_dtype=torch.bfloat16)
        assert_same(npu, cpu)


WRONG = {
    "shapes": lambda d: torch._scaled_mm(A.to(d), A.to(d), ONE.to(d), ONE.to(d), out_dtype=torch.bfloat16),
    "a vector": lambda d: torch._scaled_mm(A[0].to(d), B.to(d), ONE.to(d), ONE.to(d), out_dtype=torch.bfloat16),
    "not float8": lambda d: torch._scaled_mm(A.float().to(d), B.float().to(d), ONE.to(d), ONE.to(d)),
    "mixed scales": lambda d: torch._scaled_mm(A.to(d), B.to(d), ROWS.to(d), ONE.to(d)),
    "scales of double": lambda d: torch._scaled_mm(A.to(d), B.to(d), ONE.double().to(d), ONE.to(d)),
    "a short bias": lambda d: torch._scaled_mm(A.to(d), B.to(d), ONE.to(d), ONE.to(d), bias=torch.ones(3, device=d)),
    "the recipe": lambda d: torch._scaled_mm_v2(A.to(d), B.to(d), [ONE.to(d)], [2], [], [ONE.to(d)], [2], [], None, None),
    "swizzle": lambda d: torch._scaled_mm_v2(A.to(d), B.to(d), [ONE.to(d)], [0], [1], [ONE.to(d)], [0], [1], None, None),
    "int_mm of floats": lambda d: torch._int_mm(torch.ones(4, 4, device=d), torch.ones(4, 4, device=d)),
    "int_mm of a vector": lambda d: torch._int_mm(torch.ones(4, dtype=torch.int8, device=d), torch.ones(4, 4, device=d)),
    "groups without ends": lambda d: torch._grouped_mm(torch.ones(8, 8, device=d), torch.ones(2, 8, 8, device=d)),
    "ends of int64": lambda d: torch._grouped_mm(
        torch.ones(8, 8, device=d), torch.ones(2, 8, 8, device=d), offs=torch.tensor([4, 8], device=d)
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_calls_that_the_cpu_refuses_are_refused(what):
    with pytest.raises(Exception) as expected:
        WRONG[what]("cpu")
    with pytest.raises(type(expected.value) if TORCH >= (2, 13) else Exception):  # older versions check less on the CPU
        WRONG[what]("npu")


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_int_mm(dtype):
    a = torch.randint(0, 100, (17, 33), dtype=torch.int16).to(dtype)
    b = torch.randint(-100, 100, (33, 8), dtype=torch.int8)
    assert_same(*both(torch._int_mm, a, b), rtol=0, atol=0)
    out = torch.empty(17, 8, dtype=torch.int32, device="npu")
    assert torch.ops.aten._int_mm.out(a.npu(), b.npu(), out=out) is out
    assert_same(out, torch._int_mm(a, b), rtol=0, atol=0)


def ends(*values):
    return torch.tensor(values, dtype=torch.int32)


GROUPS = {
    "rows": ((8, 16), (2, 16, 24), ends(3, 8)),
    "an empty group": ((8, 16), (3, 16, 24), ends(3, 3, 8)),
    "columns": ((2, 8, 16), (16, 24), ends(8, 24)),
    "the inner dimension": ((8, 24), (24, 16), ends(8, 24)),
    "batches": ((2, 8, 16), (2, 16, 24), None),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("groups", GROUPS)
def test_grouped_mm(groups, dtype):
    left, right, offs = GROUPS[groups]
    a, b = torch.randn(left, dtype=dtype), torch.randn(right, dtype=dtype)
    assert_same(*both(torch._grouped_mm, a, b, offs=offs))


def test_grouped_mm_has_gradients():
    def gradients(device):
        a = torch.linspace(-1, 1, 128, device=device).view(8, 16).requires_grad_()
        b = torch.linspace(1, -1, 768, device=device).view(2, 16, 24).requires_grad_()
        torch._grouped_mm(a, b, offs=ends(3, 8).to(device)).square().sum().backward()
        return [a.grad, b.grad]

    assert_same(gradients("npu"), gradients("cpu"))


def scaled_by_hand(a, b, scale_a, scale_b, offs):
    """The scaled grouped product computed in float32."""
    if a.dim() == 3 and b.dim() == 3:
        return torch.bmm(a.float() * scale_a[..., None], b.float() * scale_b[:, None]).bfloat16()
    starts = [0, *offs.tolist()]
    pieces = [slice(*span) for span in itertools.pairwise(starts)]
    if a.dim() == 2 and b.dim() == 2:
        rows, columns = scale_a.view(len(pieces), -1), scale_b.view(len(pieces), -1)
        products = [(a[:, p].float() * rows[g][:, None]) @ (b[p].float() * columns[g][None]) for g, p in enumerate(pieces)]
        return torch.stack(products).bfloat16()
    if a.dim() == 2:
        products = [(a[p].float() * scale_a[p][:, None]) @ (b[g].float() * scale_b[g]) for g, p in enumerate(pieces)]
        return torch.cat(products).bfloat16()
    products = [(a[g].float() * scale_a[g][:, None]) @ (b[:, p].float() * scale_b[p]) for g, p in enumerate(pieces)]
    return torch.cat(products, 1).bfloat16()


@pytest.mark.parametrize(
    ("left", "right", "offs"),
    [
        ((32, 16), (2, 48, 16), ends(16, 32)),
        ((2, 32, 16), (48, 16), ends(16, 48)),
        ((32, 48), (16, 48), ends(16, 48)),
        ((2, 32, 16), (2, 48, 16), None),
    ],
    ids=["rows", "columns", "inner", "batches"],
)
def test_scaled_grouped_mm(left, right, offs):
    a, b = float8(*left), float8(*right, seed=1).transpose(-2, -1)
    groups = len(offs) if a.dim() == b.dim() == 2 else 1
    scale_a = torch.rand(left[0] * groups if a.dim() == 2 else left[:2]) + 0.5
    scale_b = torch.rand(right[0] * groups if b.dim() == 2 else right[:2]) + 0.5
    expected = scaled_by_hand(a, b, scale_a, scale_b, offs)
    arguments = [a.npu(), b.npu(), scale_a.npu(), scale_b.npu()]
    found = torch._scaled_grouped_mm(*arguments, offs=on_npu(offs), out_dtype=torch.bfloat16)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-2, atol=1e-1)
    rowwise = F.ScalingType.RowWise
    recipe = F.scaled_grouped_mm(
        a.npu(), b.npu(), scale_a.npu(), rowwise, scale_b.npu(), rowwise, offs=on_npu(offs), output_dtype=torch.bfloat16
    )
    assert torch.equal(recipe, found)


def test_scaled_grouped_mm_refuses_scales_of_the_wrong_size():
    a, b = float8(32, 16).npu(), float8(2, 48, 16).transpose(1, 2).npu()
    with pytest.raises(RuntimeError, match="scale_a must be a vector of 32"):
        torch._scaled_grouped_mm(a, b, torch.ones(31).npu(), torch.ones(2, 48).npu(), offs=ends(16, 32).npu())


@pytest.mark.parametrize("dtype", [E4M3, E5M2, torch.float8_e8m0fnu])
def test_float8_is_stored_cast_compared_and_printed(dtype):
    cpu = torch.tensor([0.5, 2.0, 4.0, 1.0]).to(dtype)
    npu = cpu.npu()
    assert_same(npu.float(), cpu.float())
    assert_same(npu[::2].clone().float(), cpu[::2].clone().float())
    assert_same(npu == npu[0], cpu == cpu[0])
    assert_same(npu != 2.0, cpu != 2.0)
    assert npu[1].item() == cpu[1].item() and npu.tolist() == cpu.tolist()
    assert_same(torch.cat([npu, npu]).view(torch.uint8), torch.cat([cpu, cpu]).view(torch.uint8))
    assert_same(torch.tensor([1.0, 2.0], device="npu").to(dtype).bfloat16(), torch.tensor([1.0, 2.0]).bfloat16())
    assert str(npu).startswith("tensor(") and "npu" in str(npu)
