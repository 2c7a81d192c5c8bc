"""Nested tensors of the strided layout: operators give what the CPU gives, in device memory."""

import pytest
import torch
from torch import nn

from tests.compare import assert_same

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def parts(device, *lengths, width=4):
    numbers = torch.Generator().manual_seed(len(lengths))
    return [torch.randn(length, width, generator=numbers).to(device) for length in lengths]


def assert_same_of_nested(compute, *lengths):
    npu, cpu = (compute(torch.nested.nested_tensor(parts(device, *lengths))) for device in ("npu", "cpu"))
    assert_same(npu, cpu, rtol=None, atol=None, equal_nan=False)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x,
        lambda x: x + x,
        lambda x: x.relu() * 2,
        lambda x: x.transpose(1, 2),
        lambda x: x.softmax(-1),
        lambda x: x.clone().double(),
        lambda x: x.to_padded_tensor(-1),
        lambda x: torch.bmm(x, x.transpose(1, 2)),
        lambda x: nn.functional.layer_norm(x, (4,), *torch.ones(2, 4, device=x.device)),
        lambda x: nn.functional.linear(x, torch.eye(4, device=x.device)),
    ],
)
def test_operators(compute):
    assert_same_of_nested(compute, 2, 3, 1)


@pytest.mark.fallback
@pytest.mark.filterwarnings("ignore:.*runs on CPU")
def test_a_sum_runs_on_the_cpu():
    assert_same_of_nested(lambda x: x.sum(-1, keepdim=True), 2, 3, 1)


def test_parts_share_the_memory_and_devices_change():
    x = torch.nested.nested_tensor(parts("cpu", 2, 3)).npu()
    x.unbind()[0].zero_()
    assert x.cpu().unbind()[0].count_nonzero() == 0
    assert x.cpu().unbind()[1].count_nonzero() == 12


def test_gradients():
    gradients = []
    for device in ("npu", "cpu"):
        leaves = [part.requires_grad_() for part in parts(device, 2, 3)]
        x = torch.nested.as_nested_tensor(leaves)
        (x * x).to_padded_tensor(0).sum().backward()
        gradients.append([leaf.grad.cpu() for leaf in leaves])
    torch.testing.assert_close(*gradients)


def test_an_operator_that_no_device_has_is_refused():
    with pytest.raises(NotImplementedError):
        torch.nested.nested_tensor(parts("npu", 2, 3)).cumsum(1)


@pytest.mark.parametrize("first", [False, True])
def test_an_encoder_skips_padding(first):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=first)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not first).eval()
    x, padding = torch.randn(2, 3, 8), torch.tensor([[False, False, False], [False, True, True]])
    with torch.no_grad():
        expected = encoder(x, src_key_padding_mask=padding)
        result = encoder.npu()(x.npu(), src_key_padding_mask=padding.npu())
    torch.testing.assert_close(result.cpu()[~padding], expected[~padding], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)


def heads(device, *lengths, dtype=torch.float32, first=True):
    """Parts with two heads; `first`: the dimension of heads comes before that of positions."""
    numbers = torch.Generator().manual_seed(7)
    made = [torch.randn(2, length, 4, generator=numbers) for length in lengths]
    return [(part if first else part.transpose(0, 1).contiguous()).to(device, dtype) for part in made]


PRODUCTS = {
    "matmul": lambda x: x @ x.transpose(-1, -2),
    "matmul of three": lambda x: (x @ x.transpose(-1, -2)) @ x,
    "matmul with a matrix": lambda x: torch.matmul(x.transpose(1, 2).contiguous(), torch.eye(4, device=x.device, dtype=x.dtype)),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x, x, x),
    "attention with a scale": lambda x: nn.functional.scaled_dot_product_attention(x, x, x, scale=0.3),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_heads_and_their_gradients(name, dtype):
    seen = []
    for device in ("npu", "cpu"):
        leaves = [part.requires_grad_() for part in heads(device, 2, 5, 3, dtype=dtype)]
        result = PRODUCTS[name](torch.nested.as_nested_tensor(leaves))
        sum(part.pow(2).sum() for part in result.unbind()).backward()
        seen.append([x.detach().cpu() for x in [*result.unbind(), *(leaf.grad for leaf in leaves)]])
        padded = torch.nested.to_padded_tensor(result.detach(), 0.0)
        assert torch.equal(torch.nested.to_padded_tensor(result.detach().cpu(), 0.0), padded.cpu())
        seen[-1].append(padded.cpu())
    torch.testing.assert_close(*seen)


def test_products_are_refused_as_on_the_cpu():
    seen = []
    for device in ("npu", "cpu"):
        x = torch.nested.nested_tensor(heads(device, 2, 5))
        with pytest.raises(RuntimeError) as refusal:
            x @ x
        seen.append(str(refusal.value).split("sizes")[0])
        with pytest.raises(RuntimeError) as refusal:
            nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        seen.append(str(refusal.value))
    assert seen[:2] == seen[2:]


def test_attention_over_jagged_sequences():
    seen = []
    for device in ("npu", "cpu"):
        leaves = [part.requires_grad_() for part in heads(device, 2, 5, 3, first=False)]
        x = torch.nested.as_nested_tensor(leaves, layout=torch.jagged).transpose(1, 2)
        result = nn.functional.scaled_dot_product_attention(x, x, x).transpose(1, 2)
        result.values().pow(2).sum().backward()
        seen.append([x.detach().cpu() for x in [*result.unbind(), *(leaf.grad for leaf in leaves)]])
        with pytest.raises(RuntimeError, match="No viable backend for scaled_dot_product_attention"):
            nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    torch.testing.assert_close(*seen)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: torch.masked_select(x, x > 0),
        lambda x: x[x > 0],
        lambda x: torch.nonzero(x > 0),
        lambda x: torch.unique(x),
        lambda x: torch.unique_consecutive(x),
        lambda x: torch.unique(x.view(4, 15), dim=0),
        lambda x: torch.unique(x, return_counts=True)[1],
    ],
)
def test_a_result_has_a_storage_of_its_size(compute):
    """A nested tensor uses the whole storage of its buffer."""
    result = compute(torch.arange(60.0, device="npu").sub_(20).div_(4).floor_())
    assert result.untyped_storage().nbytes() == result.nbytes
