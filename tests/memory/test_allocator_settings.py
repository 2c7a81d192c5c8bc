"""PYTORCH_NPU_ALLOC_CONF and torch.npu.memory._set_allocator_settings: the effect of each key, and wrong settings."""

import pytest
import torch

from tests.support import MIB, cached

pytestmark = cached


@pytest.fixture(autouse=True)
def clean(empty_device):
    yield
    torch.npu.memory._set_allocator_settings("per_process_memory_fraction:1")
    torch.npu.empty_cache()


def make(mebibytes):
    return torch.empty(int(mebibytes * MIB), dtype=torch.uint8, device="npu")


def use(text):
    torch.npu.memory._set_allocator_settings(text)


def reserved_by(*sizes):
    """MiB that the allocator reserves for tensors of these sizes in MiB."""
    torch.npu.empty_cache()
    before = torch.npu.memory_reserved()
    held = [make(size) for size in sizes]
    after = torch.npu.memory_reserved()
    del held
    return (after - before) // MIB


def allocated_by(size):
    before = torch.npu.memory_allocated()
    x = make(size)
    after = torch.npu.memory_allocated()
    del x
    return (after - before) / MIB


def test_segment_sizes():
    assert reserved_by(3) == 20
    use("large_segment_size_mb:32")
    assert reserved_by(3) == 32
    use("segment_size_mb:64")
    assert reserved_by(3) == 64
    use("page_size:1g")
    assert reserved_by(3, 100, 0.1) == 1024 + 2
    use("")
    assert reserved_by(3) == 20


def test_sizes_are_rounded_to_powers_of_2():
    assert allocated_by(9) == 9
    use("roundup_power2_divisions:4")
    assert [allocated_by(size) for size in (5, 9, 16, 21)] == [5, 10, 16, 24]
    use("roundup_power2_divisions:[1:1,8:2,16:4,>:8]")
    assert [allocated_by(size) for size in (9, 17, 33)] == [12, 20, 36]


def test_large_blocks_are_not_cut_beyond_the_limit():
    use("max_split_size_mb:40")
    held = make(60)
    assert torch.npu.memory_stats()["oversize_allocations.current"] == 1
    assert torch.npu.memory_stats()["max_split_size"] == 40 * MIB
    address = held.data_ptr()
    del held
    assert make(12).data_ptr() != address
    assert make(50).data_ptr() == address
    use("")
    assert torch.npu.memory_stats()["oversize_allocations.current"] == 0
    assert make(12).data_ptr() != 0
    torch.npu.empty_cache()
    assert torch.npu.memory_stats()["oversize_segments.current"] == 0


def test_large_blocks_are_kept_for_requests_of_about_their_size():
    use("max_split_size_mb:40,max_non_split_rounding_mb:25")
    x = make(100)
    address = x.data_ptr()
    del x
    assert make(70).data_ptr() != address
    torch.npu.empty_cache()
    x = make(100)
    address = x.data_ptr()
    del x
    assert make(80).data_ptr() == address


def test_garbage_is_collected_beyond_the_threshold_oldest_first():
    total = torch.npu.mem_get_info()[1]
    use(f"garbage_collection_threshold:0.5,per_process_memory_fraction:{200 * MIB / total}")
    old = make(40)
    del old
    new = make(50)
    address = new.data_ptr()
    del new
    assert torch.npu.memory_reserved() == 90 * MIB
    third = make(60)  # 150 would exceed 100: both are released, the older first
    assert torch.npu.memory_reserved() == 60 * MIB
    del third
    use(f"garbage_collection_threshold:0.6,per_process_memory_fraction:{200 * MIB / total}")
    torch.npu.empty_cache()
    x, y = make(40), make(50)
    address = y.data_ptr()
    del x
    z = make(60)  # 150 would exceed 120: releasing 40 is enough
    assert torch.npu.memory_reserved() == 110 * MIB
    del y
    assert make(50).data_ptr() == address
    del z


def test_memory_is_limited_to_a_fraction_of_the_device():
    total = torch.npu.mem_get_info()[1]
    use(f"per_process_memory_fraction:{64 * MIB / total}")
    assert torch.npu.get_per_process_memory_fraction() == pytest.approx(64 * MIB / total)
    with pytest.raises(torch.OutOfMemoryError, match=r"64\.00 MiB allowed"):
        make(80)
    assert reserved_by(60) == 60


def test_throw_on_oom_keeps_the_cache():
    total = torch.npu.mem_get_info()[1]
    use(f"throw_on_npumalloc_oom:True,per_process_memory_fraction:{64 * MIB / total}")
    make(40)
    with pytest.raises(torch.OutOfMemoryError):
        make(50)
    assert torch.npu.memory_reserved() == 40 * MIB
    use(f"throw_on_npumalloc_oom:False,per_process_memory_fraction:{64 * MIB / total}")
    make(50)
    assert torch.npu.memory_reserved() == 50 * MIB


@pytest.mark.parametrize("text", ["multi_stream_lazy_reclaim:True", "release_lock_on_npumalloc:True"])
def test_memory_recorded_on_other_streams_is_released(text):
    use(text)
    side = torch.npu.Stream()
    for _ in range(600):
        x = make(0.01)
        x.record_stream(side)
        del x
    side.synchronize()
    torch.npu.empty_cache()
    assert torch.npu.memory_stats()["active.all.current"] == torch.npu.memory_stats()["allocation.all.current"]


def test_reclaim_is_lazy_only_when_asked():
    side = torch.npu.Stream()

    def address_after_free():
        x = make(0.01)
        address = x.data_ptr()
        with torch.npu.stream(side):
            torch.zeros(10, device="npu")
        x.record_stream(side)
        del x
        side.synchronize()
        return address, make(0.01).data_ptr()

    use("multi_stream_lazy_reclaim:True")
    freed, next_one = address_after_free()
    assert freed != next_one
    use("")
    freed, next_one = address_after_free()
    assert freed == next_one


REFUSED = {
    "max_split_size_mb:5": "max_split_size_mb is '5', but must be a whole number of MiB from 20",
    "max_split_size_mb:many": "max_split_size_mb is 'many'",
    "garbage_collection_threshold:1.5": "garbage_collection_threshold is '1.5', but must be a number between 0 and 1",
    "garbage_collection_threshold:0": "between 0 and 1",
    "expandable_segments:yes": "expandable_segments is 'yes', but must be True or False",
    "base_addr_aligned_kb:17": "base_addr_aligned_kb is '17', but must be a whole number from 0 to 16",
    "page_size:2m": "page_size is '2m', but must be 1g",
    "segment_size_mb:1000": "segment_size_mb is '1000', but must be a whole number of MiB from 20 to 512",
    "large_segment_size_mb:10": "large_segment_size_mb is '10', but must be a whole number of MiB from 11",
    "roundup_power2_divisions:3": "roundup_power2_divisions is '3', but must be a power of 2",
    "roundup_power2_divisions:[256:3]": "roundup_power2_divisions",
    "roundup_power2_divisions:[>:4,256:1]": "roundup_power2_divisions",
    "max_non_split_rounding_mb:1": "max_non_split_rounding_mb is '1'",
    "multi_stream_lazy_reclaim:1": "multi_stream_lazy_reclaim is '1'",
    "per_process_memory_fraction:0": "per_process_memory_fraction is '0', but must be a number above 0, up to 1",
    "per_process_memory_fraction:1.1": "per_process_memory_fraction",
    "per_process_memory_fraction:nan": "per_process_memory_fraction",
    "throw_on_npumalloc_oom:no": "throw_on_npumalloc_oom is 'no'",
    "release_lock_on_npumalloc:no": "release_lock_on_npumalloc is 'no'",
    "pinned_use_background_threads:no": "pinned_use_background_threads is 'no'",
    "pin_memory_expandable_segments:no": "pin_memory_expandable_segments is 'no'",
    "pinned_mem_register:no": "pinned_mem_register is 'no'",
    "pinned_reserve_segment_size_mb:-1": "pinned_reserve_segment_size_mb is '-1'",
    "pinned_max_round_threshold_mb:x": "pinned_max_round_threshold_mb is 'x'",
    "pinned_max_cached_size_mb:x": "pinned_max_cached_size_mb is 'x'",
    "max_split_size": "has 'max_split_size', but must be key:value pairs",
    "max_split_size_mb:": "key:value pairs",
    "max_split_mb:30": "unknown key 'max_split_mb'; the keys are max_split_size_mb, ",
    "expandable_segments:True,max_split_size_mb:50": "both expandable_segments and max_split_size_mb",
    "expandable_segments:True,garbage_collection_threshold:0.5": "both expandable_segments and garbage_collection_threshold",
    "pin_memory_expandable_segments:True,pinned_mem_register:True": "both pin_memory_expandable_segments and pinned_mem_register",
    "segment_size_mb:30,large_segment_size_mb:30": "both segment_size_mb and large_segment_size_mb",
}


def test_settings_that_are_no_text_are_refused():
    with pytest.raises(TypeError, match="settings are a text such as 'max_split_size_mb:128', but got None"):
        use(None)


@pytest.mark.parametrize("text", REFUSED)
def test_a_wrong_setting_is_named(text):
    with pytest.raises(ValueError) as caught:
        use(text)
    assert REFUSED[text] in str(caught.value)
    assert reserved_by(3) == 20, "part of it took effect"


def test_a_setting_without_effect_warns_once(child):
    done = child(
        """
        import torch
        for _ in range(2):
            torch.npu.memory._set_allocator_settings("base_addr_aligned_kb:8,pinned_mem_register:True")
        torch.empty(10, device="npu")
        print(torch.npu.memory._snapshot()["allocator_settings"]["expandable_segments"])
        """
    )
    assert done.stdout == "False\n", done.stderr
    for key in ("base_addr_aligned_kb:8", "pinned_mem_register:True"):
        assert done.stderr.count(f"{key} has no effect") == 1, done.stderr


PROGRAM = """
import torch
try:
    torch.empty(3 << 20, dtype=torch.uint8, device="npu")
    print(torch.npu.memory_reserved() >> 20)
except ValueError as error:
    print("ValueError", str(error).splitlines()[0])
"""


def test_settings_are_read_from_the_environment(child):
    assert child(PROGRAM, PYTORCH_NPU_ALLOC_CONF="segment_size_mb:48, multi_stream_lazy_reclaim:True").stdout == "48\n"
    done = child(PROGRAM, PYTORCH_ALLOC_CONF="nothing:9", PYTORCH_NO_NPU_MEMORY_CACHING="1")
    assert done.stdout.startswith("ValueError PYTORCH_ALLOC_CONF has the unknown key 'nothing'"), done.stderr
    done = child(PROGRAM, PYTORCH_NPU_ALLOC_CONF="segment_size_mb:9")
    assert done.stdout.startswith("ValueError PYTORCH_NPU_ALLOC_CONF: segment_size_mb is '9', but must be"), done.stderr


def test_two_environment_variables_for_settings_are_refused(child):
    done = child(PROGRAM, PYTORCH_NPU_ALLOC_CONF="max_split_size_mb:64", PYTORCH_ALLOC_CONF="max_split_size_mb:64")
    assert done.stdout.startswith("ValueError both PYTORCH_NPU_ALLOC_CONF and PYTORCH_ALLOC_CONF are set"), done.stderr


def test_import_reads_no_settings(child):
    done = child("import torch, torch_npu; print(torch.npu.is_initialized())", PYTORCH_NPU_ALLOC_CONF="nothing:9")
    assert done.stdout == "False\n", done.stderr
