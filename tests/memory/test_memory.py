"""The caching allocator as a user sees it: statistics, reuse, streams, limits, and being out of memory."""

import itertools
import random
import re
import threading

import pytest
import torch

from tests.support import CACHED, MIB, TORCH, cached

UNIT = 512 if CACHED else 1


@pytest.fixture(autouse=True)
def clean(empty_device):
    torch.npu.reset_peak_memory_stats()
    torch.npu.reset_accumulated_memory_stats()


def test_tensors_are_counted():
    before = torch.npu.memory_allocated()
    x = torch.empty(4 * MIB, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_allocated() == before + 4 * MIB
    assert torch.npu.memory_reserved() >= torch.npu.memory_allocated()
    del x
    assert torch.npu.memory_allocated() == before
    assert torch.npu.max_memory_allocated() == before + 4 * MIB
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() == before
    assert torch.accelerator.memory_allocated() == before


@cached
def test_freed_memory_is_kept_and_given_back_on_request():
    x = torch.empty(32 * MIB, dtype=torch.uint8, device="npu")
    address = x.data_ptr()
    reserved = torch.npu.memory_reserved()
    del x
    assert torch.npu.memory_reserved() == reserved
    assert torch.empty(32 * MIB, dtype=torch.uint8, device="npu").data_ptr() == address
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() < reserved


def test_statistics_have_the_names_of_cuda():
    torch.empty(100, device="npu")
    stats = torch.npu.memory_stats()
    assert {"allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "requested_bytes"} <= {
        name.split(".")[0] for name in stats
    }
    nested = torch.npu.memory_stats_as_nested_dict()
    assert stats["allocation.all.allocated"] == nested["allocation"]["all"]["allocated"] >= 1
    assert stats["allocated_bytes.small_pool.allocated"] >= 400
    assert stats["num_ooms"] == 0


def test_the_summary_is_a_table():
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="npu")
    full, short = torch.npu.memory_summary(), torch.npu.memory_summary("npu:0", abbreviated=True)
    assert "PyTorch NPU memory summary, device ID 0" in full.splitlines()[1]
    assert "NPU OOMs: 0" in full
    assert "from large pool" in full
    assert "from large pool" not in short
    assert re.search(r"\| Allocated memory +\| +3072 KiB \|", short)
    assert re.search(r"\| Oversize allocations +\| +0 +\|", full)
    assert {len(line) for line in full.splitlines()} == {77}
    del x


def test_free_memory_shrinks_with_what_is_reserved():
    free, total = torch.npu.mem_get_info()
    x = torch.empty(64 * MIB, dtype=torch.uint8, device="npu")
    assert torch.npu.mem_get_info()[0] <= free
    assert torch.npu.mem_get_info()[1] == total
    del x


def test_too_much_memory_is_an_error_with_numbers_and_the_process_goes_on():
    total = torch.npu.mem_get_info()[1]
    keep = torch.ones(1000, device="npu")
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(2 * total, dtype=torch.uint8, device="npu")
    for part in (
        "Tried to allocate",
        "(NPU 0; ",
        "total capacity; ",
        "already allocated; ",
        "current active; ",
        " free; ",
        "reserved in total",
        "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
    ):
        assert part in str(caught.value)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 60, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_stats()["num_ooms"] >= 1
    assert (keep + 1).sum().item() == 2000


@cached
def test_the_cache_is_emptied_before_out_of_memory_is_raised(child):
    done = child(
        """
        import torch
        held = [torch.empty(20 << 20, dtype=torch.uint8, device="npu") for _ in range(5)]
        del held
        torch.empty(100 << 20, dtype=torch.uint8, device="npu")
        print(torch.npu.memory_stats()["num_alloc_retries"], torch.npu.memory_stats()["num_ooms"])
        """,
        SOFTNPU_DEVICE_MEMORY="128M",
    )
    assert done.stdout == "1 0\n", done.stderr


def test_a_process_may_be_limited_to_a_share():
    torch.npu.set_per_process_memory_fraction(0.01)
    try:
        with pytest.raises(torch.OutOfMemoryError, match=r"MiB allowed; .* reserved in total"):
            torch.empty(torch.npu.mem_get_info()[1] // 50, dtype=torch.uint8, device="npu")
    finally:
        torch.npu.set_per_process_memory_fraction(1.0)
    assert torch.npu.get_per_process_memory_fraction() == 1.0
    for wrong in (-0.1, 1.5):
        with pytest.raises((RuntimeError, ValueError), match="fraction"):
            torch.npu.set_per_process_memory_fraction(wrong)


def test_memory_of_another_stream_is_not_reused_before_it_is_done():
    side = torch.npu.Stream()
    x = torch.zeros(4 * MIB, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(side):
        for _ in range(20):
            x.add_(1)
        x.record_stream(side)
        copy = x.clone()
    del x
    y = torch.full((4 * MIB,), -1.0, device="npu")
    torch.npu.synchronize()
    assert copy[0].item() == copy[-1].item() == 20
    assert y.sum().item() == -4 * MIB


def test_random_use_matches_a_model():
    """Tensors are allocated, filled, recorded on streams and freed at random. No value changes, and the statistics agree."""
    choose = random.Random(0)
    streams = [torch.npu.default_stream(), torch.npu.Stream(), torch.npu.Stream(priority=-1)]
    before = torch.npu.memory_allocated()
    live = {}
    for step in range(400):
        action = choose.random()
        if action < 0.55 or not live:
            elements = choose.choice([0, 1, 100, 5000, 300_000, 700_000])
            stream = choose.choice(streams)
            with torch.npu.stream(stream):
                live[step] = (torch.full((elements,), step, dtype=torch.int32, device="npu"), stream)
        elif action < 0.7:
            tensor, _ = live[choose.choice(list(live))]
            tensor.record_stream(choose.choice(streams))
        else:
            value = choose.choice(list(live))
            tensor, stream = live.pop(value)
            with torch.npu.stream(stream):
                assert (tensor == value).all().item()
            del tensor
        if step % 100 == 99:
            torch.npu.empty_cache()
    torch.npu.synchronize()
    spans = sorted((tensor.data_ptr(), tensor.nbytes) for tensor, _ in live.values() if tensor.nbytes)
    assert all(start + size <= following for (start, size), (following, _) in itertools.pairwise(spans))
    rounded = sum(-(-size // UNIT) * UNIT for _, size in spans)
    assert torch.npu.memory_allocated() - before >= rounded
    assert torch.npu.memory_stats()["requested_bytes.all.current"] >= sum(size for _, size in spans)
    for value, (tensor, _) in live.items():
        assert (tensor == value).all().item()
    live.clear()
    del tensor
    torch.npu.synchronize()
    torch.npu.empty_cache()
    assert torch.npu.memory_allocated() == before


def test_memory_for_other_libraries_is_freed_by_its_address():
    before = torch.npu.memory_allocated()
    address = torch.npu.caching_allocator_alloc(5000)
    assert torch.npu.memory_allocated() == before + -(-5000 // UNIT) * UNIT
    torch.npu.caching_allocator_delete(address)
    assert torch.npu.memory_allocated() == before
    with pytest.raises(ValueError, match="caching_allocator_alloc"):
        torch.npu.caching_allocator_delete(address)
    assert torch.npu.caching_allocator_alloc(0) == 0
    torch.npu.caching_allocator_delete(0)
    for wrong in (-1, 1.5):
        with pytest.raises(ValueError, match="size must be"):
            torch.npu.caching_allocator_alloc(wrong)


@cached
def test_memory_for_other_libraries_belongs_to_the_stream_that_is_named():
    side = torch.npu.Stream()
    address = torch.npu.caching_allocator_alloc(5000, device="npu:0", stream=side)
    torch.npu.caching_allocator_delete(address)
    assert torch.empty(5000, dtype=torch.uint8, device="npu").data_ptr() != address
    with torch.npu.stream(side):
        assert torch.npu.caching_allocator_alloc(5000, stream=side.npu_stream) == address
        torch.npu.caching_allocator_delete(address)
        assert torch.empty(5000, dtype=torch.uint8, device="npu").data_ptr() == address
    with pytest.raises(TypeError, match="stream must be"):
        torch.npu.caching_allocator_alloc(1, stream="side")
    with pytest.raises(ValueError, match="npu:1"):
        torch.npu.caching_allocator_alloc(1, device=1, stream=side)


@cached
def test_caching_can_be_switched_off():
    torch.npu.memory.caching_allocator_enable(False)
    try:
        reserved, free = torch.npu.memory_reserved(), torch.npu.mem_get_info()[0]
        x = torch.full((30 * MIB,), 3, dtype=torch.uint8, device="npu")
        assert torch.npu.memory_reserved() == reserved
        assert torch.npu.mem_get_info()[0] <= free - 30 * MIB
        assert x[-1].item() == 3
    finally:
        torch.npu.memory.caching_allocator_enable()
    y = torch.empty(30 * MIB, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_reserved() == reserved + 30 * MIB
    del x, y
    torch.npu.synchronize()
    torch.npu.empty_cache()
    assert torch.npu.mem_get_info()[0] >= free
    with pytest.raises(TypeError, match="True or False"):
        torch.npu.memory.caching_allocator_enable("no")


@cached
def test_caching_is_off_within_a_context():
    reserved = torch.npu.memory_reserved()
    with torch.npu.caching_allocator_disabled():
        with torch.npu.caching_allocator_disabled():
            pass
        x = torch.full((30 * MIB,), 3, dtype=torch.uint8, device="npu")
        assert torch.npu.memory_reserved() == reserved
    y = torch.empty(30 * MIB, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_reserved() == reserved + 30 * MIB
    del x, y


def test_pinned_memory_is_counted():
    torch.npu.host_empty_cache()
    torch.npu.reset_peak_host_memory_stats()
    torch.npu.reset_accumulated_host_memory_stats()
    before = torch.npu.host_memory_stats()
    x = torch.empty(MIB, dtype=torch.uint8).pin_memory()
    now = torch.npu.host_memory_stats()
    assert now["active_requests.current"] == before["active_requests.current"] + 1
    assert now["active_bytes.current"] == before["active_bytes.current"] + MIB
    assert now["allocated_bytes.allocated"] == MIB
    assert now["num_host_alloc"] == 1
    del x
    nested = torch.npu.host_memory_stats_as_nested_dict()
    if TORCH >= (2, 13):  # older versions count it as active until it is used again
        assert nested["active_bytes"]["current"] == before["active_bytes.current"]
    assert nested["active_bytes"]["peak"] >= MIB
    torch.npu.host_empty_cache()
    assert torch.npu.host_memory_stats()["num_host_free"] >= 1
    torch.npu.reset_accumulated_host_memory_stats()
    assert torch.npu.host_memory_stats()["allocated_bytes.allocated"] == 0
    torch.npu.reset_peak_host_memory_stats()
    assert torch.npu.host_memory_stats()["active_bytes.peak"] == before["active_bytes.current"]


def test_torch_accelerator_reports_the_same_statistics():
    x = torch.empty(5 * MIB, dtype=torch.uint8, device="npu")
    assert torch.accelerator.memory_allocated() == torch.npu.memory_allocated() >= 5 * MIB
    assert torch.accelerator.memory_reserved() == torch.npu.memory_reserved()
    assert torch.accelerator.max_memory_allocated() == torch.npu.max_memory_allocated()
    ours, theirs = torch.npu.memory_stats(), torch.accelerator.memory_stats()
    assert {name: ours[name] for name in theirs if name in ours} == {n: theirs[n] for n in theirs if n in ours}
    assert len(theirs.keys() - ours.keys()) == 0
    del x
    torch.accelerator.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() == torch.npu.memory_allocated()
    torch.accelerator.reset_accumulated_memory_stats()
    assert torch.npu.memory_stats()["allocation.all.allocated"] == 0
    torch.accelerator.empty_cache()
    assert torch.accelerator.get_memory_info() == torch.npu.mem_get_info()


def test_allocations_of_several_threads_are_counted_exactly():
    torch.npu.reset_accumulated_memory_stats()
    before = torch.npu.memory_stats()["allocation.all.current"]

    def work():
        for _ in range(500):
            torch.empty(1000, dtype=torch.uint8, device="npu")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.npu.synchronize()
    stats = torch.npu.memory_stats()
    assert stats["allocation.all.current"] == before
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 2000
    assert stats["requested_bytes.all.allocated"] == 2_000_000


def test_deprecated_names_of_memory_functions_work():
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_cached() == torch.npu.memory_reserved()
    del x
    torch.npu.reset_max_memory_allocated()
    torch.npu.reset_max_memory_cached()
    assert torch.npu.max_memory_cached() == torch.npu.memory_reserved()
    assert torch.npu.max_memory_allocated() == torch.npu.memory_allocated()
    torch.npu.empty_virt_addr_cache()


def test_out_of_memory_error_has_the_name_of_torch_cuda():
    with pytest.raises(torch.npu.OutOfMemoryError):
        torch.empty(1 << 50, device="npu")
    assert torch.npu.OutOfMemoryError is torch.cuda.OutOfMemoryError


def test_a_share_that_is_no_number_is_named():
    with pytest.raises(TypeError, match="fraction must be a number from 0 to 1, but got 'half'"):
        torch.npu.set_per_process_memory_fraction("half")
