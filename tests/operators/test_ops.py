"""The operators that models need give what the CPU gives, for every layout of their input. docs/ops.md lists all operators."""

import itertools
import warnings

import pytest
import torch
import torch.nn.functional as F

from tests.compare import assert_same, assert_same_outcome
from tests.support import LAYOUTS, WRITABLE, pair

UNARY = {
    "abs": torch.abs, "neg": torch.neg, "exp": torch.exp, "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "relu": torch.relu, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
    "sign": torch.sign, "erf": torch.erf, "square": torch.square, "reciprocal": torch.reciprocal,
    "log": lambda x: torch.log(x.abs() + 1), "sqrt": lambda x: torch.sqrt(x.abs()), "rsqrt": lambda x: torch.rsqrt(x.abs() + 1),
    "angle": torch.angle, "entr": lambda x: torch.special.entr(x.abs()), "nan_to_num": lambda x: torch.nan_to_num(x / x.floor()),
    "isnan": torch.isnan, "isinf": torch.isinf, "logical_not": torch.logical_not, "clamp": lambda x: x.clamp(-1, 1),
    "clamp_min": lambda x: x.clamp(min=0), "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
    "leaky_relu": F.leaky_relu, "softplus": F.softplus, "hardtanh": F.hardtanh, "pow_scalar": lambda x: x**2,
    "pow_fraction": lambda x: x.abs() ** 0.5, "scalar_pow": lambda x: 2**x,
}  # fmt: skip

BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
    "add_alpha": lambda a, b: torch.add(a, b, alpha=0.5), "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le,
    "gt": torch.gt, "ge": torch.ge, "atan2": torch.atan2, "fmod": torch.fmod, "remainder": torch.remainder,
    "floor_divide": torch.floor_divide, "pow": lambda a, b: a.abs() ** b, "logical_and": torch.logical_and,
    "logical_or": torch.logical_or, "logical_xor": torch.logical_xor, "xlogy": lambda a, b: torch.xlogy(a, b.abs()),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3), "where": lambda a, b: torch.where(a > b, a, b),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=2), "addcdiv": lambda a, b: torch.addcdiv(a, a, b.abs() + 1),
    "copysign": torch.copysign, "fmax": torch.fmax, "fmin": torch.fmin, "hypot": torch.hypot, "heaviside": torch.heaviside,
    "xlog1py": lambda a, b: torch.special.xlog1py(a, b.abs()), "isin": torch.isin,
    "vdot": lambda a, b: torch.vdot(a[0, 0], b[0, 0]), "add_relu": lambda a, b: torch.ops.aten._add_relu(a, b, alpha=2),
}  # fmt: skip

SCALAR = {
    "add": lambda x: x + 2, "radd": lambda x: 2.5 + x, "sub": lambda x: x - 1, "rsub": lambda x: 1 - x, "mul": lambda x: x * 3,
    "div": lambda x: x / 2, "rdiv": lambda x: 2 / (x.abs() + 1), "floordiv": lambda x: x // 2, "mod": lambda x: x % 2,
    "gt": lambda x: x > 0, "eq": lambda x: x == 0, "zero_dim": lambda x: x * torch.tensor(2.0),
}  # fmt: skip

INPLACE = {
    "add_": lambda x: x.add_(1.5), "mul_": lambda x: x.mul_(x.clone()), "sub_": lambda x: x.sub_(x), "div_": lambda x: x.div_(2),
    "relu_": lambda x: x.relu_(), "zero_": lambda x: x.zero_(), "fill_": lambda x: x.fill_(3), "neg_": lambda x: x.neg_(),
    "clamp_": lambda x: x.clamp_(-1, 1), "exp_": lambda x: x.exp_(), "masked_fill_": lambda x: x.masked_fill_(x > 0, 9),
    "addcmul_": lambda x: x.addcmul_(x.clone(), x.clone(), value=0.1), "lerp_": lambda x: x.lerp_(torch.ones_like(x), 0.25),
}  # fmt: skip

REDUCTIONS = {
    "sum": torch.sum, "mean": torch.mean, "sum_dim": lambda x: x.sum(-1), "mean_keep": lambda x: x.mean(-1, keepdim=True),
    "prod": torch.prod, "amax": lambda x: x.amax(-1), "amin": lambda x: x.amin(-1), "max": torch.max, "min": torch.min,
    "max_dim": lambda x: x.max(-1), "min_dim": lambda x: x.min(-1), "argmax": torch.argmax, "argmin": lambda x: x.argmin(-1),
    "any": lambda x: (x > 0).any(), "all": lambda x: (x > 0).all(), "any_dim": lambda x: (x > 0).any(-1),
    "var": torch.var, "std": lambda x: x.std(-1), "norm": lambda x: torch.linalg.vector_norm(x), "cumsum": lambda x: x.cumsum(-1),
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1), "logsumexp": lambda x: x.logsumexp(-1),
    "sort": lambda x: x.sort(dim=-1, stable=True), "argsort": lambda x: x.argsort(-1, descending=True), "aminmax": torch.aminmax,
    "topk": lambda x: x.topk(2), "sum_all_dims": lambda x: x.sum(tuple(range(x.dim()))),
}  # fmt: skip

SHAPES = {
    "cat": lambda x: torch.cat([x, x], -1),
    "stack": lambda x: torch.stack([x, x]),
    "flip": lambda x: x.flip(-1),
    "roll": lambda x: x.roll(1, -1),
    "repeat": lambda x: x.repeat(2, *[1] * x.dim()),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(1),
    "pad": lambda x: F.pad(x, (1, 2)),
    "gather": lambda x: x.gather(-1, (x > 0).long()),
    "index_select": lambda x: x.index_select(-1, torch.tensor([1, 0], device=x.device)),
    "select_mask": lambda x: x[x > 0],
    "take_rows": lambda x: x[torch.tensor([2, 0], device=x.device)],
    "index_pair": lambda x: x[:, torch.tensor([1], device=x.device)],
    "host_index": lambda x: x[torch.tensor([1, 0])],
    "nonzero": lambda x: (x > 0).nonzero(),
    "ellipsis": lambda x: x[..., None, 0],
    "masked_fill": lambda x: x.masked_fill(x > 0, -1.0),
    "unique": lambda x: x.round().unique(return_inverse=True, return_counts=True),
    "scatter": lambda x: x.scatter(-1, (x > 0).long(), 5.0),
    "index_add": lambda x: x.index_add(-1, torch.tensor([0, 0], device=x.device), x.narrow(-1, 0, 2)),
    "one_hot": lambda x: F.one_hot((x > 0).long(), 2),
    "mode": lambda x: x.round().mode(-1),
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
    "nonzero_out": lambda x: torch.nonzero(x > 0, out=torch.empty(0, dtype=torch.int64, device=x.device)),
    "nonzero_static": lambda x: torch.nonzero_static(x > 0, size=7, fill_value=-2),
    "index_reduce": lambda x: x.index_reduce(-1, torch.tensor([0, 0], device=x.device), x.narrow(-1, 0, 2), "amax"),
    "searchsorted": lambda x: torch.searchsorted(x[0, 0].sort()[0], x.contiguous(), side="right"),
    "bucketize_number": lambda x: torch.bucketize(0.1, x[0, 0].sort()[0]),
    "unique_dim": lambda x: x.round().unique(return_inverse=True, return_counts=True, dim=0),
    "unique_consecutive": lambda x: x.round().unique_consecutive(return_inverse=True, return_counts=True),
    "narrow_copy": lambda x: torch.narrow_copy(x, 0, 1, 1),
}


def check(operation, *pairs, **options):
    """npu gives what the CPU gives, or both refuse."""
    assert_same_outcome(operation, *zip(*pairs, strict=True), late=True, **options)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, layout):
    check(UNARY[name], pair(layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, layout):
    check(BINARY[name], pair(layout), pair(layout, seed=1))


@pytest.mark.parametrize("other", ["contiguous", "transposed", "sliced", "expanded", "zero_dim"])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced", "expanded", "permuted", "zero_dim"])
@pytest.mark.parametrize("name", ["add", "mul", "eq", "where", "maximum"])
def test_binary_of_two_layouts(name, layout, other):
    check(BINARY[name], pair(layout), pair(other, seed=1))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_with_a_number(name, layout, dtype):
    check(SCALAR[name], pair(layout, dtype))


@pytest.mark.parametrize("layout", WRITABLE)
@pytest.mark.parametrize("name", INPLACE)
def test_in_place(name, layout):
    cpu, npu = pair(layout)
    result = INPLACE[name](npu)
    assert result is npu
    INPLACE[name](cpu)
    assert_same(npu, cpu)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_and_orders(name, layout):
    check(REDUCTIONS[name], pair(layout), strides=name not in ("sort", "topk", "argsort"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_indices(name, layout):
    check(SHAPES[name], pair(layout), strides=name not in ("unique", "unique_dim", "nonzero"))


@pytest.mark.parametrize("left", [torch.float32, torch.float16, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("right", [torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", ["add", "mul", "div", "gt"])
def test_dtypes_are_promoted_as_on_the_cpu(name, left, right):
    check(BINARY[name], pair("contiguous", left), pair("transposed", right, seed=1), rtol=1e-2)


@pytest.mark.parametrize("join", [torch.stack, torch.cat])
def test_tensors_of_two_dtypes_are_joined_in_either_order(join):
    whole, half = pair("contiguous"), pair("transposed", torch.float16, seed=1)
    for first, second in ((whole, half), (half, whole)):
        assert (first[1] - second[1]).dtype == torch.float32
        assert_same(join((first[1], second[1])), join((first[0], second[0])))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", ["add", "mul", "sub", "eq", "where", "maximum", "logical_and"])
def test_dtypes(name, dtype):
    check(BINARY[name], pair("sliced", dtype), pair("contiguous", dtype, seed=1))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool], ids=str)
def test_shifts(dtype):
    operands = pair("transposed", dtype), pair("contiguous", torch.uint8, seed=1)
    check(lambda x, y: x << y, *operands)
    check(lambda x, y: x >> y, *operands)
    check(lambda x, y: x << 2, *operands)
    check(lambda x, y: x.clone().__ilshift__(1).__irshift__(2), *operands)


@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_positions_of_triangles(offset):
    for make in (torch.tril_indices, torch.triu_indices):
        assert_same(make(4, 3, offset, device="npu"), make(4, 3, offset))


def test_out_of_another_dtype_is_cast_where_the_cpu_casts():
    cpu, npu = pair("contiguous")
    for operation in (torch.logical_and, torch.floor_divide):
        results = [operation(x, x, out=torch.empty(0, dtype=torch.float64, device=x.device)) for x in (npu, cpu)]
        assert_same(*results)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        torch.floor_divide(npu, npu, out=torch.empty(0, dtype=torch.int64, device="npu"))
    assert_same(npu.clone().logical_not_(), cpu.clone().logical_not_())


def test_out_is_written_and_resized_where_empty():
    cpu, npu = pair("contiguous")
    out = torch.empty(0, device="npu")
    assert torch.add(npu, npu, out=out) is out
    assert_same(out, cpu + cpu)
    wide = torch.zeros(3, 4, 10, device="npu")
    torch.mul(npu, npu, out=wide[..., ::2])
    assert_same(wide[..., ::2], (cpu * cpu).repeat_interleave(2, -1)[..., ::2], strides=False)
    assert wide[..., 1::2].sum().item() == 0


def test_a_result_on_the_cpu_is_refused():
    with pytest.raises(RuntimeError, match="same device"):
        torch.bernoulli(torch.empty(0, 3, device="npu"), out=torch.empty(0, 3))
    with pytest.raises(RuntimeError, match="same device"):
        torch.addr(torch.ones(2, 2).npu(), torch.ones(2).npu(), torch.ones(2).npu(), out=torch.ones(2, 2))


@pytest.mark.parametrize("name", ["addbmm_", "addr_"])
def test_a_sum_of_products_in_place_needs_room(name):
    factors = [torch.ones(5, 2, 3).npu(), torch.ones(5, 3, 4).npu()] if name == "addbmm_" else [torch.ones(2).npu()] * 2
    for shape in ((), (1,)):
        with pytest.raises(RuntimeError, match=r"doesn't match the broadcast shape|2D tensor expected"):
            getattr(torch.ones(shape).npu(), name)(*factors)
    torch.npu.synchronize()


def test_the_mode_of_a_number_is_resized_without_a_warning():
    number = torch.tensor(2.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        npu, cpu = (
            torch.mode(x, out=(torch.ones(3, device=x.device), torch.ones(3, dtype=torch.int64, device=x.device)))
            for x in (number.npu(), number)
        )
    assert_same(tuple(npu), tuple(cpu))


def test_signs_of_complex_numbers():
    for dtype in (torch.complex32, torch.complex64, torch.complex128):
        numbers = torch.tensor([3 + 4j, 0, -2j, 1, 60000 - 60000j], dtype=dtype)
        assert_same(torch.sgn(numbers.npu()), torch.sgn(numbers))


def test_index_put_writes_through_masks_and_lists():
    results = []
    for x in pair("transposed"):
        x = x.clone()
        x[x > 1] = 0
        x[0, :, torch.tensor([0, 2], device=x.device)] = 5
        x[[1, 2]] = x[[2, 1]]
        x.index_put_((torch.tensor([0, 0], device=x.device),), torch.ones((), device=x.device), accumulate=True)
        results.append(x)
    assert_same(results[1], results[0])


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced", "expanded", "permuted"])
def test_products_of_matrices(layout):
    cpu, npu = pair(layout)
    for product in (
        lambda x: x[0] @ x[1].T,
        lambda x: x @ x.mT,
        lambda x: x[0] @ x[0, 0],
        lambda x: x[0, 0].dot(x[1, 0]),
        lambda x: torch.addmm(x[0, :, :4], x[0], x[1].T, beta=0.5, alpha=2),
        lambda x: torch.baddbmm(x[:, :, :4], x, x.mT),
        lambda x: F.linear(x, x[0], x[0, :, 0]),
        lambda x: torch.einsum("abc,dbc->ad", x, x),
        lambda x: x[0, :0] @ x[1].T,
    ):
        assert_same(product(npu), product(cpu), strides=False)


IMAGES = {
    "conv": lambda x, w, groups: F.conv2d(x, w, stride=2, padding=1, groups=groups),
    "transposed": lambda x, w, groups: F.conv_transpose2d(x, w, stride=2, groups=groups),
    "max_pool": lambda x, w, groups: F.max_pool2d(x, 2, return_indices=True),
    "avg_pool": lambda x, w, groups: F.avg_pool2d(x, 3, 2, 1),
    "adaptive": lambda x, w, groups: F.adaptive_avg_pool2d(x, (2, 3)),
    "batch_norm": lambda x, w, groups: F.batch_norm(x, None, None, training=True),
    "group_norm": lambda x, w, groups: F.group_norm(x, groups),
    "nearest": lambda x, w, groups: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x, w, groups: F.interpolate(x, size=(5, 9), mode="bilinear"),
}


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", IMAGES)
def test_images(name, groups, memory_format):
    image = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0)).contiguous(memory_format=memory_format)
    weight = torch.randn(4, 4 // groups, 3, 3, generator=torch.Generator().manual_seed(1))
    assert_same(IMAGES[name](image.npu(), weight.npu(), groups), IMAGES[name](image, weight, groups), strides=False)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("options", [{}, {"ignore_index": 1, "reduction": "none"}, {"label_smoothing": 0.1}], ids=str)
def test_cross_entropy_takes_both_integer_types(options, dtype):
    logits = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    classes = torch.tensor([0, 1, 2, 3, 4, 0])
    expected = F.cross_entropy(logits, classes, **options)
    assert_same(F.cross_entropy(logits.npu(), classes.to(dtype).npu(), **options), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.l1_loss, F.binary_cross_entropy_with_logits])
def test_losses(loss, layout):
    check(lambda x, y: loss(x, y.sigmoid()), pair(layout), pair(layout, seed=1))


def test_embedding():
    table = torch.randn(7, 3)
    index = torch.tensor([[0, 6], [3, 3]])
    for dtype in (torch.int64, torch.int32):
        assert_same(F.embedding(index.to(dtype).npu(), table.npu()), F.embedding(index, table))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(masked, causal):
    if masked and causal:
        pytest.skip("PyTorch takes one of the two")
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 2, 5, 4, generator=generator) for _ in range(3))
    mask = (torch.rand(5, 5, generator=generator) > 0.3) | torch.eye(5).bool() if masked else None
    expected = F.scaled_dot_product_attention(query, key, value, mask, is_causal=causal)
    npu = F.scaled_dot_product_attention(
        query.npu(), key.npu(), value.npu(), None if mask is None else mask.npu(), is_causal=causal
    )
    assert_same(npu, expected, strides=False)


@pytest.mark.parametrize("on_cpu", itertools.product([False, True], repeat=3))
def test_where_takes_numbers_of_the_cpu_in_any_place(on_cpu):
    numbers = torch.tensor(True), torch.tensor(2), torch.tensor(0.5)
    tensors = torch.tensor([True, False]), torch.tensor([2, 3]), torch.tensor([0.5, 4.5])
    arguments = [number if cpu else tensor for cpu, number, tensor in zip(on_cpu, numbers, tensors, strict=True)]
    given = [argument if cpu else argument.npu() for cpu, argument in zip(on_cpu, arguments, strict=True)]
    result = torch.where(*given)
    assert result.device.type == ("cpu" if all(on_cpu) else "npu")
    torch.testing.assert_close(result.cpu(), torch.where(*arguments))
