"""Quantised tensors are created, read, copied, viewed and printed as on the CPU; fake quantisation in training."""

import pytest
import torch

from tests.compare import assert_same

NUMBERS = torch.linspace(-4, 4, 24).view(4, 6)
SCALES, ZEROS = torch.tensor([0.1, 0.05, 0.2, 0.03]), torch.tensor([0, 3, -2, 5])
GRIDS = [torch.qint8, torch.quint8, torch.qint32]


def per_tensor(device, dtype=torch.qint8, numbers=NUMBERS):
    return torch.quantize_per_tensor(numbers.to(device), 0.1, 3, dtype)


def per_channel(device, dtype=torch.qint8):
    zeros = ZEROS.clamp_min(0) if dtype == torch.quint8 else ZEROS
    return torch.quantize_per_channel(NUMBERS.to(device), SCALES.to(device), zeros.to(device), 0, dtype)


def with_float_zeros(device, dtype=torch.quint8):
    return torch.quantize_per_channel(NUMBERS.to(device), SCALES.to(device), ZEROS.float().to(device), 0, torch.quint8)


@pytest.mark.parametrize("dtype", GRIDS)
@pytest.mark.parametrize("make", [per_tensor, per_channel, with_float_zeros])
def test_quantisation_and_dequantisation(make, dtype):
    assert_same(make("npu", dtype), make("cpu", dtype))


@pytest.mark.parametrize("make", [per_tensor, per_channel])
def test_a_quantised_tensor_is_moved_and_copied(make):
    npu, cpu = make("npu"), make("cpu")
    assert_same(cpu.npu(), cpu)
    assert_same(npu.clone(), cpu.clone())
    assert npu.cpu().device.type == "cpu" and torch.equal(npu.cpu().int_repr(), cpu.int_repr())
    assert torch.equal(npu.cpu().dequantize(), cpu.dequantize())
    assert_same(torch.empty_like(npu).copy_(npu), cpu)


def test_numbers_are_copied_into_a_quantised_tensor():
    npu, cpu = per_tensor("npu"), per_tensor("cpu")
    assert_same(npu.copy_(NUMBERS.flip(0).npu()), cpu.copy_(NUMBERS.flip(0)))
    assert_same(npu.fill_(0.7), cpu.fill_(0.7))
    with pytest.raises(RuntimeError, match="please use dequantize"):
        torch.empty(4, 6, device="npu").copy_(npu)


VIEWS = {
    "view": lambda q: q.view(6, 4),
    "transpose": lambda q: q.t(),
    "slice": lambda q: q[1:3, ::2],
    "select": lambda q: q[2],
    "unsqueeze": lambda q: q.unsqueeze(0),
    "squeeze": lambda q: q[:1].squeeze(),
    "reshape": lambda q: q.reshape(-1),
    "contiguous": lambda q: q.t().contiguous(),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    assert_same(VIEWS[name](per_tensor("npu")), VIEWS[name](per_tensor("cpu")))


def test_channels_last_stays():
    numbers = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert_same(per_tensor("npu", numbers=numbers), per_tensor("cpu", numbers=numbers))


def test_other_functions_that_quantise():
    assert_same(torch._empty_affine_quantized([4, 6], scale=0.1, zero_point=3, dtype=torch.qint8, device="npu").fill_(1.0),
                torch._empty_affine_quantized([4, 6], scale=0.1, zero_point=3, dtype=torch.qint8).fill_(1.0))  # fmt: skip
    integers = per_tensor("cpu").int_repr()
    assert_same(torch._make_per_tensor_quantized_tensor(integers.npu(), 0.1, 3),
                torch._make_per_tensor_quantized_tensor(integers, 0.1, 3))  # fmt: skip
    assert_same(torch._make_per_channel_quantized_tensor(integers.npu(), SCALES.npu(), ZEROS.npu(), 0),
                torch._make_per_channel_quantized_tensor(integers, SCALES, ZEROS, 0))  # fmt: skip
    scale, zero = torch.tensor(0.1), torch.tensor(3)
    assert_same(torch.quantize_per_tensor(NUMBERS.npu(), scale.npu(), zero.npu(), torch.qint8),
                torch.quantize_per_tensor(NUMBERS, scale, zero, torch.qint8))  # fmt: skip
    assert_same(torch.quantize_per_tensor_dynamic(NUMBERS.npu(), torch.quint8, False),
                torch.quantize_per_tensor_dynamic(NUMBERS, torch.quint8, False))  # fmt: skip


def test_a_quantised_tensor_is_compared_and_printed():
    npu, cpu = per_tensor("npu"), per_tensor("cpu")
    assert_same(npu == 0.3, cpu == 0.3)
    assert_same(npu < npu.t().contiguous().view(4, 6), cpu < cpu.t().contiguous().view(4, 6))
    text = str(npu)
    assert "quantization_scheme=torch.per_tensor_affine" in text and "scale=0.1" in text and "device='npu:0'" in text
    assert "torch.per_channel_affine" in str(per_channel("npu"))


def test_wrong_calls_are_refused():
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError):
            torch.quantize_per_tensor(NUMBERS.double().to(device), 0.1, 3, torch.qint8)
        with pytest.raises(RuntimeError):
            torch.quantize_per_tensor(NUMBERS.to(device), 0.1, 300, torch.qint8)
        with pytest.raises(RuntimeError):
            torch.quantize_per_channel(NUMBERS.to(device), SCALES[:3].to(device), ZEROS[:3].to(device), 0, torch.qint8)
        with pytest.raises(RuntimeError):
            per_tensor(device).q_per_channel_axis()


# ---- fake quantisation ----


def state(device, rows):
    infinity = torch.full((rows,), float("inf"), device=device)
    return [infinity, -infinity, torch.ones(rows, device=device), torch.zeros(rows, dtype=torch.int32, device=device)]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("per_row", "rows"), [(False, 1), (True, 4), (True, 0)])
def test_an_observer_follows_the_range(per_row, rows, symmetric):
    def run(device):
        kept = state(device, rows)
        on = torch.ones(1, dtype=torch.int64, device=device)
        results = []
        for factor in (1.0, 2.0):
            arguments = (0.01, 0, 255, 0, per_row, symmetric)
            results += torch.ops.aten._fused_moving_avg_obs_fq_helper(NUMBERS.to(device) * factor, on, on, *kept, *arguments)
        return [*results, *kept]

    assert_same(run("npu"), run("cpu"))


@pytest.mark.parametrize("channels", [False, True])
def test_scale_and_zero_point_are_learned(channels):
    def run(device):
        numbers = NUMBERS.to(device).clone().requires_grad_()
        scale = (SCALES if channels else SCALES[:1]).to(device).clone().requires_grad_()
        zero = (ZEROS if channels else ZEROS[1:2]).float().to(device).clone().requires_grad_()
        if channels:
            rounded = torch._fake_quantize_learnable_per_channel_affine(numbers, scale, zero, 0, -8, 20, 0.5)
        else:
            rounded = torch._fake_quantize_learnable_per_tensor_affine(numbers, scale, zero, -8, 20, 0.5)
        rounded.square().sum().backward()
        return [rounded, numbers.grad, scale.grad, zero.grad]

    assert_same(run("npu"), run("cpu"))
