"""Every stage of examples/shufflenet computes what the plain network computes, with less data movement."""

import itertools

import pytest
import torch
from torch import nn

from examples.shufflenet import joins
from examples.shufflenet.network import InvertedResidual, ShuffleNetV2, shufflenet_v2_x0_5, shufflenet_v2_x1_0
from examples.shufflenet.stages import FIRST, LAST_FLOAT32, STAGES, Stage, Workload
from examples.shufflenet.traffic import Traffic
from tests.models.training import assert_equal, assert_gradients, needs

IMAGES = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(1))
TARGETS = torch.tensor([1, 7, 3, 0])
JOINS = [
    joins.PlainShuffle, joins.IndexSelectShuffle, joins.BufferShuffle, joins.SplitShuffle, joins.FusedShuffle,
    joins.FormatShuffle, joins.InterleaveShuffle,
]  # fmt: skip
FLOAT32 = [name for name, stage in STAGES.items() if stage.level is None]
LAYOUTS = {
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "strided": lambda x: torch.stack((x, -x), -1)[..., 0],
}


def workload(name, **options):
    return Workload(STAGES[name], IMAGES, TARGETS, num_classes=10, **options)


@pytest.fixture(scope="module")
def plain_on_cpu():
    """Output, loss and gradients of the plain network on the CPU."""
    work = workload(FIRST, device="cpu")
    return *work.backward(), work.gradients()


@pytest.fixture(scope="module")
def trained_on_cpu():
    """Losses of three steps of the plain network on the CPU, and its state after them, by layout. Rounding differs between the
    layouts, and normalisation of small batches multiplies it from step to step."""

    def train(layout):
        stage = Stage("plain", joins.PlainShuffle, layout=layout)
        work = Workload(stage, IMAGES, TARGETS, device="cpu", num_classes=10)
        return [work.step() for _ in range(3)], work.net.state_dict()

    return {layout: train(layout) for layout in ("NCHW", "channels_last")}


@pytest.mark.parametrize("groups", [2, 4, 8])
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_the_gather_is_the_shuffle(groups, device):
    x = torch.randn(2, 232, 14, 14)
    got = joins.channel_shuffle_index_select(x.to(device), groups)
    assert torch.equal(got.cpu(), joins.channel_shuffle(x, groups))


def whole(result):
    return torch.cat(result, 1) if isinstance(result, tuple) else result


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("join", JOINS)
def test_joins_have_the_values_and_gradients_of_the_plain_formula(join, split, layout):
    first, second = torch.randn(2, 6, 5, 3), torch.randn(2, 6, 5, 3)
    weight = torch.randn(2, 12, 5, 3)
    wanted = [x.clone().requires_grad_() for x in (first, second)]
    expected = joins.channel_shuffle(torch.cat(wanted, 1), 2)
    (expected * weight).sum().backward()
    inputs = [LAYOUTS[layout](x.npu()).requires_grad_() for x in (first, second)]
    got = whole(join(12, split).npu()(*inputs))
    (got * weight.npu()).sum().backward()
    assert torch.equal(got.cpu(), expected)
    for mine, theirs in zip(inputs, wanted, strict=True):
        assert torch.equal(mine.grad.cpu(), theirs.grad)


@pytest.mark.parametrize("join", [joins.SplitShuffle, joins.FusedShuffle, joins.FormatShuffle, joins.InterleaveShuffle])
@pytest.mark.parametrize("used", [0, 1])
def test_a_half_that_is_not_used_has_no_share_in_the_gradients(join, used):
    wanted = [torch.randn(1, 4, 3, 2, requires_grad=True) for _ in range(2)]
    joins.channel_shuffle(torch.cat(wanted, 1), 2).chunk(2, 1)[used].square().sum().backward()
    inputs = [x.detach().npu().requires_grad_() for x in wanted]
    join(8, True).npu()(*inputs)[used].square().sum().backward()
    for mine, theirs in zip(inputs, wanted, strict=True):
        assert torch.equal(mine.grad.cpu(), theirs.grad)


@pytest.mark.parametrize("join", [joins.BufferShuffle, joins.SplitShuffle, joins.FusedShuffle, joins.FormatShuffle])
def test_index_buffers_are_int32_and_move_with_the_module_but_are_not_saved(join):
    module = join(8, True).npu()
    buffers = dict(module.named_buffers())
    assert {(buffer.dtype, buffer.device.type) for buffer in buffers.values()} == {(torch.int32, "npu")}
    assert buffers["forward_index"].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert module.state_dict() == {}


@pytest.mark.parametrize("name", FLOAT32)
def test_float32_stages_equal_the_plain_network(name, plain_on_cpu):
    output, loss, gradients = plain_on_cpu
    work = workload(name)
    assert_equal((output, loss), work.backward(), f"{name}: output and loss ")
    assert_gradients(gradients, work.gradients())


@pytest.mark.parametrize("name", FLOAT32)
def test_float32_stages_train_as_the_plain_network(name, trained_on_cpu):
    losses, state = trained_on_cpu["channels_last" if STAGES[name].layout == "channels_last" else "NCHW"]
    work = workload(name)
    assert [work.step() for _ in range(3)] == pytest.approx(losses, rel=1e-4)
    assert_equal(state, work.net.state_dict(), f"{name}: state ")


def test_stages_in_one_layout_equal_the_plain_network_bit_by_bit():
    names = [name for name in FLOAT32 if STAGES[name].layout == "NCHW"]
    assert len(names) == 5
    results = []
    for name in names:
        work = workload(name)
        output, _ = work.backward()
        results.append([output.detach(), *work.gradients().values()])
    for name, result in zip(names, results, strict=True):
        assert all(map(torch.equal, result, results[0])), name


def traffic(name):
    work = workload(name)
    work.step()
    with Traffic() as counted:
        work.backward()
    return counted


def test_data_movement_falls_in_the_order_of_the_documents():
    counted = {name: traffic(name) for name in FLOAT32}
    blocks = 16
    # An index that is made on the host is copied in each block; one in a buffer never is.
    assert (counted["index_select"].uploads, counted["index buffers"].uploads) == (blocks, 0)
    # Chunks are not dense: two gathers spare those of the forward pass, gathers in the backward pass the others.
    assert counted["index buffers"].strided > counted["tuples"].strided > counted["fused functions"].strided == 0
    # Gradients in another layout than the outputs of ReLU must be converted.
    assert counted["channels last"].mixed > 20 > 1 >= counted["interleave"].mixed
    assert counted["fused functions"].copies > counted["interleave"].copies
    last = counted[LAST_FLOAT32]
    assert (last.uploads, last.strided) == (0, 0)
    assert last.copies <= counted[FIRST].copies


def test_the_last_block_of_a_stage_returns_the_whole_tensor():
    net = shufflenet_v2_x1_0(join=joins.FusedShuffle)
    for name, count in zip(("stage2", "stage3", "stage4"), (4, 8, 4), strict=True):
        blocks = list(getattr(net, name))
        assert [block.channel_shuffle.split for block in blocks] == [True] * (count - 1) + [False]


def test_variants_exchange_checkpoints():
    plain = shufflenet_v2_x1_0(num_classes=5)
    assert sum(parameter.numel() for parameter in shufflenet_v2_x1_0().parameters()) == 2_278_604
    for join in JOINS:
        net = shufflenet_v2_x1_0(num_classes=5, join=join)
        net.load_state_dict(plain.state_dict())
        assert list(net.state_dict()) == list(plain.state_dict())


@pytest.mark.parametrize("make", [shufflenet_v2_x0_5, shufflenet_v2_x1_0])
def test_the_network_is_torchvisions(make):
    theirs = getattr(needs("torchvision").models, make.__name__)(weights=None)
    mine = make()
    mine.load_state_dict(theirs.state_dict())
    results = []
    for net in (mine, theirs):
        net(IMAGES).square().mean().backward()
        results.append([net.state_dict(), [parameter.grad for parameter in net.parameters()], net.eval()(IMAGES)])
    assert torch.equal(results[0][2], results[1][2])
    assert all(map(torch.equal, results[0][1], results[1][1]))
    assert all(torch.equal(results[0][0][name], value) for name, value in results[1][0].items())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InvertedResidual(8, 8, 0, joins.PlainShuffle, False), "stride is 0, but it must be 1, 2 or 3"),
        (lambda: InvertedResidual(8, 12, 1, joins.PlainShuffle, False), "8 to 12 channels with stride 1"),
        (lambda: InvertedResidual(8, 10, 2, joins.PlainShuffle, False), "must be a multiple of 4"),
        (lambda: joins.InterleaveShuffle(6, True), "channels is 6, but it must be a multiple of 4"),
        (lambda: ShuffleNetV2(repeats=(1, 1), channels=(8, 16, 32)), "2 stages need 4 widths"),
    ],
)
def test_wrong_sizes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_network_of_other_sizes_trains_in_all_variants():
    images = torch.randn(3, 3, 33, 47)
    results = []
    for join, layout in itertools.product((joins.PlainShuffle, joins.FusedShuffle, joins.InterleaveShuffle), LAYOUTS.values()):
        torch.manual_seed(0)
        net = ShuffleNetV2(repeats=(1, 2), channels=(8, 16, 32, 24), num_classes=5, join=join).npu()
        loss = nn.functional.cross_entropy(net(layout(images.npu())), torch.tensor([0, 4, 2]).npu())
        loss.backward()
        results.append(loss.item())
    assert results == pytest.approx([results[0]] * len(results), rel=1e-5)
