"""torch.accelerator, device modules, device contexts, the default device and the way from meta to npu."""

import pytest
import torch
from torch import nn

from tests.support import two_devices


def test_npu_is_the_accelerator():
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == torch.npu.device_count()
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.accelerator.current_accelerator(check_available=True).type == "npu"
    assert (
        torch.get_device_module() is torch.get_device_module("npu") is torch.get_device_module(torch.device("npu:0")) is torch.npu
    )


@two_devices
def test_the_device_can_be_set_and_restored():
    assert torch.accelerator.current_device_index() == 0
    with torch.accelerator.device_index(1):
        assert torch.accelerator.current_device_index() == torch.npu.current_device() == 1
        assert torch.ones(1, device="npu").device.index == 1
        with torch.accelerator.device_index(None):
            assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0
    torch.accelerator.set_device_index(1)
    try:
        assert torch.npu.current_device() == 1
    finally:
        torch.accelerator.set_device_index("npu:0")


@two_devices
def test_streams_belong_to_devices():
    stream = torch.Stream("npu:1")
    with stream as entered:
        assert entered == torch.accelerator.current_stream() == torch.npu.current_stream()
        assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0
    assert torch.accelerator.current_stream("npu:1") != stream
    torch.accelerator.set_stream(stream)
    try:
        assert torch.accelerator.current_stream(1) == stream
    finally:
        torch.accelerator.set_stream(torch.npu.default_stream("npu:1"))
        torch.npu.set_device(0)
    torch.accelerator.synchronize(1)
    torch.accelerator.synchronize()


def test_events_order_streams():
    first, second = torch.Stream("npu"), torch.Stream("npu")
    x = torch.zeros(1 << 16, device="npu")
    torch.accelerator.synchronize()
    with first:
        x += 1
        event = torch.Event("npu")
        event.record()
    with second:
        event.wait()
        x *= 3
    second.synchronize()
    assert event.query()
    assert x.sum().item() == 3 << 16


def test_memory_is_counted(empty_device):
    torch.accelerator.empty_cache()
    getattr(torch.accelerator, "empty_host_cache", torch.npu.host_empty_cache)()  # torch before 2.13 has none
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.reset_accumulated_memory_stats()
    before = torch.accelerator.memory_allocated()
    x = torch.ones(1 << 20, device="npu")
    assert torch.accelerator.memory_allocated() - before == torch.npu.memory_allocated() - before == x.nbytes
    assert torch.accelerator.memory_reserved() >= torch.accelerator.memory_allocated()
    del x
    assert torch.accelerator.memory_allocated() == before
    assert torch.accelerator.max_memory_allocated() >= before + (4 << 20)
    assert torch.accelerator.max_memory_reserved() == torch.npu.max_memory_reserved()
    assert torch.accelerator.memory_stats()["allocated_bytes.all.peak"] == torch.accelerator.max_memory_allocated()
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free <= total == torch.npu.get_device_properties().total_memory


def test_capabilities():
    assert {torch.float16, torch.bfloat16, torch.int8} < torch.accelerator.get_device_capability()["supported_dtypes"]


@pytest.mark.parametrize(
    "use",
    [
        lambda device: torch.ones(2, device=device),
        lambda device: torch.ones(2).to(device),
        lambda device: torch.ones(2).npu(99),
        lambda device: nn.Linear(2, 2).to(device),
        lambda device: torch.npu.set_device(device),
        lambda device: torch.npu.synchronize(device),
        lambda device: torch.npu.get_device_properties(device),
        lambda device: torch.accelerator.set_device_index(device),
        lambda device: torch.Generator(device),
        lambda device: torch.Stream(device),
        lambda device: torch.npu.Stream(device),
        lambda device: torch.npu.memory_allocated(device),
        lambda device: torch.npu.device(device).__enter__(),
    ],
)
def test_a_device_that_is_not_visible_is_named_with_those_that_are(use):
    with pytest.raises((RuntimeError, ValueError), match=f"npu:99.*{torch.npu.device_count()}"):
        use("npu:99")
    assert torch.npu.current_device() == 0


def test_a_device_is_a_context():
    with torch.device("npu"):
        made = [torch.ones(2), torch.rand(2), torch.tensor([1.0]), torch.arange(3), nn.Linear(2, 2).weight]
        assert torch.ones(2, device="cpu").device.type == "cpu"
        assert torch.as_tensor([1]).is_npu
    assert all(x.device == torch.device("npu:0") for x in made)
    assert torch.ones(2).device.type == "cpu"


@two_devices
def test_a_context_names_its_device():
    with torch.device("npu:1"):
        assert torch.ones(2).device.index == 1
        with torch.device("cpu"):
            assert torch.ones(2).device.type == "cpu"
    with torch.npu.device(1), torch.device("npu"):
        assert torch.ones(2).device.index == 1


def test_the_default_device():
    torch.set_default_device("npu")
    try:
        assert torch.get_default_device().type == "npu"
        assert torch.zeros(2).is_npu
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.LSTM(4, 2))
        optimizer = torch.optim.Adam(net.parameters())
        net(torch.rand(5, 3))[0].sum().backward()
        optimizer.step()
        assert torch.randperm(4).is_npu
        loader = torch.utils.data.DataLoader(range(4), batch_size=2, shuffle=True, generator=torch.Generator("npu"))
        assert sorted(number for batch in loader for number in batch.tolist()) == [0, 1, 2, 3]
    finally:
        torch.set_default_device(None)
    assert torch.zeros(2).device.type == "cpu"


def test_a_module_on_meta_gets_npu_memory_by_to_empty():
    with torch.device("meta"):
        net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    with pytest.raises(NotImplementedError, match="meta tensor"):
        net.npu()
    net.to_empty(device="npu")
    for layer in net:
        layer.reset_parameters()
    assert net(torch.ones(4, 3, device="npu")).is_npu
    assert all(x.is_npu for x in [*net.parameters(), *net.buffers()])


def test_a_module_on_meta_takes_the_tensors_of_a_checkpoint():
    state = {name: value.npu() for name, value in nn.Linear(3, 2).state_dict().items()}
    net = nn.Linear(3, 2, device="meta")
    net.load_state_dict(state, assign=True)
    assert net.weight.data_ptr() == state["weight"].data_ptr()
    assert isinstance(net.weight, nn.Parameter)
    torch.testing.assert_close(net(torch.ones(1, 3, device="npu")), state["weight"].sum(1)[None] + state["bias"])


def test_shapes_are_computed_on_meta():
    x = torch.ones(3, 4, device="npu")
    assert x.to("meta").shape == torch.empty_like(x, device="meta").shape == (3, 4)
    assert torch.zeros_like(x.to("meta"), device="npu").is_npu
