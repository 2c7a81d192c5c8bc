"""Graphs: captured work that is replayed gives what the same calls give without a graph."""

import gc
import json

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_npu import softnpu

from tests.support import cached, two_devices

pytestmark = cached


def capture(function, **options):
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, **options):
        result = function()
    return graph, result


def same(actual, expected):
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-6)


def mlp(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def test_nothing_runs_before_the_replay_and_inputs_are_read_anew():
    x = torch.zeros(5, device="npu")
    y = torch.zeros(5, device="npu")
    graph, _ = capture(lambda: y.add_(x).mul_(2))
    assert not torch.npu.is_current_stream_capturing()
    same(y, torch.zeros(5))
    for value in (1.0, 3.0):
        y.zero_()
        x.fill_(value)
        graph.replay()
        same(y, torch.full((5,), 2 * value))


def test_a_whole_training_step_is_that_of_cpu():
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
        same(loss.detach(), expected.detach())
    for ours, theirs in zip(npu.parameters(), cpu.parameters(), strict=True):
        same(ours.detach(), theirs.detach())


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
        same(inputs[1].grad, inputs[0].grad)
        for ours, theirs in zip(npu.parameters(), cpu.parameters(), strict=True):
            same(ours.grad, theirs.grad)
    with pytest.raises(ValueError, match=r"captured with shape \[10, 8\] for tensor 0, but \[1, 8\] is given"):
        npu(torch.ones(1, 8, device="npu"))
    npu.eval()
    same(npu(torch.ones(3, 8, device="npu")).detach(), cpu(torch.ones(3, 8)).detach())  # another shape: not the graph


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
    same(ours.grad, a.grad)
    with pytest.raises(ValueError, match=r"shape \[4\] for tensor 1, but \[1\]"):
        graphed[0](ours, b[:1].npu())
    with pytest.raises(TypeError, match="int"):
        torch.npu.make_graphed_callables(first, (torch.ones(2, device="npu"), 3))
    hooked = mlp().npu()
    hooked.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="no hooks"):
        torch.npu.make_graphed_callables(hooked, (torch.ones(2, 8, device="npu"),))


def test_graphs_share_a_pool_in_the_order_of_their_capture():
    pool = torch.npu.graph_pool_handle()
    x = torch.ones(1 << 16, device="npu")
    first, y = capture(lambda: x * 2, pool=pool)
    second, z = capture(lambda: (y + 1).sqrt(), pool=pool)
    assert first.pool() == second.pool() == pool
    x.fill_(4)
    first.replay()
    second.replay()
    same(z, torch.full((1 << 16,), 3.0))
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
    same(y, torch.full((4,), 6.0))
    other = torch.accelerator.Graph(pool=graph.pool(), capture_error_mode="relaxed")
    with torch.Stream(), other:
        z = y + 1
    other.replay()
    same(z, torch.full((4,), 7.0))
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
            same(ours, theirs)


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
        same(result, torch.full((1000,), 9 * value**2 - 1))


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
        same(back, torch.full((100,), 2 * value))


def test_replays_on_several_streams_follow_each_other():
    x = torch.zeros(1 << 16, device="npu")
    graph, _ = capture(lambda: x.add_(1))
    streams = [torch.npu.Stream() for _ in range(3)]
    torch.npu.synchronize()
    for turn in range(9):
        with torch.npu.stream(streams[turn % 3]):
            graph.replay()
    torch.npu.synchronize()
    same(x, torch.full((1 << 16,), 9.0))


def replays_give(graph, results, expected):
    for each in expected:
        graph.replay()
        for ours, theirs in zip(results, each, strict=True):
            assert torch.equal(ours.cpu(), theirs)


def test_random_operators_draw_anew_with_each_replay_as_eager_calls_would():
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


def test_no_captured_call_writes_where_a_graph_keeps_seed_and_offset():
    x = torch.ones(50, device="npu")
    generator = torch.Generator("npu")

    def work():
        y = x
        for _ in range(3):
            y = (y + 1).sqrt()  # frees memory that later calls get
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
            same(ours, theirs)


def test_a_generator_of_the_program_is_followed_too():
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


def test_a_capture_leaves_the_seed_alone():
    state = torch.npu.get_rng_state()
    for change in (lambda: torch.npu.manual_seed(state[0].item() + 1), torch.npu.seed):
        with pytest.raises(RuntimeError, match="seed of a generator"), torch.npu.graph(torch.npu.NPUGraph()):
            torch.rand(4, device="npu")
            change()
        assert torch.equal(torch.npu.get_rng_state(), state)


WAITS = {
    "item": (lambda x, event: x.sum().item(), "_local_scalar_dense.*captured"),
    "if": (lambda x, event: bool(x[0] > 0), "captured"),
    "cpu": (lambda x, event: x.cpu(), "copy_.*captured"),
    "nonzero": (lambda x, event: x.nonzero(), "captured"),
    "synchronize": (lambda x, event: torch.npu.synchronize(), "captured"),
    "stream": (lambda x, event: torch.npu.current_stream().synchronize(), "captured"),
    "query": (lambda x, event: torch.npu.current_stream().query(), "captured"),
    "event": (lambda x, event: event.synchronize(), "captured"),
    "tensor": (lambda x, event: torch.ones(3).npu(), "captured"),
}


@pytest.mark.parametrize("name", WAITS)
def test_what_waits_for_the_device_raises_and_the_device_goes_on(name):
    call, words = WAITS[name]
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match=words), torch.npu.graph(graph):
        y = x + 1
        event = torch.npu.Event()
        event.record()
        call(y, event)
    assert not torch.npu.is_current_stream_capturing()
    with pytest.raises(RuntimeError, match="holds no graph"):
        graph.replay()
    same(x + 1, torch.full((4,), 2.0))
    with torch.npu.graph(graph):
        y = x * 5
    graph.replay()
    same(y, torch.full((4,), 5.0))


def test_a_stream_that_does_not_come_back_fails_the_capture():
    x = torch.ones(4, device="npu")
    side = torch.npu.Stream()
    with pytest.raises(RuntimeError, match="does not wait for"), torch.npu.graph(torch.npu.NPUGraph()):
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            x + 1
    with torch.npu.stream(side):
        same(x + 1, torch.full((4,), 2.0))


def test_exceptions_of_the_program_end_the_capture():
    before = torch.npu.current_stream()
    with pytest.raises(ZeroDivisionError), torch.npu.graph(torch.npu.NPUGraph()):
        torch.ones(4, device="npu").add_(1 // 0)
    assert torch.npu.current_stream() == before
    torch.npu.synchronize()


def test_running_out_of_memory_in_a_capture_is_an_error_like_any_other():
    total = torch.npu.mem_get_info()[1]
    with pytest.raises(torch.npu.OutOfMemoryError), torch.npu.graph(torch.npu.NPUGraph()):
        torch.empty(total + 1, dtype=torch.uint8, device="npu")
    same(torch.ones(2, device="npu") + 1, torch.full((2,), 2.0))


def test_memory_belongs_to_the_graph_until_it_goes():
    gc.collect()
    torch.npu.empty_cache()
    before = torch.npu.memory_reserved()
    x = torch.ones(1 << 20, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = (x + 1) * (x + 2)
    kept = torch.npu.memory_reserved()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == kept, "the pool of a living graph was given back"
    other = [torch.zeros(1 << 20, device="npu") for _ in range(8)]
    graph.replay()
    same(y, torch.full((1 << 20,), 6.0))
    assert all(bool((each == 0).all()) for each in other), "memory of the graph was given to others"
    del graph, y, x, other
    gc.collect()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() <= before


@two_devices
def test_memory_of_another_device_belongs_to_the_graph_too():
    x, stream = torch.ones(1000, device="npu:1"), torch.npu.Stream(1)
    graph = torch.npu.NPUGraph()
    torch.npu.synchronize(1)
    with torch.npu.graph(graph):
        first = torch.npu.current_stream()
        stream.wait_stream(first)
        with torch.npu.stream(stream):
            y = (x + 1) * (x + 2)
        first.wait_stream(stream)
    with torch.npu.stream(stream):
        other = [torch.zeros(1000, device="npu:1") for _ in range(8)]
    torch.npu.synchronize(1)
    graph.replay()
    torch.npu.synchronize()
    same(y, torch.full((1000,), 6.0))
    assert all(bool((each == 0).all()) for each in other), "memory of the graph was given to others"


def test_memory_used_by_other_streams_is_kept_until_the_capture_is_over():
    side = torch.npu.Stream()
    x = torch.ones(1 << 16, device="npu")
    x.record_stream(side)
    with torch.npu.graph(torch.npu.NPUGraph()):
        y = torch.zeros(4, device="npu")
        del x
    allocated = torch.npu.memory_allocated()
    torch.npu.synchronize()
    torch.empty(1, device="npu")
    torch.npu.empty_cache()
    assert torch.npu.memory_allocated() <= allocated
    del y


def test_an_operator_that_fails_in_a_replay_is_named_and_the_next_replay_runs():
    x = torch.ones(4, device="npu")
    graph, y = capture(lambda: x.exp().sqrt())
    torch.npu.synchronize()
    with softnpu.faults("launch:2"):
        graph.replay()
        with pytest.raises(RuntimeError, match="aclnnSqrt"):
            torch.npu.synchronize()
        graph.replay()
        same(y, torch.ones(4).exp().sqrt())


def test_wrong_use_is_told():
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match="holds no graph"):
        graph.replay()
    with pytest.raises(RuntimeError, match="no pool"):
        graph.pool()
    with pytest.raises(RuntimeError, match="without capture_begin"):
        graph.capture_end()
    with pytest.raises(RuntimeError, match="default stream"):
        graph.capture_begin()
    with pytest.raises(ValueError, match="'global', 'thread_local' or 'relaxed'"), torch.npu.graph(graph, capture_error_mode="x"):
        pass
    other, _ = capture(lambda: torch.ones(1, device="npu"))
    with torch.npu.graph(graph), pytest.raises(RuntimeError, match="being captured"):
        other.replay()
    with pytest.raises(RuntimeError, match="already"), torch.npu.graph(graph):
        pass
    with pytest.raises(RuntimeError, match="auto_dispatch_capture"):
        graph.update([{}])
    graph.reset()
    with pytest.raises(RuntimeError, match="holds no graph"):
        graph.replay()


def test_debug_dump_lists_the_tasks(tmp_path):
    x = torch.ones(4, device="npu")
    graph, _ = capture(lambda: x.exp())
    graph.debug_dump(tmp_path / "graph.json")
    tasks = json.loads((tmp_path / "graph.json").read_text())["tasks"]
    assert [task["name"] for task in tasks] == ["aclnnExp"]


def test_a_task_group_takes_other_arguments():
    x = torch.full((4,), 3.0, device="npu")
    out = torch.zeros(4, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        stream = torch.npu.current_stream()
        torch.npu.graph_task_group_begin(stream)
        torch.mul(x, 2, out=out)
        group = torch.npu.graph_task_group_end(stream)
    update = torch.npu.Stream()
    with torch.npu.stream(update):
        torch.npu.graph_task_update_begin(update, group)
        torch.mul(x, 5, out=out)
        torch.npu.graph_task_update_end(update)
    same(out, torch.zeros(4))
    graph.replay()
    same(out, torch.full((4,), 15.0))
    with torch.npu.stream(update):
        torch.npu.graph_task_update_begin(update, group)
        torch.exp(x, out=out)
        with pytest.raises(RuntimeError, match="aclnnExp"):
            torch.npu.graph_task_update_end(update)


def test_operators_with_a_handler_are_updated_between_replays():
    @torch.npu.register_npu_graph_handler(["pow.Tensor_Scalar", "pow.Tensor_Scalar_out"])
    class PowHandler(torch.npu.NpuGraphOpHandler):
        UPDATE_SPECS = {"pow.Tensor_Scalar_out": [("arg", 1, "exponent")]}  # noqa: RUF012

        @classmethod
        def prepare_capture(cls, func, args, kwargs):
            return torch.ops.aten.pow.Tensor_Scalar_out, args, {"out": torch.empty_like(args[0])}

    x = torch.full((4,), 2.0, device="npu")
    graph, y = capture(lambda: (x + 1).pow(2) + 1, auto_dispatch_capture=True)
    for exponent in (2, 3, 4):
        graph.replay()
        graph.update(cpu_update_input=[{"exponent": exponent}])
        same(y, torch.full((4,), 3.0**exponent + 1))
    with pytest.raises(RuntimeError, match="1 operators"):
        graph.update([{}, {}])
    with pytest.raises(RuntimeError, match="Cannot cast two"):
        graph.update([{"exponent": "two"}])
    graph.update([{"exponent": 5}])
    graph.replay()
    same(y, torch.full((4,), 3.0**5 + 1))

    def long():
        powers, total = (x + 1).pow(2), torch.zeros(4, device="npu")
        for _ in range(2000):
            total.add_(powers)
        return total

    graph, total = capture(long, auto_dispatch_capture=True)
    for exponent in (2, 3):
        graph.replay()  # more than a stream holds; the update below lets it go on
        graph.update([{"exponent": exponent}])
        same(total, torch.full((4,), 2000 * 3.0**exponent))


def test_handlers_decide_what_is_kept_changed_and_returned():
    seen = []

    @torch.npu.register_npu_graph_handler("add.out")
    class AddHandler(torch.npu.NpuGraphOpHandler):
        UPDATE_SPECS = {"add.out": [("kwarg", "alpha", "factor")]}  # noqa: RUF012

        @classmethod
        def record_wrap_kwarg(cls, key, value, tensor_param_names):
            seen.append((key, key in tensor_param_names))
            return super().record_wrap_kwarg(key, value, tensor_param_names)

        @classmethod
        def postprocess_result(cls, result, kwargs):
            seen.append(("result", result is kwargs["out"]))
            return super().postprocess_result(result, kwargs)

        @classmethod
        def update_args(cls, dispatch_record, update_input):
            super().update_args(dispatch_record, {"factor": update_input["factor"] * 10})

    assert AddHandler.get_update_specs("add.out") == [("kwarg", "alpha", "factor")]
    assert AddHandler.get_update_specs("mul.out") == []
    assert AddHandler.prepare_capture("f", (1,), {}) == ("f", (1,), {})
    x, out = torch.ones(3, device="npu"), torch.zeros(3, device="npu")
    graph, _ = capture(lambda: torch.ops.aten.add.out(x, x, alpha=2, out=out), auto_dispatch_capture=True)
    assert seen == [("alpha", False), ("out", True), ("result", True)]
    graph.replay()
    graph.update([{"factor": 3}])
    same(out, torch.full((3,), 31.0))


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


def test_a_graph_needs_memory_that_is_cached(child):
    finished = child(
        """
        import torch
        try:
            with torch.npu.graph(torch.npu.NPUGraph()):
                pass
        except RuntimeError as error:
            print(error)
        """,
        PYTORCH_NO_NPU_MEMORY_CACHING="1",
    )
    assert "needs the caching allocator" in finished.stdout, finished.stderr


def test_a_program_may_end_with_a_graph_on_its_way(child):
    finished = child(
        """
        import torch
        x = torch.ones(1 << 20, device="npu")
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = x.exp().sum() + torch.rand(3, device="npu")
        for _ in range(20):
            graph.replay()
        unfinished = torch.npu.graph(torch.npu.NPUGraph())
        unfinished.__enter__()
        z = x + 1
        """
    )
    assert (finished.returncode, finished.stderr) == (0, "")
