"""A replay of captured work gives what the same calls give without a graph."""

import json

import pytest
import torch
from torch import nn

from tests.graphs.capturing import assert_replayed, capture
from tests.support import cached

pytestmark = cached


def mlp(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def test_work_runs_at_the_replay_with_the_current_inputs():
    x = torch.zeros(5, device="npu")
    y = torch.zeros(5, device="npu")
    graph, _ = capture(lambda: y.add_(x).mul_(2))
    assert not torch.npu.is_current_stream_capturing()
    assert_replayed(y, torch.zeros(5))
    for value in (1.0, 3.0):
        y.zero_()
        x.fill_(value)
        graph.replay()
        assert_replayed(y, torch.full((5,), 2 * value))


def test_a_captured_training_step_equals_that_of_the_cpu():
    cpu, npu = mlp(), mlp().npu()
    batches = torch.randn(6, 10, 8)
    x, target = torch.zeros(10, 8, device="npu"), torch.zeros(10, 4, device="npu")
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (cpu, npu)]

    def step(model, optimizer, x, target):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    stream = torch.npu.Stream()
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        for _ in range(2):
            x.copy_(batches[0])
            step(npu, optimizers[1], x, target)
    torch.npu.current_stream().wait_stream(stream)
    for _ in range(2):
        step(cpu, optimizers[0], batches[0], torch.zeros(10, 4))

    optimizers[1].zero_grad(set_to_none=True)
    graph, loss = capture(lambda: step(npu, optimizers[1], x, target))
    for batch in batches:
        x.copy_(batch)
        graph.replay()
        expected = step(cpu, optimizers[0], batch, torch.zeros(10, 4))
        assert_replayed(loss.detach(), expected.detach())
    for ours, theirs in zip(npu.parameters(), cpu.parameters(), strict=True):
        assert_replayed(ours.detach(), theirs.detach())


def test_a_network_with_state_trains_alike_with_and_without_a_graph():
    torch.manual_seed(1)
    images, labels = torch.randn(5, 4, 3, 8, 8).npu(), torch.randint(10, (5, 4)).npu()
    x, y = torch.empty_like(images[0]), torch.empty_like(labels[0])

    def make():
        torch.manual_seed(2)
        network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 10)).npu()
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, capturable=True)

        def step():
            optimizer.zero_grad()
            with torch.autocast("npu", dtype=torch.bfloat16, cache_enabled=False):
                loss = nn.functional.cross_entropy(network(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        return network, step

    (eager, eager_step), (graphed, graphed_step) = make(), make()
    x.copy_(images[0]), y.copy_(labels[0])
    torch.npu.synchronize()
    eager_step()
    with torch.npu.stream(torch.npu.Stream()):
        graphed_step()
    graph, loss = capture(graphed_step)
    for image, label in zip(images, labels, strict=True):
        x.copy_(image), y.copy_(label)
        graph.replay()
        assert torch.equal(loss, eager_step())
    for (name, ours), theirs in zip(graphed.state_dict().items(), eager.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs), name


def test_graphed_module_trains_like_the_module():
    cpu, npu = mlp(), mlp().npu()
    x = torch.randn(10, 8)
    graphed = torch.npu.make_graphed_callables(npu, (torch.randn(10, 8, device="npu", requires_grad=True),))
    assert graphed is npu
    for scale in (1.0, -2.0):
        inputs = [(x * scale).to(device).requires_grad_() for device in ("cpu", "npu")]
        for model, given in zip((cpu, npu), inputs, strict=True):
            model.zero_grad()
            model(given).square().sum().backward()
        assert_replayed(inputs[1].grad, inputs[0].grad)
        for ours, theirs in zip(npu.parameters(), cpu.parameters(), strict=True):
            assert_replayed(ours.grad, theirs.grad)
    with pytest.raises(ValueError, match=r"captured with shape \[10, 8\] for tensor 0, but \[1, 8\] is given"):
        npu(torch.ones(1, 8, device="npu"))
    npu.eval()
    # In evaluation mode the module runs without its graph, so that other shapes work.
    assert_replayed(npu(torch.ones(3, 8, device="npu")).detach(), cpu(torch.ones(3, 8)).detach())


def test_graphed_functions_of_a_tuple_keep_structure_and_unused_inputs():
    def first(a, b):
        return {"sum": a + b, "product": a * b}

    def second(a, unused):
        return a.exp()

    def sample(requires_grad=True):
        return torch.randn(4, device="npu", requires_grad=requires_grad)

    graphed = torch.npu.make_graphed_callables(
        (first, second), ((sample(), sample(False)), (sample(), sample())), allow_unused_input=True
    )
    a = torch.randn(4, requires_grad=True)
    b = torch.randn(4)
    ours = a.detach().npu().requires_grad_()
    result = graphed[0](ours, b.npu())
    expected = first(a, b)
    assert result.keys() == expected.keys()
    total = graphed[1](result["sum"], torch.zeros(4, device="npu")).sum() + result["product"].sum()
    (expected["sum"].exp().sum() + expected["product"].sum()).backward()
    total.backward()
    assert_replayed(ours.grad, a.grad)
    with pytest.raises(ValueError, match=r"shape \[4\] for tensor 1, but \[1\]"):
        graphed[0](ours, b[:1].npu())
    with pytest.raises(TypeError, match="int"):
        torch.npu.make_graphed_callables(first, (torch.ones(2, device="npu"), 3))
    hooked = mlp().npu()
    hooked.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="no hooks"):
        torch.npu.make_graphed_callables(hooked, (torch.ones(2, 8, device="npu"),))


def test_graphs_that_share_a_pool_are_replayed_in_the_order_of_capture():
    pool = torch.npu.graph_pool_handle()
    x = torch.ones(1 << 16, device="npu")
    first, y = capture(lambda: x * 2, pool=pool)
    second, z = capture(lambda: (y + 1).sqrt(), pool=pool)
    assert first.pool() == second.pool() == pool
    x.fill_(4)
    first.replay()
    second.replay()
    assert_replayed(z, torch.full((1 << 16,), 3.0))
    third, _ = capture(lambda: x + 1, pool=first.pool())
    assert third.pool() == pool


@pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"), reason="this torch has no torch.accelerator.Graph")
def test_a_graph_of_torch_accelerator(tmp_path):
    x = torch.ones(4, device="npu")
    graph = torch.accelerator.Graph()
    with torch.Stream(), graph:
        y = x * 3
    x.fill_(2)
    graph.replay()
    assert_replayed(y, torch.full((4,), 6.0))
    other = torch.accelerator.Graph(pool=graph.pool(), capture_error_mode="relaxed")
    with torch.Stream(), other:
        z = y + 1
    other.replay()
    assert_replayed(z, torch.full((4,), 7.0))
    graph.debug_dump(str(tmp_path / "graph.json"))
    assert "aclnnMuls" in (tmp_path / "graph.json").read_text()


def test_numbers_of_the_host_are_operands_of_captured_calls():
    x = torch.full((3,), 4.0, device="npu")
    number = torch.tensor(2.0)

    def work(x):
        return 1 - x, 9 // x, torch.atan2(number, x), torch.where(x > 0, x, number), 1 - x.sum(), 5 << x.long()

    graph, results = capture(lambda: work(x))
    for value in (1.0, 3.0):
        x.fill_(value)
        graph.replay()
        for ours, theirs in zip(results, work(torch.full((3,), value)), strict=True):
            assert_replayed(ours, theirs)


def test_streams_fork_and_join():
    x = torch.ones(1000, device="npu")
    side = torch.npu.Stream()

    def work():
        current = torch.npu.current_stream()
        y = x * 3
        side.wait_stream(current)
        with torch.npu.stream(side):
            assert torch.npu.is_current_stream_capturing()
            z = y + 1
        w = y - 1
        current.wait_stream(side)
        z.record_stream(current)
        return z * w

    graph, result = capture(work)
    assert not torch.npu.is_current_stream_capturing()
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        assert_replayed(result, torch.full((1000,), 9 * value**2 - 1))


def test_copies_of_pinned_memory_are_captured():
    source, back = torch.ones(100).pin_memory(), torch.zeros(100).pin_memory()
    x = torch.zeros(100, device="npu")

    def work():
        x.copy_(source, non_blocking=True)
        back.copy_(x * 2, non_blocking=True)

    graph, _ = capture(work)
    for value in (3.0, 4.0):
        source.fill_(value)
        graph.replay()
        torch.npu.synchronize()
        assert_replayed(back, torch.full((100,), 2 * value))


def test_replays_on_several_streams_follow_each_other():
    x = torch.zeros(1 << 16, device="npu")
    graph, _ = capture(lambda: x.add_(1))
    streams = [torch.npu.Stream() for _ in range(3)]
    torch.npu.synchronize()
    for turn in range(9):
        with torch.npu.stream(streams[turn % 3]):
            graph.replay()
    torch.npu.synchronize()
    assert_replayed(x, torch.full((1 << 16,), 9.0))


def test_debug_dump_lists_the_tasks(tmp_path):
    x = torch.ones(4, device="npu")
    graph, _ = capture(lambda: x.exp())
    graph.debug_dump(tmp_path / "graph.json")
    tasks = json.loads((tmp_path / "graph.json").read_text())["tasks"]
    assert [task["name"] for task in tasks] == ["aclnnExp"]


def test_programs_for_cuda_capture_too(child):
    finished = child(
        """
        import torch
        from torch_npu.contrib import transfer_to_npu

        graph = torch.cuda.CUDAGraph()
        x = torch.ones(4, device="cuda")
        with torch.cuda.graph(cuda_graph=graph, capture_error_mode="thread_local"):
            assert torch.cuda.is_current_stream_capturing()
            y = x * 2
        x.fill_(3)
        graph.replay()
        assert y.tolist() == [6.0] * 4
        module = torch.cuda.make_graphed_callables(torch.nn.Linear(4, 2).cuda(), (torch.ones(3, 4, device="cuda"),))
        module(torch.ones(3, 4, device="cuda")).sum().backward()
        """
    )
    assert finished.returncode == 0, finished.stderr
