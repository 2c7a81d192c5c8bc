"""Operators that the CPU lacks, compared with formulas."""

import pytest
import torch
from torch.testing import assert_close


@pytest.fixture(autouse=True)
def no_fallbacks():
    torch.npu.reset_fallback_stats()
    yield
    assert not torch.npu.fallback_stats()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_with_a_wider_result(dtype):
    a, b, c = (torch.randn(*size).to(dtype) for size in ((2, 3, 4), (2, 4, 5), (2, 3, 5)))
    x, y, z = a.npu(), b.npu(), c.npu()
    wide = torch.float32
    assert_close(torch.mm(x[0], y[0], out_dtype=wide).cpu(), a[0].float() @ b[0].float())
    assert_close(torch.bmm(x, y, out_dtype=wide).cpu(), a.float() @ b.float())
    expected = 0.5 * c.float() + 2 * (a.float() @ b.float())
    assert_close(torch.addmm(z[0], x[0], y[0], out_dtype=wide, beta=0.5, alpha=2).cpu(), expected[0])
    assert_close(torch.baddbmm(z, x, y, out_dtype=wide, beta=0.5, alpha=2).cpu(), expected)
    out = torch.empty(0, device="npu")
    assert torch.mm(x[0], y[0], out_dtype=wide, out=out) is out
    assert_close(out.cpu(), a[0].float() @ b[0].float())


def test_products_refuse_other_results():
    x = torch.ones(2, 2, device="npu")
    with pytest.raises(RuntimeError, match="out_dtype must be the same as input dtype or fp32"):
        torch.mm(x, x, out_dtype=torch.float16)
    half = x.half()
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        torch.mm(half, half, out_dtype=torch.float32, out=torch.empty(2, 2, device="npu", dtype=torch.float16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (4, 3, 5, 2)])
def test_a_batch_norm_in_parts_is_a_batch_norm(shape, dtype):
    """Two processes with half of the batch each, as torch.nn.SyncBatchNorm does it."""
    torch.manual_seed(0)
    whole = torch.randn(shape).to(dtype)
    norm = torch.nn.BatchNorm1d(3) if len(shape) < 4 else torch.nn.BatchNorm2d(3)
    torch.nn.init.uniform_(norm.weight), torch.nn.init.uniform_(norm.bias)
    reference = whole.float().requires_grad_()
    expected = norm(reference)
    grad = torch.randn_like(expected)
    expected.backward(grad)

    parts = [part.npu() for part in whole.split((1, shape[0] - 1))]
    grads = [part.to(dtype).npu() for part in grad.split((1, shape[0] - 1))]
    weight, bias = norm.weight.detach().npu(), norm.bias.detach().npu()
    running_mean, running_var = torch.zeros(3, device="npu"), torch.ones(3, device="npu")
    statistics = [torch.batch_norm_stats(part, norm.eps) for part in parts]
    counts = torch.tensor([part.numel() / 3 for part in parts], device="npu")
    means, invstds = (torch.stack(values) for values in zip(*statistics, strict=True))
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        parts[0], means, invstds, running_mean, running_var, norm.momentum, norm.eps, counts
    )
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 5e-3, "atol": 5e-3}
    assert_close(running_mean.cpu(), norm.running_mean, **tolerance)
    assert_close(running_var.cpu(), norm.running_var, **tolerance)
    results = [torch.batch_norm_elemt(part, weight, bias, mean, invstd, norm.eps) for part in parts]
    assert results[0].dtype == dtype
    assert_close(torch.cat(results).cpu().float(), expected.detach(), **tolerance)

    reduced = [
        torch.batch_norm_backward_reduce(dy, part, mean, invstd, weight, True, True, True)
        for dy, part in zip(grads, parts, strict=True)
    ]
    sum_dy, sum_dy_xmu, grad_weight, grad_bias = (sum(values) for values in zip(*reduced, strict=True))
    assert_close(grad_weight.cpu(), norm.weight.grad, **tolerance)
    assert_close(grad_bias.cpu(), norm.bias.grad, **tolerance)
    inputs = [
        torch.batch_norm_backward_elemt(dy, part, mean, invstd, weight, sum_dy, sum_dy_xmu, counts.int())
        for dy, part in zip(grads, parts, strict=True)
    ]
    assert_close(torch.cat(inputs).cpu().float(), reference.grad, **tolerance)


def test_masked_scale():
    x, mask = torch.randn(3, 4), torch.rand(3, 4) > 0.5
    assert_close(torch.ops.aten._masked_scale(x.npu(), mask.npu(), 2.0).cpu(), x * mask * 2)


def test_depthwise_convolution():
    x, weight, bias = torch.randn(2, 3, 6, 6), torch.randn(6, 1, 3, 3), torch.randn(6)
    arguments = ([3, 3], bias.npu(), [1, 1], [1, 1], [1, 1])
    out = torch.ops.aten._conv_depthwise2d(x.npu(), weight.npu(), *arguments)
    assert_close(out.cpu(), torch.nn.functional.conv2d(x, weight, bias, padding=1, groups=3))
    with pytest.raises(RuntimeError, match="is not that of the weight"):
        torch.ops.aten._conv_depthwise2d(x.npu(), weight.npu(), [5, 5], None, [1, 1], [1, 1], [1, 1])


@pytest.mark.parametrize(
    "left, right",
    [((4,), (4,)), ((4,), (4, 2)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)), ((4,), (2, 4, 3)), ((2, 1, 3, 4), (5, 4, 2))],
)
def test_gradients_of_matmul(left, right):
    a, b = torch.randn(left, requires_grad=True), torch.randn(right, requires_grad=True)
    product = a @ b
    grad = torch.randn_like(product)
    product.backward(grad)
    first, second = torch.ops.aten.matmul_backward(grad.npu(), a.detach().npu(), b.detach().npu(), [True, True])
    assert_close(first.cpu(), a.grad)
    assert_close(second.cpu(), b.grad)
