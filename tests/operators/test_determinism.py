"""torch.use_deterministic_algorithms on npu: no operator is refused, results repeat, and fresh memory is filled."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F


@pytest.fixture(autouse=True)
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def leaf(*shape):
    return torch.rand(*shape, device="npu", requires_grad=True)


def back(output, *inputs):
    return torch.autograd.grad(output.sum(), inputs)


INDEX = torch.tensor([0, 3, 3, 0, 1] * 200)
VALUES = torch.linspace(-1, 1, 1000)


def with_gradient(function, *shape):
    def run():
        x = leaf(*shape)
        return back(function(x), x)

    return run


# Operators that CUDA refuses in this mode, or has two kernels for.
OPS = {
    "index_add": lambda: torch.zeros(5, device="npu").index_add_(0, INDEX.npu(), VALUES.npu()),
    "scatter_add": lambda: torch.zeros(5, device="npu").scatter_add_(0, INDEX.npu(), VALUES.npu()),
    "scatter_reduce": lambda: torch.zeros(5, device="npu").scatter_reduce_(0, INDEX.npu(), VALUES.npu(), "mean"),
    "index_put": lambda: torch.zeros(5, device="npu").index_put_((INDEX.npu(),), VALUES.npu(), accumulate=True),
    "put": lambda: torch.zeros(5, device="npu").put_(INDEX.npu(), VALUES.npu(), accumulate=True),
    "bincount": lambda: torch.bincount(INDEX.npu(), weights=VALUES.npu()),
    "histc": lambda: torch.histc(VALUES.npu(), 10),
    "cumsum": lambda: VALUES.npu().cumsum(0),
    "median": lambda: VALUES.npu().view(10, 100).median(0),
    "kthvalue": lambda: VALUES.npu().view(10, 100).kthvalue(3),
    "embedding": with_gradient(lambda w: F.embedding(INDEX.npu(), w), 5, 3),
    "embedding_bag": with_gradient(lambda w: F.embedding_bag(INDEX.npu().view(-1, 5), w, mode="max"), 5, 3),
    "interpolate": with_gradient(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), 1, 1, 4, 4),
    "bicubic": with_gradient(lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), 1, 1, 4, 4),
    "adaptive_avg_pool": with_gradient(lambda x: F.adaptive_avg_pool2d(x, 3), 1, 1, 8, 8),
    "adaptive_max_pool": with_gradient(lambda x: F.adaptive_max_pool2d(x, 3), 1, 1, 8, 8),
    "max_pool3d": with_gradient(lambda x: F.max_pool3d(x, 2), 1, 1, 4, 4, 4),
    "fractional_max_pool": with_gradient(lambda x: F.fractional_max_pool2d(x, 2, output_size=3), 1, 1, 8, 8),
    "reflection_pad": with_gradient(lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), 1, 1, 4, 4),
    "replication_pad": with_gradient(lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"), 1, 1, 4, 4),
    "grid_sample": with_gradient(
        lambda x: F.grid_sample(x, torch.zeros(1, 2, 2, 2, device="npu"), align_corners=False), 1, 1, 4, 4
    ),
    "conv_transpose": with_gradient(lambda x: F.conv_transpose2d(x, torch.ones(2, 3, 3, 3, device="npu")), 1, 2, 4, 4),
    "nll_loss": with_gradient(lambda x: F.nll_loss(x, torch.zeros(1, 2, 2, dtype=torch.long, device="npu")), 1, 3, 2, 2),
    "ctc_loss": with_gradient(
        lambda x: F.ctc_loss(x.log_softmax(2), torch.tensor([[1, 2]], device="npu"), torch.tensor([5]), torch.tensor([2])),
        5,
        1,
        3,
    ),
    "attention": with_gradient(lambda x: F.scaled_dot_product_attention(x, x, x), 1, 2, 5, 8),
    "lstm": lambda: nn.LSTM(3, 4, device="npu")(torch.ones(5, 2, 3, device="npu"))[0],
}


@pytest.mark.parametrize("name", OPS)
def test_an_operator_runs_and_repeats_its_bits(name):
    results = []
    for _ in range(2):
        torch.manual_seed(0)
        results.append(torch.utils._pytree.tree_leaves(OPS[name]()))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["index_add", "scatter_add", "index_put", "bincount", "cumsum"])
def test_the_mode_changes_no_result(name):
    expected = OPS[name]()
    torch.use_deterministic_algorithms(False)
    assert torch.equal(OPS[name](), expected)


FACTORIES = {
    "empty": lambda **options: torch.empty(3, **options),
    "empty_strided": lambda **options: torch.empty_strided((3, 2), (2, 1), **options),
    "empty_like": lambda **options: torch.empty_like(torch.ones(3, **options)),
    "new_empty": lambda **options: torch.ones(3, **options).new_empty(4),
    "resize": lambda **options: torch.ones(2, **options).resize_(8),
}


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8, torch.bool], ids=str)
def test_fresh_memory_is_filled_as_on_the_cpu(name, dtype):
    npu, cpu = FACTORIES[name](device="npu", dtype=dtype), FACTORIES[name](dtype=dtype)
    torch.testing.assert_close(npu.cpu(), cpu, equal_nan=True)


def test_filling_can_be_turned_off():
    torch.full((100,), 7.0, device="npu")
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        assert not torch.empty(100, device="npu").isnan().all().item()
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_calls_that_torch_refuses_are_refused(device):
    output, indices = F.max_pool2d(torch.rand(1, 1, 4, 4, device=device), 2, return_indices=True)
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        F.max_unpool2d(output, indices, 2)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="does not have a deterministic implementation"):
        F.max_unpool2d(output, indices, 2)


def test_training_repeats_its_bits():
    def run():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Embedding(9, 8), nn.Flatten(), nn.Linear(32, 8), nn.Dropout(), nn.Linear(8, 2)).npu()
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(net(torch.randint(9, (5, 4), device="npu")), torch.ones(5, dtype=torch.long, device="npu")).backward()
            optimizer.step()
        return [parameter.detach() for parameter in net.parameters()]

    assert all(torch.equal(one, other) for one, other in zip(run(), run(), strict=True))
