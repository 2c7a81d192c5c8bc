"""expandable_segments:True: segments grow in place and are released page by page; all else is as without it."""

import gc
import pickle
import random
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

from tests.held_stream import HeldStream
from tests.support import MIB, cached

pytestmark = cached


@pytest.fixture
def expandable(empty_device):
    torch.npu.memory._set_allocator_settings("expandable_segments:True")
    yield
    gc.collect()
    torch.npu.synchronize()
    torch.npu.empty_cache()
    torch.npu.memory._set_allocator_settings("expandable_segments:False")


def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="npu")


def holds(block, value):
    return bool((block == value).all())


def segments():
    return [segment for segment in torch.npu.memory_snapshot() if segment["is_expandable"]]


def sizes():
    return [segment["total_size"] // MIB for segment in segments()]


def test_a_freed_block_grows_in_place(expandable):
    x = take(30)
    address = x.data_ptr()
    assert sizes() == [40]
    del x
    y = take(70)
    assert y.data_ptr() == address
    assert sizes() == [80]
    assert torch.npu.memory_reserved() == 80 * MIB
    stats = torch.npu.memory_stats()
    assert (stats["segment.all.current"], stats["num_device_alloc"] >= 4) == (1, True)


def test_blocks_lie_side_by_side(expandable):
    blocks = [take(15) for _ in range(4)]
    assert {b.data_ptr() - blocks[0].data_ptr() for b in blocks} == {0, 15 * MIB, 30 * MIB, 45 * MIB}
    assert sizes() == [60]


def test_empty_cache_gives_back_whole_pages(expandable):
    blocks = [take(30) for _ in range(4)]
    start = blocks[0].data_ptr()
    blocks[0].fill_(1)
    blocks[3].fill_(3)
    del blocks[1:3]
    torch.npu.empty_cache()
    assert sizes() == [40, 40]  # 30 in use and 10 free, 10 free and 30 in use
    assert [s["address"] - start for s in segments()] == [0, 80 * MIB]
    assert torch.npu.memory_reserved() == 80 * MIB
    assert holds(blocks[0], 1) and holds(blocks[1], 3)
    middle = take(60)  # fills the gap, which joins the two ranges
    assert middle.data_ptr() - start == 30 * MIB
    assert sizes() == [120]
    middle.fill_(2)
    assert holds(blocks[0], 1) and holds(blocks[1], 3) and holds(middle, 2)
    del blocks, middle
    torch.npu.empty_cache()
    assert sizes() == []
    assert torch.npu.memory_reserved() == 0


def test_segments_too_large_to_cut_are_counted_right_after_the_settings_change(expandable):
    torch.npu.memory._set_allocator_settings("max_split_size_mb:25")
    blocks = [take(30) for _ in range(6)]
    assert torch.npu.memory_stats()["oversize_segments.current"] == 6
    del blocks
    torch.npu.empty_cache()
    torch.npu.memory._set_allocator_settings("expandable_segments:True")
    blocks = [take(30) for _ in range(4)]
    del blocks[1:3]
    torch.npu.empty_cache()
    assert sizes() == [40, 40]
    assert torch.npu.memory_stats()["oversize_segments.current"] == 0


def test_small_requests_have_segments_of_fixed_size(expandable):
    x = torch.ones(3, device="npu")
    assert sizes() == []
    assert torch.npu.memory_reserved() == 2 * MIB
    assert x.tolist() == [1, 1, 1]


def test_what_operators_compute_is_the_same(expandable):
    def step(device):
        torch.manual_seed(0)
        x = torch.randn(600, 600).to(device)
        for _ in range(3):
            x = torch.nn.functional.relu(x @ x.t() / 600).cumsum(0)[:-100]
            x = torch.cat([x, x[:100]]) if x.shape[0] != x.shape[1] else x
            x = x @ x.t() if x.shape[0] != 600 else x
            x = x / x.abs().max()
        return x.cpu()

    torch.testing.assert_close(step("npu"), step("cpu"), rtol=1e-4, atol=1e-5)


def test_out_of_memory_releases_unused_pages_and_then_raises(expandable):
    torch.npu.set_per_process_memory_fraction(120 * MIB / torch.npu.mem_get_info()[1])
    try:
        blocks = [take(30) for _ in range(3)]
        with pytest.raises(torch.OutOfMemoryError):
            take(50)
        del blocks[0]  # its first page is then unused
        retries = torch.npu.memory_stats()["num_alloc_retries"]
        assert take(50).numel() == 50 * MIB
        assert torch.npu.memory_stats()["num_alloc_retries"] == retries + 1
        assert torch.npu.memory_reserved() == 120 * MIB
        with pytest.raises(torch.OutOfMemoryError):
            take(90)
    finally:
        torch.npu.set_per_process_memory_fraction(1.0)


def test_streams_have_memory_of_their_own(expandable):
    x = take(30)
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        y = take(30)
    assert len(segments()) == 2
    address = y.data_ptr()
    with HeldStream():
        y.record_stream(torch.npu.current_stream())
        del y
        with torch.npu.stream(stream):
            assert take(25).data_ptr() != address, "the current stream may still use it"
    assert x.numel() == 30 * MIB


def test_the_history_names_what_is_mapped(expandable):
    torch.npu.memory._record_memory_history(stacks="python", max_entries=100)
    try:
        x = take(30)
        del x
        torch.npu.empty_cache()
        actions = [(event["action"], event["size"] // MIB) for event in torch.npu.memory._snapshot()["device_traces"][0]]
    finally:
        torch.npu.memory._record_memory_history(None)
    assert ("segment_map", 40) in actions
    assert ("segment_unmap", 40) in actions


def test_expandable_memory_is_shared_with_other_processes(expandable):
    x = torch.arange(12 * MIB, dtype=torch.int32, device="npu")  # three pages
    sent = bytes(ForkingPickler.dumps(x[5:]))
    expected = x.cpu()[5:]
    del x
    assert torch.equal(pickle.loads(sent).cpu(), expected)
    torch.npu.ipc_collect()


@pytest.mark.parametrize("seed", range(3))
def test_statistics_stay_consistent_under_random_use(expandable, seed):
    choose = random.Random(seed)
    held = []
    for step in range(150):
        if held and choose.random() < 0.5:
            x, value = held.pop(choose.randrange(len(held)))
            assert x[:: 64 * 1024].eq(value).all()
        else:
            held.append((take(choose.choice([1, 2, 5, 15, 33])).fill_(step % 200), step % 200))
        x = None
        if choose.random() < 0.15:
            torch.npu.empty_cache()
    for x, value in held:
        assert x[:: 64 * 1024].eq(value).all()
    snapshot = torch.npu.memory_snapshot()
    assert sum(segment["total_size"] for segment in snapshot) == torch.npu.memory_reserved()
    assert sum(segment["allocated_size"] for segment in snapshot) == torch.npu.memory_allocated()
    assert len(snapshot) == torch.npu.memory_stats()["segment.all.current"]
    for segment in snapshot:
        ends = [block["address"] + block["size"] for block in segment["blocks"]]
        assert [block["address"] for block in segment["blocks"]] == [segment["address"], *ends[:-1]]
    del x, held
    torch.npu.empty_cache()
    assert torch.npu.memory_allocated() == torch.npu.memory_reserved() == 0
    stats = torch.npu.memory_stats()
    assert stats["inactive_split.all.current"] == stats["inactive_split_bytes.all.current"] == stats["segment.all.current"] == 0


def test_expandable_segments_are_enabled_by_the_environment(python):
    done = python(
        """
        import torch
        x = torch.ones(1 << 20, device="npu")
        print(torch.npu.memory_snapshot()[0]["is_expandable"], x.sum().item())
        """,
        PYTORCH_NPU_ALLOC_CONF="expandable_segments:True",
    )
    assert (done.stdout, done.stderr) == ("True 1048576.0\n", "")
