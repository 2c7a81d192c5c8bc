"""Quantisation and quantised products of the namespace npu equal their formulas."""

import pytest
import torch
import torch_npu

from tests.compare import assert_close
from tests.support import rand


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_quantisation(device):
    x = rand(4, 16).float()
    scale, zero = rand(16).abs().float() + 0.01, torch.arange(16) - 8
    expected = ((x / scale).round() + zero).clamp(-128, 127).to(torch.int8)
    out = torch_npu.npu_quantize(x.to(device), scale.to(device), zero.int().to(device), torch.qint8, 1)
    assert torch.equal(out.cpu(), expected)
    out = torch_npu.npu_quantize(x.to(device), scale.to(device) * 50, None, torch.qint8, -1, False)
    assert torch.equal(out.cpu(), (x * scale * 50).round().clamp(-128, 127).to(torch.int8))
    back = torch_npu.npu_anti_quant(out, scale.to(device), offset=scale.to(device), dst_dtype=torch.bfloat16)
    assert_close(back.cpu(), ((out.cpu().float() + scale) * scale).bfloat16())
    y, s = torch_npu.npu_dynamic_quant(x.to(device))
    assert_close(s.cpu(), x.abs().amax(-1) / 127)
    assert torch.equal(y.cpu(), (x / (x.abs().amax(-1, keepdim=True) / 127)).round().to(torch.int8))
    y, s, o = torch_npu.npu_dynamic_quant_asymmetric(x.to(device))
    back = (y.cpu().float() - o.cpu().unsqueeze(1)) * s.cpu().unsqueeze(1)
    assert (back - x).abs().max() <= s.cpu().max() and y.min() == -128 and y.max() == 127


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_quantisation_of_groups_of_rows(device):
    x, smooth, ends = rand(5, 8).float(), rand(3, 8).abs().float() + 0.1, torch.tensor([2, 2, 5])
    rows = torch.cat((x[:2] * smooth[0], x[2:] * smooth[2]))
    y, s = torch_npu.npu_dynamic_quant(
        x.to(device), smooth_scales=smooth.to(device), group_index=ends.int().to(device), dst_type=torch.int8
    )
    assert_close(s.cpu(), rows.abs().amax(-1) / 127)
    assert torch.equal(y.cpu(), (rows / s.cpu().unsqueeze(1)).round().to(torch.int8))
    one = torch.tensor([1.0], device=device)
    out = torch_npu.npu_group_quant(x.to(device), 50 * smooth.to(device), ends.to(device), offset=one, dst_dtype=torch.qint8)
    assert torch.equal(out.cpu(), (rows * 50 + 1).round().clamp(-128, 127).to(torch.int8))


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_four_bits_are_packed_by_eights(device):
    values = torch.randint(-8, 8, (4, 16), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    packed = torch_npu.npu_convert_weight_to_int4pack(values.to(device))
    expected = [[sum((v & 15) << (4 * i) for i, v in enumerate(row[j : j + 8])) for j in (0, 8)] for row in values.tolist()]
    assert [[n % 2**32 for n in row] for row in packed.tolist()] == expected and packed.dtype == torch.int32
    same = torch_npu.npu_quantize(values.float().to(device), torch.ones(1, device=device), None, torch.quint4x2, -1, False)
    assert torch.equal(same, packed)
    back = torch_npu.npu_anti_quant(packed, torch.ones(1, device=device), src_dtype=torch.quint4x2)
    assert torch.equal(back.cpu(), values.half())


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_products_of_quantised_matrices(device):
    generator = torch.Generator().manual_seed(0)
    a = torch.randint(-8, 8, (3, 16), generator=generator, dtype=torch.int8)
    b = torch.randint(-8, 8, (16, 8), generator=generator, dtype=torch.int8)
    scale, token, bias = rand(8).abs().float(), rand(3).abs().float(), torch.arange(8, dtype=torch.int32)
    exact = a.long() @ b.long()
    call = lambda *given, **options: torch_npu.npu_quant_matmul(  # noqa: E731
        *(t.to(device) for t in given), **{k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    ).cpu()
    assert torch.equal(call(a, b, scale, bias=bias, output_dtype=torch.int32).long(), exact + bias)
    assert_close(call(a, b, scale, bias=bias, output_dtype=torch.float16), ((exact + bias) * scale).half(), rtol=1e-3)
    expected = exact * scale * token.unsqueeze(1) + bias.bfloat16()
    assert_close(
        call(a, b, scale, pertoken_scale=token, bias=bias.bfloat16(), output_dtype=torch.bfloat16), expected.bfloat16(), rtol=1e-2
    )
    assert torch.equal(call(a, b, scale), (exact * scale).round().clamp(-128, 127).to(torch.int8))
    packed = torch_npu.npu_trans_quant_param(scale.to(device))
    assert packed.dtype == torch.int64 and (packed >> 46 == 1).all()
    assert_close(call(a, b, packed.cpu(), output_dtype=torch.float16), (exact * scale).half(), rtol=2e-3, atol=1e-2)
    pack = lambda x: torch_npu.npu_convert_weight_to_int4pack(x.int())  # noqa: E731
    assert torch.equal(call(pack(a), pack(b), scale, output_dtype=torch.int32).long(), exact)
    assert torch.equal(call(pack(a), pack(b.t().contiguous()).t(), scale, output_dtype=torch.int32).long(), exact)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_product_with_a_quantised_weight(device):
    x, weight = rand(3, 16).float(), torch.randint(-8, 8, (16, 8), generator=torch.Generator().manual_seed(0), dtype=torch.int8)
    scale, offset, bias = rand(1, 8).float(), rand(1, 8, seed=1).float(), rand(8).float()
    call = lambda w, *given, **options: torch_npu.npu_weight_quant_batchmatmul(  # noqa: E731
        x.to(device), w.to(device), *(None if t is None else t.to(device) for t in given), **options
    ).cpu()
    expected = x @ ((weight + offset) * scale) + bias
    assert_close(call(weight, scale, offset, None, None, bias), expected)
    assert_close(call(torch_npu.npu_convert_weight_to_int4pack(weight.int()), scale, offset, None, None, bias), expected)
    groups = rand(2, 8).float()
    expected = x @ (weight * groups.repeat_interleave(8, 0))
    assert_close(call(weight, groups, antiquant_group_size=8), expected)
    codes = torch_npu.npu_dtype_cast(weight.float(), torch_npu.hifloat8)
    assert_close(call(codes, scale, weight_dtype=torch_npu.hifloat8), x @ (weight * scale))


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("shape", [(3, 10), (2, 5, 10)])
def test_quantisation_of_blocks(device, shape):
    x = rand(*shape).half()
    x[..., :2, :4] = 0
    y, scale = torch_npu.npu_dynamic_block_quant(x.to(device), row_block_size=2, col_block_size=4, min_scale=0.002)
    assert scale.shape == (*shape[:-2], (shape[-2] + 1) // 2, 3) and scale.dtype == torch.float32 and y.dtype == torch.int8
    for row in range(scale.size(-2)):
        for column in range(3):
            block = x[..., 2 * row : 2 * row + 2, 4 * column : 4 * column + 4].float()
            own = (block.abs().amax((-1, -2)) / 127).clamp(min=0.002)
            assert_close(scale[..., row, column].cpu(), own)
            rounded = (block / own[..., None, None]).round().to(torch.int8)
            assert torch.equal(y[..., 2 * row : 2 * row + 2, 4 * column : 4 * column + 4].cpu(), rounded)
    y, scale = torch_npu.npu_dynamic_block_quant(x.to(device), dst_type=torch.float8_e4m3fn)
    assert y.dtype == torch.float8_e4m3fn and y.shape == x.shape
    assert_close(scale.cpu(), x.float().abs().amax(-1, keepdim=True) / 448)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_quantisation_of_rotated_rows(device):
    x, rotation = rand(3, 16).bfloat16(), rand(8, 8).bfloat16()
    turned = torch.cat([x[:, i : i + 8].float() @ rotation.float() for i in (0, 8)], 1).bfloat16()
    for dtype in (torch.int8, torch.quint4x2):
        y, scale = torch_npu.npu_rotate_quant(x.to(device), rotation.to(device), dst_dtype=dtype)
        expected = torch_npu.npu_dynamic_quant(turned, dst_type=dtype)
        assert torch.equal(y.cpu(), expected[0])
        assert_close(scale.cpu(), expected[1])


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_quantised_updates_are_scattered(device):
    var, updates = torch.zeros(3, 2, 6, 4, dtype=torch.int8), rand(2, 2, 2, 4).half() * 50
    scales, zeros = rand(4).abs().half() + 0.5, torch.arange(4) - 2
    quantised = ((updates.float() / scales.float()).round() + zeros).clamp(-128, 127).to(torch.int8)
    for indices in (torch.tensor([4, 1]), torch.tensor([[2, 3], [0, 0]])):
        expected = var.clone()
        for n in range(2):
            batch, place = (n, indices[n]) if indices.dim() == 1 else indices[n].tolist()
            expected[batch, :, place : place + 2] = quantised[n]
        own = var.to(device)
        given = (indices.int().to(device), updates.to(device), scales.to(device), zeros.int().to(device))
        assert torch.equal(torch_npu.npu_quant_scatter(own, *given, -2, -1, "update").cpu(), expected)
        assert (own == 0).all()
        own = var.clone().to(device)
        assert torch_npu.npu_quant_scatter_(own, *given) is own and torch.equal(own.cpu(), expected)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_quantised_products_with_fused_operations(device):
    generator = torch.Generator().manual_seed(0)
    integers = lambda *shape: torch.randint(-8, 8, shape, generator=generator, dtype=torch.int8)  # noqa: E731
    a, b, rows, columns = integers(3, 16), integers(16, 8), rand(3).abs().float() / 9, rand(8).abs().float()
    exact = (a.long() @ b.long()).float() * rows.unsqueeze(1) * columns
    put = lambda *tensors: [t.to(device) for t in tensors]  # noqa: E731
    for approximate in ("erf", "tanh"):
        expected = torch.nn.functional.gelu(exact, approximate="none" if approximate == "erf" else "tanh")
        y = torch_npu.npu_quant_matmul_gelu(*put(a, b, rows, columns), approximate=f"gelu_{approximate}")
        assert_close(y.cpu(), expected.half(), rtol=1e-3, atol=1e-3)
    bias = rand(8, seed=2).bfloat16()
    y = torch_npu.npu_quant_matmul_gelu(*put(a, b, rows, columns), bias=bias.to(device))
    assert_close(y.cpu(), torch.nn.functional.gelu(exact + bias.float()).bfloat16(), rtol=1e-2, atol=1e-2)
    a, b, rows, columns = integers(4, 3, 16), integers(4, 16, 8), rand(4, 3).abs().float(), rand(8).abs().bfloat16()
    y = torch_npu.npu_quant_matmul_reduce_sum(*put(a, b), x1_scale=rows.to(device), x2_scale=columns.to(device))
    expected = sum((a[i].long() @ b[i].long()).float() * rows[i].unsqueeze(1) * columns.float() for i in range(4))
    assert_close(y.cpu(), expected.bfloat16(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_products_of_eight_bit_floats(device):
    a, b = rand(3, 2, 64).to(torch.float8_e4m3fn), rand(2, 64, 5).to(torch.float8_e4m3fn)
    rows, columns = rand(3).abs().float(), rand(5).abs().float()
    product = torch.stack([a[:, i].float() @ b[i].float() for i in range(2)], 1)
    put = lambda *tensors: [t.to(device) for t in tensors]  # noqa: E731
    y = torch_npu.npu_transpose_quant_batchmatmul(
        *put(a, b), torch.float16, x1_scale=rows.to(device), x2_scale=columns.to(device), perm_x1=[1, 0, 2], perm_x2=[0, 1, 2],
        perm_y=[1, 0, 2],
    )  # fmt: skip
    assert_close(y.cpu(), (product * rows.view(-1, 1, 1) * columns).half(), rtol=1e-3, atol=1e-3)
    y = torch_npu.npu_transpose_quant_batchmatmul(*put(a, b.mT.contiguous()), torch.bfloat16, perm_x2=[0, 2, 1])
    assert_close(y.cpu(), product.bfloat16(), rtol=1e-2, atol=1e-2)
    codes = [torch_npu.npu_dtype_cast(x.float(), torch_npu.hifloat8) for x in (a, b)]
    values = [torch_npu.npu_dtype_cast(x, torch.float32, torch_npu.hifloat8) for x in codes]
    y = torch_npu.npu_transpose_quant_batchmatmul(
        *put(*codes), torch.float16, x2_scale=columns.to(device), x1_dtype=torch_npu.hifloat8, x2_dtype=torch_npu.hifloat8
    )
    assert_close(
        y.cpu(), (torch.stack([values[0][:, i] @ values[1][i] for i in range(2)], 1) * columns).half(), rtol=1e-3, atol=1e-3
    )
    powers = lambda *shape: (2.0 ** torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(0))).to(  # noqa: E731
        torch.float8_e8m0fnu
    )
    micro_a, micro_b = powers(3, 2, 1, 2), powers(2, 1, 5, 2)
    y = torch_npu.npu_transpose_quant_batchmatmul(
        *put(a, b), torch.bfloat16, x1_scale=micro_a.to(device), x2_scale=micro_b.to(device), group_sizes=[0, 0, 32]
    )
    expected = torch.zeros(3, 2, 5)
    for half in range(2):
        own = slice(32 * half, 32 * half + 32)
        for i in range(2):
            part = a[:, i, own].float() @ b[i, own].float()
            expected[:, i] += part * micro_a[:, i, 0, half].float().unsqueeze(1) * micro_b[i, 0, :, half].float()
    assert_close(y.cpu(), expected.bfloat16(), rtol=1e-2, atol=1e-2)


def test_unsupported_quantisation_is_refused():
    with pytest.raises(ValueError, match=r"npu_dynamic_block_quant: x has 2 or 3 dimensions, not 1"):
        torch_npu.npu_dynamic_block_quant(rand(4))
    with pytest.raises(ValueError, match=r"dst_dtype is int8 or quint4x2, not torch.float8_e5m2"):
        torch_npu.npu_rotate_quant(rand(2, 8), rand(8, 8), dst_dtype=torch.float8_e5m2)
    with pytest.raises(ValueError, match="n a multiple of 8"):
        torch_npu.npu_rotate_quant(rand(2, 9), rand(8, 8))
    with pytest.raises(ValueError, match=r"indices are \[2\] or \[2, 2\]"):
        torch_npu.npu_quant_scatter(rand(2, 3, 4).char(), torch.arange(3), rand(2, 1, 4), torch.ones(4))
    with pytest.raises(ValueError, match="approximate is gelu_erf or gelu_tanh, not none"):
        torch_npu.npu_quant_matmul_gelu(rand(2, 2).char(), rand(2, 2).char(), torch.ones(2), torch.ones(2), approximate="none")
    with pytest.raises(ValueError, match="x1_scale and x2_scale are needed"):
        torch_npu.npu_quant_matmul_reduce_sum(rand(1, 2, 2).char(), rand(1, 2, 2).char())
    with pytest.raises(ValueError, match=r"perm_x2 is \[0, 1, 2\] or \[0, 2, 1\]"):
        torch_npu.npu_transpose_quant_batchmatmul(rand(2, 2, 2), rand(2, 2, 2), torch.float16, perm_x2=[1, 0, 2])
