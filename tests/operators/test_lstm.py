"""torch.lstm: one device call per layer if the device has the function, else PyTorch's cells; both give the same values."""

import copy

import pytest
import torch
from torch import nn
from torch_npu import softnpu

from tests.compare import assert_same

OPTIONS = {
    "plain": {},
    "layers": {"num_layers": 3},
    "both directions": {"num_layers": 2, "bidirectional": True},
    "no bias": {"bias": False},
    "batch first": {"batch_first": True, "num_layers": 2},
    "projection": {"proj_size": 3},
}


def run(layer, inputs, hidden):
    output, (h, c) = layer(inputs, hidden)
    (output.sin().sum() + 2 * h.sum() + (c * c).sum()).backward()
    leaves = [inputs, *hidden, *layer.parameters()]
    return [output, h, c, *(leaf.grad for leaf in leaves)]


def both(layer, inputs, hidden):
    """Results and gradients on the CPU and on npu, from the same values."""
    on_npu = [tensor.detach().npu().requires_grad_() for tensor in (inputs, *hidden)]
    return run(layer, inputs, hidden), run(copy.deepcopy(layer).npu(), on_npu[0], tuple(on_npu[1:]))


@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_values_and_gradients_are_those_of_the_cpu(options, steps):
    layer = nn.LSTM(5, 6, **options)
    states = layer.num_layers * (2 if layer.bidirectional else 1)
    shape = (4, steps, 5) if layer.batch_first else (steps, 4, 5)
    inputs = torch.randn(shape, requires_grad=True)
    hidden = tuple(torch.randn(states, 4, size, requires_grad=True) for size in (layer.proj_size or 6, 6))
    for expected, actual in zip(*both(layer, inputs, hidden), strict=True):
        assert_same(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes(dtype):
    layer = nn.LSTM(5, 6, 2).to(dtype)
    inputs = torch.randn(3, 4, 5, dtype=dtype, requires_grad=True)
    hidden = tuple(torch.randn(2, 4, 6, dtype=dtype, requires_grad=True) for _ in range(2))
    tolerance = 1e-10 if dtype == torch.float64 else 6e-2
    for expected, actual in zip(*both(layer, inputs, hidden), strict=True):
        assert_same(actual, expected, rtol=tolerance, atol=tolerance)


def test_the_number_of_launches_does_not_grow_with_the_steps():
    layer = nn.LSTM(5, 6, 2).npu()

    def launches(steps):
        inputs = torch.randn(steps, 4, 5, device="npu")
        with softnpu.faults("count"):
            layer(inputs)[0].sum().backward()
            return softnpu.fault_counts()["launch"]

    launches(3)  # later passes accumulate gradients
    assert launches(3) == launches(30)


def test_without_gradients_nothing_is_kept():
    layer, inputs = nn.LSTM(5, 6, 2), torch.randn(3, 4, 5)
    on_npu = copy.deepcopy(layer).npu()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert_same(on_npu(inputs.npu())[0], layer(inputs)[0], rtol=1e-4, atol=1e-5)


def test_gradients_have_gradients():
    layer, inputs = nn.LSTM(5, 6).double(), torch.randn(3, 4, 5, requires_grad=True, dtype=torch.float64)

    def second(layer, inputs):
        first = torch.autograd.grad(layer(inputs)[0].pow(2).sum(), inputs, create_graph=True)[0]
        return torch.autograd.grad(first.pow(2).sum(), [inputs, *layer.parameters()])

    on_npu = copy.deepcopy(layer).float().npu()
    results = second(on_npu, inputs.detach().float().npu().requires_grad_())
    for actual, expected in zip(results, second(layer, inputs), strict=True):
        assert_same(actual, expected.float(), rtol=1e-3, atol=1e-5)


def test_dropout_between_layers_follows_the_seed():
    layer, inputs = nn.LSTM(5, 6, 2, dropout=0.5).npu(), torch.randn(3, 4, 5, device="npu")

    def run_with(seed):
        torch.manual_seed(seed)
        return layer(inputs)[0]

    assert torch.equal(run_with(1), run_with(1))
    assert not torch.equal(run_with(1), run_with(2))


def test_packed_sequences_and_empty_ones():
    layer = nn.LSTM(5, 6)
    on_npu = copy.deepcopy(layer).npu()
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(5, 3, 5), [5, 3, 2])
    assert_same(on_npu(packed.to("npu"))[0].data, layer(packed)[0].data, rtol=1e-4, atol=1e-5)
    assert on_npu(torch.zeros(3, 0, 5, device="npu"))[0].shape == (3, 0, 6)


def test_wrong_shapes_are_refused_in_the_words_of_pytorch():
    layer, inputs = nn.LSTM(5, 6), torch.randn(3, 4, 5)
    hidden = torch.zeros(1, 9, 6), torch.zeros(1, 9, 6)
    with pytest.raises(RuntimeError) as expected:
        layer(inputs, hidden)
    with pytest.raises(RuntimeError) as actual:
        layer.npu()(inputs.npu(), tuple(state.npu() for state in hidden))
    assert str(actual.value) == str(expected.value)
