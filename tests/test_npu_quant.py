"""Quantised values, and products of them, by the operators of the namespace npu, are what their formulas say."""

import pytest
import torch
import torch_npu
from formulas import close, rand


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
    close(back.cpu(), ((out.cpu().float() + scale) * scale).bfloat16())
    y, s = torch_npu.npu_dynamic_quant(x.to(device))
    close(s.cpu(), x.abs().amax(-1) / 127)
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
    close(s.cpu(), rows.abs().amax(-1) / 127)
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
    close(call(a, b, scale, bias=bias, output_dtype=torch.float16), ((exact + bias) * scale).half(), rtol=1e-3)
    expected = exact * scale * token.unsqueeze(1) + bias.bfloat16()
    close(
        call(a, b, scale, pertoken_scale=token, bias=bias.bfloat16(), output_dtype=torch.bfloat16), expected.bfloat16(), rtol=1e-2
    )
    assert torch.equal(call(a, b, scale), (exact * scale).round().clamp(-128, 127).to(torch.int8))
    packed = torch_npu.npu_trans_quant_param(scale.to(device))
    assert packed.dtype == torch.int64 and (packed >> 46 == 1).all()
    close(call(a, b, packed.cpu(), output_dtype=torch.float16), (exact * scale).half(), rtol=2e-3, atol=1e-2)
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
    close(call(weight, scale, offset, None, None, bias), expected)
    close(call(torch_npu.npu_convert_weight_to_int4pack(weight.int()), scale, offset, None, None, bias), expected)
    groups = rand(2, 8).float()
    expected = x @ (weight * groups.repeat_interleave(8, 0))
    close(call(weight, groups, antiquant_group_size=8), expected)
    codes = torch_npu.npu_dtype_cast(weight.float(), torch_npu.hifloat8)
    close(call(codes, scale, weight_dtype=torch_npu.hifloat8), x @ (weight * scale))
