"""torch.npu.set_sync_debug_mode reports calls that wait for the device."""

import pytest
import torch

WAITING = {
    "item": (lambda x: x[0].item(), "aten::_local_scalar_dense"),
    "bool": (lambda x: bool(x[0] > 0), "aten::_local_scalar_dense"),
    "if": (lambda x: 1 if x.sum() > 0 else 2, "aten::_local_scalar_dense"),
    "cpu": (lambda x: x.cpu(), "aten::copy_"),
    "to npu": (lambda x: torch.ones(3).to("npu"), "aten::copy_"),
    "pageable": (lambda x: torch.ones(3).to("npu", non_blocking=True), "not pinned"),
    "copy_": (lambda x: x.copy_(torch.zeros(4)), "aten::copy_"),
    "tolist": (lambda x: x.tolist(), "aten::copy_"),
    "nonzero": (lambda x: x.nonzero(), "aten::nonzero"),
    "mask": (lambda x: x[x > 1], "aten::nonzero"),
    "masked_select": (lambda x: x.masked_select(x > 1), "aten::masked_select"),
    "unique": (lambda x: x.unique(), "aten::_unique2"),
    "unique_consecutive": (lambda x: x.unique_consecutive(), "aten::unique_consecutive"),
    "unique_dim": (lambda x: x.unique(dim=0), "aten::unique_dim"),
    "embedding_bag": (
        lambda x: torch.nn.functional.embedding_bag(torch.ones(1, 2, dtype=torch.long, device="npu"), x.view(2, 2)),
        "aten::_embedding_bag",
    ),
    "stream": (lambda x: torch.npu.current_stream().synchronize(), "Stream.synchronize"),
}
QUIET = {
    "arithmetic": lambda x: (x + 1).sum() * 2,
    "matmul": lambda x: x.view(2, 2) @ x.view(2, 2),
    "pinned": lambda x: torch.ones(3).pin_memory().to("npu", non_blocking=True),
    "to host": lambda x: torch.empty(4, pin_memory=True).copy_(x, non_blocking=True),
    "masked_fill": lambda x: x.masked_fill(x > 1, 0),
    "synchronize": lambda x: torch.npu.synchronize(),
    "event": lambda x: torch.npu.current_stream().record_event().synchronize(),
    "factories": lambda x: torch.zeros(5, device="npu").fill_(3),
}


@pytest.fixture
def x():
    tensor = torch.arange(4.0, device="npu")
    torch.npu.synchronize()
    yield tensor
    torch.npu.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", WAITING)
def test_a_call_that_waits_for_the_device_is_reported(x, name):
    call, words = WAITING[name]
    expected = call(x)
    torch.npu.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=f"{words}.*waits for the device|waits for the device.*{words}"):
        call(x)
    torch.npu.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match="waits for the device"):
        warned = call(x)
    torch.npu.set_sync_debug_mode("default")
    assert torch.equal(warned, expected) if isinstance(expected, torch.Tensor) else warned == expected


@pytest.mark.parametrize("name", QUIET)
def test_a_call_that_does_not_wait_is_not_reported(x, name):
    torch.npu.set_sync_debug_mode(2)
    QUIET[name](x)


def test_item_works_after_it_was_refused(x):
    torch.npu.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError):
        x[2].item()
    torch.npu.set_sync_debug_mode("default")
    assert x[2].item() == 2


def test_the_mode_can_be_read_back(x):
    for number, word in enumerate(["default", "warn", "error"]):
        torch.npu.set_sync_debug_mode(word)
        assert torch.npu.get_sync_debug_mode() == number
        torch.npu.set_sync_debug_mode(number)
        assert torch.npu.utils.get_sync_debug_mode() == number


@pytest.mark.parametrize("wrong", ["loud", 3, -1, None, True, 1.5, 1.0])
def test_another_mode_is_refused(x, wrong):
    with pytest.raises(RuntimeError, match="debug_mode must be"):
        torch.npu.set_sync_debug_mode(wrong)
    assert torch.npu.get_sync_debug_mode() == 0
