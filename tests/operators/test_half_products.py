"""Products of float16 and bfloat16 tensors are computed in float32 and rounded once, in every shape, layout and form."""

import hashlib
import itertools
import os
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

from tests.compare import assert_same_outcome

DTYPES = [torch.float16, torch.bfloat16]
UNIT = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}  # the largest relative error of one rounding
STEP = {torch.float16: 2.0**-25, torch.bfloat16: 2.0**-134}  # the largest error of one rounding to a subnormal number

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def rand(dtype, *shape, seed=0):
    """Numbers of the dtype on the CPU, positive and negative."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def operands_of(dtype, shapes):
    return [rand(dtype, *shape, seed=number) for number, shape in enumerate(shapes)]


def exact(function, operands, change=lambda operand: operand):
    return function(*(change(operand.double()) for operand in operands))


def assert_rounded_once(function, operands, on_npu=None):
    """The function is linear in each operand, so its value for absolute values bounds the rounding errors of float32."""
    result = function(*(on_npu or [operand.npu() for operand in operands]))
    results, values, bounds = (
        [item] if isinstance(item, torch.Tensor) else list(item)
        for item in (result, exact(function, operands), exact(function, operands, torch.abs))
    )
    for actual, expected, bound in zip(results, values, bounds, strict=True):
        dtype = operands[0].dtype
        assert actual.dtype == dtype and actual.shape == expected.shape and actual.device.type == "npu"
        actual = actual.detach().cpu().double()
        error = (actual - expected.detach()).abs()
        error[actual.isinf() & (expected.abs() > torch.finfo(dtype).max)] = 0
        allowed = UNIT[dtype] * expected.detach().abs() + 16 * 2.0**-24 * bound.detach().abs() + STEP[dtype]
        assert (error <= allowed).all(), (error - allowed).max()


MATRICES = {
    "mm": (torch.mm, lambda n, k, m: [(n, k), (k, m)]),
    "matmul": (torch.matmul, lambda n, k, m: [(2, n, k), (k, m)]),
    "matmul of a vector": (torch.matmul, lambda n, k, m: [(k,), (2, k, m)]),
    "bmm": (torch.bmm, lambda n, k, m: [(3, n, k), (3, k, m)]),
    "addmm": (torch.addmm, lambda n, k, m: [(n, m), (n, k), (k, m)]),
    "addmm of a row": (torch.addmm, lambda n, k, m: [(m,), (n, k), (k, m)]),
    "addmm of a column": (torch.addmm, lambda n, k, m: [(n, 1), (n, k), (k, m)]),
    "baddbmm": (torch.baddbmm, lambda n, k, m: [(3, n, m), (3, n, k), (3, k, m)]),
    "baddbmm of a matrix": (torch.baddbmm, lambda n, k, m: [(n, m), (3, n, k), (3, k, m)]),
    "addbmm": (torch.addbmm, lambda n, k, m: [(n, m), (3, n, k), (3, k, m)]),
    "linear": (F.linear, lambda n, k, m: [(2, n, k), (m, k), (m,)]),
    "mv": (torch.mv, lambda n, k, m: [(n, k), (k,)]),
    "addmv": (torch.addmv, lambda n, k, m: [(n,), (n, k), (k,)]),
    "dot": (torch.dot, lambda n, k, m: [(n * k * m,), (n * k * m,)]),
    "scaled addmm": (lambda a, b, c: torch.addmm(a, b, c, beta=1.7, alpha=0.3), lambda n, k, m: [(m,), (n, k), (k, m)]),
    "scaled baddbmm": (lambda a, b, c: torch.baddbmm(a, b, c, beta=0.3, alpha=3), lambda n, k, m: [(m,), (2, n, k), (2, k, m)]),
    "scaled addmv": (lambda a, b, c: torch.addmv(a, b, c, beta=1.7, alpha=0.3), lambda n, k, m: [(n,), (n, k), (k,)]),
}


@dtypes
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 1), (7, 5, 3), (33, 129, 17), (64, 512, 64), (0, 4, 3), (4, 0, 3), (4, 3, 0),
        (1, 257, 600), (2, 128, 33), (3, 300, 5), (4, 31, 1030), (90, 129, 1), (17, 64, 4), (1, 0, 3),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name, sizes, dtype):
    function, shapes = MATRICES[name]
    assert_rounded_once(function, operands_of(dtype, shapes(*sizes)))


LAYOUTS = {
    "transposed": lambda x: x.mT.contiguous().mT,
    "every second row": lambda x: torch.stack([x, x.flip(0)], -2).flatten(-3, -2)[..., ::2, :],
    "every second column": lambda x: torch.stack([x, -x], -1).flatten(-2)[..., ::2],
    "expanded rows": lambda x: x[..., :1, :].expand(x.shape),
    "expanded columns": lambda x: x[..., :1].expand(x.shape),
    "at an odd address": lambda x: torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape),
}


SIZES = [(9, 34, 21), (1, 150, 70), (3, 34, 600), (70, 150, 2)]


@dtypes
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["mm", "bmm", "addmm", "baddbmm"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_layouts_of_matrices(sizes, name, layout, dtype):
    function, shapes = MATRICES[name]
    operands = operands_of(dtype, shapes(*sizes))
    laid_out = [LAYOUTS[layout](operand.npu()) for operand in operands]
    assert_rounded_once(function, [operand.cpu() for operand in laid_out], laid_out)


@dtypes
@pytest.mark.parametrize("layout", ["every second one", "expanded", "reversed twice"])
@pytest.mark.parametrize("name", ["mv", "addmv"])
def test_layouts_of_vectors(name, layout, dtype):
    function, shapes = MATRICES[name]
    change = {
        "every second one": lambda x: torch.stack([x, -x], -1).flatten(-2)[..., ::2],
        "expanded": lambda x: x[..., :1].expand(x.shape),
        "reversed twice": lambda x: x.flip(0).flip(0).mT.contiguous().mT if x.dim() == 2 else x,
    }[layout]
    laid_out = [change(operand.npu()) for operand in operands_of(dtype, shapes(70, 150, 1))]
    assert_rounded_once(function, [operand.cpu() for operand in laid_out], laid_out)


@dtypes
@pytest.mark.parametrize(("name", "sizes"), [*itertools.product(("mm", "bmm", "addmm"), SIZES), ("baddbmm", SIZES[0])], ids=str)
def test_an_output_of_any_layout_gets_the_result(name, sizes, dtype):
    function, shapes = MATRICES[name]
    operands = operands_of(dtype, shapes(*sizes))
    expected = function(*(operand.npu() for operand in operands))
    for layout in ("transposed", "every second row", "every second column"):
        out = LAYOUTS[layout](torch.zeros_like(expected))
        assert function(*(operand.npu() for operand in operands), out=out) is out
        # The layout may change the order of the float32 sums.
        torch.testing.assert_close(out, expected, rtol=2 * UNIT[dtype], atol=2e-4, msg=layout)


@dtypes
def test_an_in_place_form_reads_its_operand_before_it_writes(dtype):
    a, b, c = (operand.npu() for operand in operands_of(dtype, [(9, 9), (9, 9), (9, 9)]))
    expected = torch.addmm(a, b, c, beta=0.5, alpha=2)
    assert torch.equal(a.clone().addmm_(b, c, beta=0.5, alpha=2), expected)
    assert torch.equal(a.t().clone().t().addmm_(b, c, beta=0.5, alpha=2), expected)
    same = b.clone()
    assert torch.equal(torch.addmm(a, same, c, out=same), torch.addmm(a, b, c))
    row = b[:1].clone()
    assert torch.equal(torch.mm(row, c, out=row), torch.mm(b[:1].clone(), c))
    vector = c[0].clone()
    assert torch.equal(torch.mv(b, vector, out=vector), torch.mv(b, c[0]))
    batch = a.expand(2, 9, 9).clone()
    assert torch.equal(batch.baddbmm_(b.expand(2, 9, 9), c.expand(2, 9, 9), beta=0.5, alpha=2)[1], expected)
    vector = a[0].clone()
    assert torch.equal(vector.addmv_(b, c[0]), torch.addmv(a[0], b, c[0]))


@dtypes
def test_beta_0_ignores_the_addend(dtype):
    b, c = (operand.npu() for operand in operands_of(dtype, [(5, 6), (6, 7)]))
    addend = torch.full((5, 7), float("nan"), dtype=dtype, device="npu")
    assert torch.equal(torch.addmm(addend, b, c, beta=0), b @ c)
    assert torch.equal(addend.clone().addmm_(b, c, beta=0), b @ c)
    assert torch.equal(torch.addmm(addend[:1], b[:1], c, beta=0), b[:1] @ c)
    assert torch.equal(torch.addmv(addend[:, 0], b, c[:, 0], beta=0), b @ c[:, 0])
    assert torch.equal(torch.baddbmm(addend[None], b[None], c[None], beta=0)[0], b @ c)


@dtypes
def test_results_out_of_range_and_special_numbers_are_those_of_the_cpu(dtype):
    largest = torch.finfo(dtype).max
    left = torch.tensor(
        [[largest, largest], [largest, -largest], [float("inf"), 1], [float("inf"), float("-inf")], [float("nan"), 0]]
    )
    right = torch.tensor([[1.0, 0.5], [1.0, 0.5]])
    for operands in ((left.to(dtype), right.to(dtype)), (left[None].to(dtype), right[None].to(dtype))):
        expected = torch.matmul(*operands)
        actual = torch.matmul(*(operand.npu() for operand in operands)).cpu()
        assert torch.equal(actual.isnan(), expected.isnan())
        assert torch.equal(actual.nan_to_num(nan=7), expected.nan_to_num(nan=7))


@dtypes
def test_operands_of_several_types_are_refused_as_on_the_cpu(dtype):
    half, single = rand(dtype, 4, 4), rand(torch.float32, 4, 4)
    other = half.to(torch.bfloat16 if dtype == torch.float16 else torch.float16)
    for function, operands in (
        (torch.mm, (half, single)),
        (torch.mm, (half, other)),
        (torch.bmm, (half[None], single[None])),
        (torch.addmm, (half, half, single)),
        (torch.dot, (half[0], single[0])),
    ):
        assert_same_outcome(function, operands, [operand.npu() for operand in operands], late=True)
    with pytest.raises(RuntimeError, match="type"):
        F.conv2d(half.view(1, 4, 2, 2).npu(), single.view(4, 4, 1, 1).npu())
        torch.npu.synchronize()


CONVOLUTIONS = {
    "1d": (F.conv1d, [(2, 3, 17), (5, 3, 3), (5,)], {"padding": 1}),
    "2d": (F.conv2d, [(2, 3, 9, 11), (5, 3, 3, 3), (5,)], {"padding": 1}),
    "2d, no bias": (F.conv2d, [(3, 16, 8, 8), (8, 16, 1, 1)], {}),
    "2d, strides and dilation": (F.conv2d, [(2, 4, 15, 15), (6, 4, 3, 3), (6,)], {"stride": 2, "dilation": 2}),
    "3d": (F.conv3d, [(2, 3, 5, 6, 7), (4, 3, 3, 3, 3), (4,)], {"padding": 1}),
    "groups": (F.conv2d, [(2, 8, 9, 9), (12, 2, 3, 3), (12,)], {"groups": 4}),
    "depthwise": (F.conv2d, [(2, 8, 9, 9), (8, 1, 3, 3), (8,)], {"groups": 8, "padding": 1}),
    "transposed 1d": (F.conv_transpose1d, [(2, 4, 9), (4, 3, 3), (3,)], {"stride": 2}),
    "transposed 2d": (F.conv_transpose2d, [(2, 4, 6, 5), (4, 3, 2, 2), (3,)], {"stride": 2}),
    "transposed 3d": (F.conv_transpose3d, [(1, 4, 3, 4, 5), (4, 2, 2, 2, 2), (2,)], {"stride": 2, "output_padding": 1}),
    "transposed, groups": (F.conv_transpose2d, [(2, 4, 6, 5), (4, 3, 3, 3), (6,)], {"groups": 2}),
    "one pixel": (F.conv2d, [(1, 1, 1, 1), (1, 1, 1, 1), (1,)], {}),
    "no image": (F.conv2d, [(0, 3, 9, 9), (5, 3, 3, 3), (5,)], {}),
}


@dtypes
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name, dtype):
    function, shapes, options = CONVOLUTIONS[name]
    assert_rounded_once(lambda *operands: function(*operands, **options), operands_of(dtype, shapes))


def gradients(function):
    """The gradients of a function for a gradient of ones. Each is linear in the other operands."""

    def run(*operands):
        leaves = [operand.detach().requires_grad_() for operand in operands]
        output = function(*leaves)
        return torch.autograd.grad(output, leaves, torch.ones_like(output))

    return run


@dtypes
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradients_of_convolutions(name, dtype):
    function, shapes, options = CONVOLUTIONS[name]
    assert_rounded_once(gradients(lambda *operands: function(*operands, **options)), operands_of(dtype, shapes))


@dtypes
@pytest.mark.parametrize("name", ["mm", "bmm", "addmm", "baddbmm", "linear", "mv", "dot"])
def test_gradients_of_products(name, dtype):
    function, shapes = MATRICES[name]
    assert_rounded_once(gradients(function), operands_of(dtype, shapes(7, 33, 5)))


@dtypes
def test_images_may_have_their_channels_last(dtype):
    operands = operands_of(dtype, [(2, 8, 9, 9), (4, 8, 3, 3)])
    last = [operand.npu().to(memory_format=torch.channels_last) for operand in operands]
    assert_rounded_once(F.conv2d, operands, last)
    assert F.conv2d(*last).is_contiguous(memory_format=torch.channels_last)


# Calls that the device runs in parts, because their float32 copies would be large.
LARGE = {
    "mm": (torch.mm, [(6000, 400), (400, 400)]),
    "addmm": (torch.addmm, [(6000, 1), (6000, 400), (400, 400)]),
    "addmm of a row": (torch.addmm, [(400,), (6000, 400), (400, 400)]),
    "bmm": (torch.bmm, [(150, 120, 120), (150, 120, 120)]),
    "baddbmm of a matrix": (torch.baddbmm, [(120, 120), (150, 120, 120), (150, 120, 120)]),
    "mv": (torch.mv, [(5000, 1000), (1000,)]),
    "addmv": (torch.addmv, [(5000,), (5000, 1000), (1000,)]),
    "convolution": (F.conv2d, [(7, 16, 200, 200), (8, 16, 1, 1), (8,)]),
    "gradients of a convolution": (gradients(F.conv2d), [(7, 8, 200, 200), (8, 8, 1, 1), (8,)]),
}


@dtypes
@pytest.mark.parametrize("name", LARGE)
def test_large_operands(name, dtype):
    function, shapes = LARGE[name]
    assert_rounded_once(function, operands_of(dtype, shapes))


def attend(query, key, value, mask=None, causal=False):
    return F.scaled_dot_product_attention(query, key, value, mask, is_causal=causal)


def boolean_mask(batch, heads, length, keys):
    mask = torch.rand(batch, heads, length, keys, generator=torch.Generator().manual_seed(1)) > 0.3
    mask[..., 0] = True
    return mask


ATTENTION = {
    "plain": ((2, 3, 17, 8), lambda dtype: {}),
    "causal": ((2, 3, 17, 8), lambda dtype: {"causal": True}),
    "boolean mask": ((2, 3, 17, 8), lambda dtype: {"mask": boolean_mask(2, 1, 17, 17)}),
    "mask of the dtype": ((2, 3, 17, 8), lambda dtype: {"mask": rand(dtype, 17, 17)}),
    "one word": ((1, 1, 1, 8), lambda dtype: {}),
    "as many images as words": ((6, 2, 6, 8), lambda dtype: {"mask": rand(dtype, 6, 6)}),
    "large": ((70, 4, 100, 64), lambda dtype: {}),
    "large, with a mask per image": ((70, 4, 100, 64), lambda dtype: {"mask": boolean_mask(70, 1, 100, 100)}),
}


@dtypes
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name, dtype):
    shape, options_of = ATTENTION[name]
    options = options_of(dtype)
    operands = [rand(dtype, *shape, seed=seed) for seed in range(3)]
    mask = options.get("mask")
    on_npu = {**options, **({"mask": mask.npu()} if mask is not None else {})}
    if mask is not None and mask.is_floating_point():
        options["mask"] = mask.double()
    expected = exact(gradients(lambda *leaves: attend(*leaves, **options)), operands)
    result = attend(*(operand.npu() for operand in operands), **on_npu).cpu().double()
    value = exact(lambda *leaves: attend(*leaves, **options), operands)
    assert ((result - value).abs() <= UNIT[dtype] * value.abs() + 1e-5).all()
    # The backward pass reads the rounded output.
    actual = gradients(lambda *leaves: attend(*leaves, **on_npu))(*(operand.npu() for operand in operands))
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.cpu().double(), other, rtol=2 * UNIT[dtype], atol=8 * UNIT[dtype])


def bits():
    """A digest of results that may depend on threads or on the way of launching."""
    digest = hashlib.sha256()
    for dtype in DTYPES:
        for name in ("mm", "bmm", "addmm of a row", "mv", "dot", "linear"):
            function, shapes = MATRICES[name]
            output = function(*(operand.npu() for operand in operands_of(dtype, shapes(96, 200, 64))))
            digest.update(output.cpu().view(torch.int16).numpy().tobytes())
        for name in ("mm", "bmm", "linear", "scaled addmm"):
            function, shapes = MATRICES[name]
            output = function(*(operand.npu() for operand in operands_of(dtype, shapes(2, 300, 700))))
            digest.update(output.cpu().view(torch.int16).numpy().tobytes())
        for name in ("2d", "depthwise", "transposed 2d"):
            function, shapes, options = CONVOLUTIONS[name]
            run = gradients(lambda *leaves, function=function, options=options: function(*leaves, **options))
            for output in run(*(operand.npu() for operand in operands_of(dtype, shapes))):
                digest.update(output.cpu().view(torch.int16).numpy().tobytes())
        output = attend(*(rand(dtype, 4, 4, 64, 32, seed=seed).npu() for seed in range(3)))
        digest.update(output.cpu().view(torch.int16).numpy().tobytes())
    return digest.hexdigest()


def test_bits_do_not_depend_on_the_number_of_threads():
    threads = torch.get_num_threads()
    try:
        found = set()
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.add(bits())
    finally:
        torch.set_num_threads(threads)
    assert len(found) == 1


def test_bits_do_not_depend_on_the_way_of_launching():
    code = "import torch, tests.operators.test_half_products as t; print(t.bits())"
    found = {bits()}
    for launch in ("queue", "sync"):
        environment = {**os.environ, "SOFTNPU_LAUNCH": launch}
        result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        found.add(result.stdout.strip())
    assert len(found) == 1
