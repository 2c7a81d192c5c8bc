"""Random numbers in graphs: each replay draws the numbers that the next eager call would draw."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.graphs.capturing import assert_replayed, capture
from tests.support import cached

pytestmark = cached


def replays_give(graph, results, expected):
    for each in expected:
        graph.replay()
        for ours, theirs in zip(results, each, strict=True):
            assert torch.equal(ours.cpu(), theirs)


def test_each_replay_draws_the_random_numbers_of_the_next_eager_call():
    x = torch.ones(1000, device="npu")

    def work():
        dropped = nn.functional.dropout(x, 0.5)
        assert torch.rand(0, device="npu").numel() == torch.bernoulli(x[:0]).numel() == 0
        return dropped, torch.randn(50, device="npu"), torch.randint(100, (50,), device="npu")

    torch.npu.manual_seed(7)
    expected = [[value.cpu() for value in work()] for _ in range(3)]
    after = torch.npu.get_rng_state()
    torch.npu.manual_seed(7)
    graph, results = capture(work)
    replays_give(graph, results, expected)
    assert torch.equal(torch.npu.get_rng_state(), after)
    assert not torch.equal(expected[0][0], expected[1][0])


def test_captured_calls_do_not_overwrite_seed_and_offset_of_the_graph():
    x = torch.ones(50, device="npu")
    generator = torch.Generator("npu")

    def work():
        y = x
        for _ in range(3):
            y = (y + 1).sqrt()  # frees memory that later calls reuse
        return y * torch.rand(50, device="npu"), (y * 2).sqrt() * torch.rand(50, device="npu", generator=generator)

    def seed():
        torch.npu.manual_seed(7), generator.manual_seed(8)

    seed()
    expected = [[value.cpu() for value in work()] for _ in range(2)]
    graph, results = capture(work)
    seed()
    for each in expected:
        graph.replay()
        for ours, theirs in zip(results, each, strict=True):
            assert_replayed(ours, theirs)


def test_a_registered_generator_gives_the_numbers_of_a_replay():
    generator = torch.Generator("npu").manual_seed(3)
    graph = torch.npu.NPUGraph()
    graph.register_generator_state(generator)
    with torch.npu.graph(graph):
        values = torch.rand(20, device="npu", generator=generator)
    drawn = []
    for seed in (3, 3, 4):
        generator.manual_seed(seed)
        graph.replay()
        drawn.append(values.cpu())
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(drawn[2], torch.rand(20, device="npu", generator=generator.manual_seed(4)).cpu())


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointed_work_draws_the_same_numbers_when_it_runs_again(use_reentrant):
    x = torch.ones(1000, device="npu", requires_grad=True)

    def work():
        dropped = checkpoint(lambda value: nn.functional.dropout(value * 1, 0.5), x, use_reentrant=use_reentrant)
        dropped = nn.functional.dropout(dropped, 0.3)
        (gradient,) = torch.autograd.grad(dropped.sum(), x) if not use_reentrant else (backward(dropped),)
        return dropped.detach(), gradient

    def backward(dropped):
        x.grad = None
        dropped.sum().backward()
        return x.grad

    torch.npu.manual_seed(7)
    torch.npu.synchronize()
    with torch.npu.stream(torch.npu.Stream()):
        expected = [[value.cpu() for value in work()] for _ in range(2)]
    after = torch.npu.get_rng_state()
    torch.npu.manual_seed(7)
    graph, results = capture(work)
    replays_give(graph, results, expected)
    assert torch.equal(torch.npu.get_rng_state(), after)


def test_a_capture_refuses_to_change_the_seed():
    state = torch.npu.get_rng_state()
    for change in (lambda: torch.npu.manual_seed(state[0].item() + 1), torch.npu.seed):
        with pytest.raises(RuntimeError, match="seed of a generator"), torch.npu.graph(torch.npu.NPUGraph()):
            torch.rand(4, device="npu")
            change()
        assert torch.equal(torch.npu.get_rng_state(), state)
