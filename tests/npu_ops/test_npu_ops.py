"""Operators of the namespace npu, one by one, against plain PyTorch on the CPU."""

import pytest
import torch
import torch.nn.functional as F
import torch_npu

from tests.compare import assert_close
from tests.support import rand


def test_results_are_written_to_out():
    x = rand(3, 4).float().npu()
    for call, arguments in (
        (torch_npu.npu_reshape, ([4, 3],)),
        (torch_npu.npu_sort_v2, (1,)),
        (torch_npu.npu_indexing, ([0, 1], [3, 3], [1, 1])),
        (torch_npu.npu_slice, ([1, 0], [2, 4])),
        (torch_npu.npu_transpose, ((1, 0),)),
    ):
        expected = call(x, *arguments)
        out, empty = torch.zeros_like(expected), expected.new_empty(0)
        assert call(x, *arguments, out=out) is out and torch.equal(out, expected)
        assert torch.equal(call(x, *arguments, out=empty), expected)
    row = rand(1, 4).float().npu()
    out = torch.zeros(3, 4, device="npu")
    assert torch.equal(torch_npu.npu_broadcast(row, [3, 4], out=out), row.expand(3, 4))
    with pytest.raises(ValueError, match=r"npu_broadcast: out must have the shape \[3, 4\], not \[2, 2\]"):
        torch_npu.npu_broadcast(row, [3, 4], out=out[:2, :2])
    image, weight = rand(1, 2, 5, 5).float().npu(), rand(3, 2, 3, 3).float().npu()
    out = torch.zeros(1, 3, 5, 5, device="npu")
    torch_npu.npu_conv2d(image, weight, None, [1, 1], [1, 1], [1, 1], 1, out=out)
    assert_close(out.cpu(), F.conv2d(image.cpu(), weight.cpu(), padding=1))


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_recurrent_layers(device):
    x, h, c = rand(4, 3, 5).float(), rand(1, 3, 6).float(), rand(1, 3, 6, seed=1).float()
    w_ih, w_hh, bias = rand(24, 5).float(), rand(24, 6).float(), rand(24).float()
    expected = torch._VF.lstm(x, (h, c), (w_ih, w_hh, bias, torch.zeros(24)), True, 1, 0.0, True, False, False)[0]
    weight = torch.cat((w_ih.t(), w_hh.t()))
    given = [t.to(device) for t in (x, weight, bias, torch.empty(0), h, c)]
    results = torch_npu.npu_lstm(*given, True, 1, 0.0, True, False, False, False, False)
    assert_close(results[0], expected)
    assert len(results) == 8 and all(r.shape == (4, 3, 6) for r in results)
    back = torch_npu.npu_lstm(given[0].flip(0), *given[1:], True, 1, 0.0, True, False, False, False, True)
    assert_close(back[0].flip(0), expected)
    cell = torch_npu.npu_lstm_cell(given[0][0], w_ih.t().to(device), w_hh.t().to(device), given[4][0], given[5][0], given[2])
    assert_close(cell[1], expected[0])
    g_ih, g_hh, b_ih, b_hh = rand(18, 5).float(), rand(18, 6).float(), rand(18).float(), rand(18, seed=1).float()
    expected = torch._VF.gru(x, h, (g_ih, g_hh, b_ih, b_hh), True, 1, 0.0, True, False, False)[0]
    given = [t.to(device) for t in (x, h, g_ih.t(), g_hh.t(), b_ih, b_hh, torch.empty(0))]
    assert_close(torch_npu.npu_gru(*given, True, 1, 0.0, True, False, False)[0], expected)


def test_losses():
    x, target, weight = rand(6, 5).requires_grad_(), torch.tensor([0, 1, 4, -100, 2, 2]), rand(5).abs()
    for reduction in ("mean", "sum", "none"):
        options = {"reduction": reduction, "label_smoothing": 0.1}
        loss, log, _, _ = torch_npu.npu_cross_entropy_loss(x, target, weight, **options)
        expected = F.cross_entropy(x, target, weight, **options)
        torch.testing.assert_close(loss, expected if reduction == "none" else expected.view(1))
        torch.testing.assert_close(log, x.log_softmax(-1))
    hot = torch_npu.npu_one_hot(torch.tensor([5, 3, 1], dtype=torch.int32, device="npu"), -1, 5, 0.9, 0.1)
    assert_close(hot.cpu(), torch.tensor([[0.1] * 5, [0.1, 0.1, 0.1, 0.9, 0.1], [0.1, 0.9, 0.1, 0.1, 0.1]]))


def test_signs_are_packed_as_bits():
    x = torch.tensor([1.0, -2, 0, 3, -1, -1, 5, -0.5, 2], device="npu")
    packed = torch_npu.npu_sign_bits_pack(x, 1)
    assert packed.tolist() == [[0b01001101, 0b1]] and packed.dtype == torch.uint8
    signs = torch_npu.npu_sign_bits_unpack(packed[0], 2, torch.float16)
    assert signs.shape == (2, 8) and signs.dtype == torch.float16
    assert signs.flatten()[:9].tolist() == [1, -1, 1, 1, -1, -1, 1, -1, 1]


def test_writing_in_place():
    x = torch.zeros(2, 4, 3, device="npu")
    updates = rand(2, 2, 3).float().npu()
    torch_npu.scatter_update_(x, torch.tensor([1, 2], device="npu"), updates, 1)
    expected = torch.zeros(2, 4, 3)
    expected[0, 1:3], expected[1, 2:4] = updates[0].cpu(), updates[1].cpu()
    assert_close(x, expected)
    torch_npu.npu_scatter_nd_update_(x, torch.tensor([[0, 0]], device="npu"), torch.ones(1, 3, device="npu"))
    assert x[0, 0].tolist() == [1, 1, 1]
    out = torch.empty(0, device="npu")
    assert torch_npu.npu_transpose(x, (2, 0, 1), out=out) is out and out.shape == (3, 2, 4)


def test_top_k_top_p_and_random_choice():
    logits = torch.tensor([[1.0, 4, 2, 3], [0, 0, 5, 0]], device="npu")
    out = torch_npu.npu_top_k_top_p(logits, torch.tensor([1.0, 0.5], device="npu"), torch.tensor([2, 4], device="npu"))
    inf = float("-inf")
    assert out.tolist() == [[inf, 4, inf, 3], [inf, inf, 5, inf]]
    places, found = torch_npu.npu_random_choice_with_mask(torch.tensor([[True, False], [True, True]], device="npu"), 4)
    assert sorted(map(tuple, places[found].tolist())) == [(0, 0), (1, 0), (1, 1)] and found.tolist() == [True] * 3 + [False]


def test_a_checksum_finds_a_wrong_product():
    a, b = rand(20, 30).float().npu(), rand(30, 40).float().npu()
    c = a @ b
    assert not torch_npu.matmul_checksum(a, b, c).item()
    c[3, 4] += 0.5
    assert torch_npu.matmul_checksum(a, b, c).item()
    c[3, 4] = float("nan")
    assert torch_npu.matmul_checksum(a, b, c).item()


QKV = [rand(2, 4, 6, 8), rand(2, 4, 6, 8, seed=1), rand(2, 4, 6, 8, seed=2)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_dtype_and_float32_accuracy(dtype):
    x, gamma = rand(4, 64).to(dtype), rand(64).to(dtype)
    y, rstd = torch_npu.npu_rms_norm(x.npu(), gamma.npu())
    assert y.dtype == dtype and rstd.dtype == torch.float32
    assert_close(y.cpu(), F.rms_norm(x.float(), (64,), gamma.float(), 1e-6).to(dtype), rtol=1e-2, atol=1e-3)
    half = [t.to(dtype).npu() for t in QKV]
    out = torch_npu.npu_fusion_attention(*half, 4, "BNSD", scale=0.3)[0]
    assert out.dtype == dtype
    assert_close(
        out.cpu().float(), F.scaled_dot_product_attention(*(t.cpu().float() for t in half), scale=0.3), rtol=2e-2, atol=1e-2
    )
