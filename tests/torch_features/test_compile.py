"""torch.compile, torch.export, FakeTensor and fx on npu."""

import importlib
import io
import sys

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.passes import move_to_device_pass
from torch_npu._dynamo import refuse_inductor
from torch_npu._import_hook import on_import

from tests.support import needs_torch, two_devices

BACKENDS = ["eager", "aot_eager", "aot_eager_decomp_partition", "npu"]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Linear(3, 2)
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.linear(x) + self.shift + torch.ones(2, device=x.device)


def trained(device, backend=None, steps=3):
    """Trains. Returns the losses and the final state."""
    torch.manual_seed(0)
    net = Net().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    forward = torch.compile(net, backend=backend, fullgraph=True) if backend else net
    losses = []
    for step in range(steps):
        x = torch.linspace(-1, 1, 4 * 36).view(4, 1, 6, 6).to(device) + step
        optimizer.zero_grad()
        loss = forward(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: value.cpu() for name, value in net.state_dict().items()}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_network_trains_as_on_the_cpu(backend):
    torch.testing.assert_close(trained("npu", backend), trained("cpu"), rtol=1e-4, atol=1e-5)


def test_a_step_may_be_marked():
    assert torch.compiler.npugraph_mark_step_begin() is None


def encoded(device, batch_first, backend=None):
    """Output and gradients of a transformer layer."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=batch_first).to(device)
    forward = torch.compile(layer, backend=backend, fullgraph=True) if backend else layer
    output = forward(torch.linspace(-1, 1, 160).view(2, 5, 16).to(device))
    output.square().mean().backward()
    return output.cpu(), [parameter.grad.cpu() for parameter in layer.parameters()]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition"])
def test_a_transformer_is_as_on_the_cpu(backend, batch_first):
    expected = encoded("cpu", batch_first)
    torch.testing.assert_close(encoded("npu", batch_first, backend), expected, rtol=1e-4, atol=1e-5)


def layouts_of_attention(query):
    output = nn.functional.scaled_dot_product_attention(query, query, query)
    (gradient,) = torch.autograd.grad(output.sum(), query)
    return output.stride(), gradient.stride()


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)])
@pytest.mark.parametrize("head", [8, 4])
def test_attention_has_the_layout_that_fake_tensors_have(order, head):
    whole = torch.rand([(2, 3, 5, 8)[i] for i in order]).npu()
    query = whole[..., :head].permute([order.index(i) for i in range(4)]).requires_grad_()
    with FakeTensorMode() as mode:
        expected = layouts_of_attention(mode.from_tensor(query))
    assert layouts_of_attention(query) == expected


def test_the_backend_npu_is_listed():
    assert "npu" in torch.compiler.list_backends()


def side_stream(x):
    stream = torch.npu.Stream()
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        y = x + 1
    torch.npu.current_stream().wait_stream(stream)
    return y * 2


def side_stream_of_torch(x):
    stream = torch.Stream("npu")
    with stream:
        y = x + 1
    torch.accelerator.current_stream().wait_stream(stream)
    return y


def event(x):
    event = torch.npu.Event(enable_timing=True)
    event.record()
    y = x + 1
    event.wait()
    torch.npu.current_stream().wait_event(torch.npu.current_stream().record_event())
    return y


def default_stream(x):
    with torch.npu.stream(torch.npu.default_stream()):
        y = x + 1
    y.record_stream(torch.npu.default_stream())
    return y


def device_context(x):
    with torch.npu.device(torch.npu.device_count() - 1):
        y = torch.ones(3, device="npu")
    return y.to(x.device) + x


def autocast(x):
    with torch.autocast("npu", dtype=torch.bfloat16):
        return x @ x.t()


def autocast_of_npu(x):
    with torch.npu.amp.autocast():
        return x @ x.t()


def synchronized(x):
    y = x + 1
    torch.npu.synchronize()
    return y * 2


def checkpointed(x):
    return torch.utils.checkpoint.checkpoint(lambda y: nn.functional.dropout(y, 0.0).sin(), x, use_reentrant=False)


TRACED = {
    "factory": lambda x: torch.ones(3, device="npu") + torch.zeros(3, device=x.device) + x,
    "to": lambda x: (x + 1).to("npu") + torch.ones(3).npu(),
    "cpu": lambda x: (x.cpu() + 1).npu(),
    "is_npu": lambda x: x + 1 if x.is_npu else x - 1,
    "is_available": lambda x: x + 1 if torch.npu.is_available() else x,
    "device_count": lambda x: x + torch.npu.device_count(),
    "current_device": lambda x: x + torch.npu.current_device() + 1,
    "properties": lambda x: x * torch.npu.get_device_properties().total_memory,
    "name": lambda x: x + len(torch.npu.get_device_name()),
    "accelerator": lambda x: x + torch.ones(3, device=torch.accelerator.current_accelerator()),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    **{f.__name__: f for f in (side_stream, side_stream_of_torch, event, device_context, autocast, autocast_of_npu)},
    **{f.__name__: f for f in (synchronized, checkpointed, default_stream)},
}


BREAKS = needs_torch(2, 13, "it breaks the graph")
NEW = {"device_context": BREAKS, "autocast_of_npu": BREAKS, "default_stream": BREAKS}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=NEW.get(name, ())) for name in TRACED])
def test_calls_of_torch_npu_are_traced_without_graph_breaks(name, backend):
    x = torch.linspace(-1, 1, 15).view(5, 3).npu()
    expected = TRACED[name](x)
    result = torch.compile(TRACED[name], backend=backend, fullgraph=True)(x)
    assert result.device == expected.device
    torch.testing.assert_close(result, expected)


def test_a_stream_from_outside_is_used():
    stream = torch.npu.Stream()

    def function(x):
        stream.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(stream):
            y = x + 1
        torch.npu.current_stream().wait_stream(stream)
        return y

    x = torch.ones(3, device="npu")
    assert torch.compile(function, backend="aot_eager", fullgraph=True)(x).tolist() == [2, 2, 2]


@two_devices
def test_the_current_device_is_guarded():
    function = torch.compile(lambda x: x + torch.npu.current_device(), backend="eager", fullgraph=True)
    x = torch.zeros(1)
    assert function(x).item() == 0
    with torch.npu.device(1):
        assert function(x).item() == 1
    assert function(x).item() == 0


def test_shapes_may_be_dynamic():
    counter = torch._dynamo.testing.CompileCounter()
    function = torch.compile(lambda x: x.sin().sum(0), backend=counter, dynamic=True, fullgraph=True)
    for size in (3, 4, 5):
        x = torch.rand(size, 2, device="npu")
        torch.testing.assert_close(function(x), x.sin().sum(0))
    assert counter.frame_count == 1


@pytest.mark.parametrize("function", [lambda x: x + 1, lambda x: torch.ones(3, device="npu")])
def test_inductor_is_refused_in_one_sentence(function):
    with pytest.raises(Exception, match=r'inductor generates no code for npu: .*backend="npu"'):
        torch.compile(function)(torch.ones(3, device="npu"))


def test_inductor_still_gets_the_graphs_of_the_cpu():
    graph = torch.fx.symbolic_trace(lambda x: x + 1)
    assert refuse_inductor(lambda graph, inputs: "compiled")(graph, [torch.ones(1)]) == "compiled"


def test_the_plugin_imports_no_compiler(child):
    program = """
        import sys, torch, torch_npu
        print([name for name in ("torch._dynamo", "torch._inductor", "torch_npu._dynamo") if name in sys.modules])
    """
    assert child(program).stdout == "[]\n"


def test_a_function_runs_right_after_an_import(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text("value = 1")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    seen = []
    on_import("imported_late", lambda: seen.append(sys.modules["imported_late"].value))
    assert seen == []
    for _ in range(2):
        importlib.import_module("imported_late")
        assert seen == [1]
    assert sys.meta_path == finders
    on_import("imported_late", lambda: seen.append(2))
    assert seen == [1, 2]


def test_the_device_interface_answers():
    interface = torch._dynamo.device_interface.get_interface_for_device("npu")
    assert interface.is_available()
    assert interface.current_device() == interface.Worker.current_device() == 0
    assert interface.get_device_properties(0).name == interface.get_compute_capability()
    assert interface.is_bf16_supported()
    assert not interface.is_triton_capable()
    stream = torch.npu.Stream()
    previous = torch.npu.current_stream()
    interface._set_stream_by_id(stream.stream_id, stream.device_index, stream.device_type)
    assert torch.npu.current_stream() == stream
    assert interface.get_raw_stream(0) == stream.npu_stream
    interface.set_stream(previous)
    assert interface.maybe_exchange_device(-1) == 0


def test_fake_tensors_are_on_npu_and_hold_no_memory_of_it():
    with FakeTensorMode() as mode:
        x = torch.empty(1 << 20, 1 << 20, device="npu")
        assert mode.from_tensor(torch.ones(2, device="npu")).device.type == "npu"
        assert (x @ x).device == x.sum().device == torch.device("npu:0")
        assert x.cpu().device.type == "cpu"
        assert (x + torch.tensor(1.0)).is_npu
        with pytest.raises(RuntimeError, match=r"same device|different devices"):
            x + torch.ones(1 << 20)
        with torch.device("npu"):
            net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
        loss = net(torch.empty(2, 3, 8, 8, device="npu")).sum()
        loss.backward()
        assert net[0].weight.grad.is_npu
        output, _ = nn.LSTM(3, 4, device="npu")(torch.empty(5, 2, 3, device="npu", requires_grad=True))
        output.sum().backward()
        query = torch.empty(1, 2, 5, 8, device="npu", requires_grad=True)
        assert nn.functional.scaled_dot_product_attention(query, query, query).shape == query.shape


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_runs_is_saved_and_moves(strict):
    net = Net().npu().eval()
    x = torch.rand(4, 1, 6, 6, device="npu")
    batch = torch.export.Dim("batch")
    program = torch.export.export(net, (x,), dynamic_shapes={"x": {0: batch}}, strict=strict)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    assert loaded.state_dict["shift"].is_npu
    for each in (program, loaded, program.run_decompositions()):
        for size in (4, 7):
            y = torch.rand(size, 1, 6, 6, device="npu")
            torch.testing.assert_close(each.module()(y), net(y))
    moved = move_to_device_pass(loaded, "cpu")
    torch.testing.assert_close(moved.module()(x.cpu()), net(x).cpu())
    back = move_to_device_pass(moved, "npu")
    torch.testing.assert_close(back.module()(x), net(x))


def test_fx_traces_npu():
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.rand(3, device="npu")
    for mode in ("real", "fake", "symbolic"):
        graph = make_fx(lambda x: (x.sin() + torch.ones(3, device="npu")).sum(), tracing_mode=mode)(x)
        torch.testing.assert_close(graph(x), x.sin().sum() + 3)
        assert "device(type='npu'" in graph.code
    net = nn.Linear(3, 2).npu()
    torch.testing.assert_close(torch.fx.symbolic_trace(net)(x), net(x))
