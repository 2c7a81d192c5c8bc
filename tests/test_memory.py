"""The caching allocator as a user sees it: statistics, reuse, streams, limits, and being out of memory."""

import gc
import itertools
import os
import random

import pytest
import torch

MIB = 1 << 20

# Checked memory is not cached; see test_memory_check.py.
CACHED = os.environ.get("SOFTNPU_MEMORY_CHECK", "none") in ("", "none")
UNIT = 512 if CACHED else 1
cached = pytest.mark.skipif(not CACHED, reason="SOFTNPU_MEMORY_CHECK is set: memory is not cached")


@pytest.fixture(autouse=True)
def clean():
    gc.collect()  # what a failed test left
    torch.npu.synchronize()
    torch.npu.empty_cache()
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
    assert full.startswith("Memory of npu:0: 0 times out of memory")
    assert "large pool" in full
    assert "large pool" not in short
    assert "3.0 MiB" in short
    assert len({len(line) for line in full.splitlines()[1:]}) == 1
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
    for part in ("Tried to allocate", "total capacity of", "is free", "reserved by PyTorch but unallocated"):
        assert part in str(caught.value)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 60, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_stats()["num_ooms"] >= 1
    assert (keep + 1).sum().item() == 2000


@cached
def test_the_cache_is_given_up_before_memory_runs_out(python, tmp_path):
    done = python(
        """
        import torch
        held = [torch.empty(20 << 20, dtype=torch.uint8, device="npu") for _ in range(5)]
        del held
        torch.empty(100 << 20, dtype=torch.uint8, device="npu")
        print(torch.npu.memory_stats()["num_alloc_retries"], torch.npu.memory_stats()["num_ooms"])
        """,
        SOFTNPU_DEVICE_MEMORY="128M",
        SOFTNPU_LEDGER_DIR=str(tmp_path),  # other processes use the same device
    )
    assert done.stdout == "1 0\n", done.stderr


def test_a_process_may_be_limited_to_a_share():
    torch.npu.set_per_process_memory_fraction(0.01)
    try:
        with pytest.raises(torch.OutOfMemoryError, match="allowed for this process"):
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
    """Tensors taken, filled, recorded on streams and freed at random: nobody's values change, and the books balance."""
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
