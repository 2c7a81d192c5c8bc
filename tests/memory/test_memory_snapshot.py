"""Memory snapshots and history: their contents, reading by torch.cuda._memory_viz, and switching them off."""

import pickle
import subprocess
import sys
import threading
from collections import Counter

import pytest
import torch
import torch.cuda._memory_viz as viz
import torch_npu

from tests.support import MIB, cached

pytestmark = cached


@pytest.fixture(autouse=True)
def clean(empty_device):
    yield
    torch.npu.memory._record_memory_history(None)


def record(**options):
    torch.npu.memory._record_memory_history(stacks="python", clear_history=True, **options)


def make(size):
    return torch.empty(size, dtype=torch.uint8, device="npu")


def block_of(tensor):
    blocks = [block for segment in torch.npu.memory_snapshot() for block in segment["blocks"]]
    (found,) = [block for block in blocks if block["address"] == tensor.data_ptr()]
    return found


def actions(trace):
    return [entry["action"] for entry in trace]


def names(frames):
    return [frame["name"] for frame in frames]


def test_segments_and_blocks_add_up_to_the_statistics():
    held = [make(size) for size in (100, 5000, 3 * MIB, 30 * MIB)]
    side = torch.npu.Stream()
    with torch.npu.stream(side):
        held.append(make(7000))
    del held[1]
    segments = torch.npu.memory_snapshot()
    stats = torch.npu.memory_stats()
    for segment in segments:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address
            assert block["frames"] == []
            address += block["size"]
    assert sum(segment["total_size"] for segment in segments) == stats["reserved_bytes.all.current"]
    assert sum(segment["allocated_size"] for segment in segments) == stats["allocated_bytes.all.current"]
    assert sum(segment["active_size"] for segment in segments) == stats["active_bytes.all.current"]
    assert sum(segment["requested_size"] for segment in segments) == stats["requested_bytes.all.current"]
    assert len(segments) == stats["segment.all.current"]
    assert {segment["segment_type"] for segment in segments} == {"small", "large"}
    assert {segment["stream"] for segment in segments} >= {0, side.npu_stream}
    assert block_of(held[0])["requested_size"] == 100
    assert block_of(held[0])["state"] == "active_allocated"


def test_memory_that_another_stream_uses_is_pending():
    side = torch.npu.Stream()
    x, y = make(4096), torch.zeros(1 << 20, device="npu")
    address = x.data_ptr()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        for _ in range(200):
            y.exp_()
    x.record_stream(side)
    del x
    states = {b["address"]: b["state"] for s in torch.npu.memory_snapshot() for b in s["blocks"]}
    assert states[address] in ("active_pending_free", "inactive")  # the stream may have finished
    side.synchronize()
    torch.npu.empty_cache()
    assert all(b["state"] != "active_pending_free" for s in torch.npu.memory_snapshot() for b in s["blocks"])


def allocate_here():
    return make(123_456)


def test_live_memory_has_the_stack_of_its_allocation():
    record(enabled="state")
    x = allocate_here()
    assert names(block_of(x)["frames"])[:3] == ["make", "allocate_here", "test_live_memory_has_the_stack_of_its_allocation"]
    assert block_of(x)["frames"][0]["filename"] == __file__
    assert torch.npu.memory._snapshot()["device_traces"][0] == []
    del x
    assert all(b["frames"] == [] for s in torch.npu.memory_snapshot() for b in s["blocks"] if b["state"] == "inactive")


def test_the_trace_lists_events_in_order():
    record()
    x = allocate_here()
    address = x.data_ptr()
    del x
    torch.npu.empty_cache()
    with pytest.raises(torch.OutOfMemoryError):
        make(1 << 50)
    snapshot = torch.npu.memory._snapshot()
    trace = snapshot["device_traces"][0]
    assert actions(trace) == ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free", "oom", "snapshot"]
    assert all(entry["addr"] == address and entry["size"] == 123_456 for entry in trace[1:4])
    assert trace[0]["size"] == trace[4]["size"] == 2 * MIB
    assert trace[5]["size"] == 1 << 50
    assert "device_free" in trace[5]
    assert names(trace[1]["frames"])[:2] == ["make", "allocate_here"]
    assert names(trace[2]["frames"])[0] == "test_the_trace_lists_events_in_order"
    assert [entry["time_us"] for entry in trace] == sorted(entry["time_us"] for entry in trace)
    assert len(snapshot["device_traces"]) == torch.npu.device_count()
    assert snapshot["segments"] == [s for s in snapshot["segments"] if s["device"] == 0]


@pytest.mark.parametrize(
    ("context", "of_live", "of_alloc", "of_free"),
    [(None, 0, 0, 0), ("state", 1, 0, 0), ("alloc", 1, 1, 1), ("all", 1, 1, 1)],
)
def test_the_context_option_chooses_the_recorded_stacks(context, of_live, of_alloc, of_free):
    record(context=context)
    x, y = allocate_here(), allocate_here()
    del y
    snapshot = torch.npu.memory._snapshot()
    first = {entry["action"]: entry for entry in reversed(snapshot["device_traces"][0])}
    assert bool(block_of(x)["frames"]) == of_live
    assert bool(first["alloc"]["frames"]) == of_alloc
    assert bool(first["free_requested"]["frames"]) == of_free  # with "alloc": the stack of the allocation
    if context == "alloc":
        assert names(first["free_requested"]["frames"])[0] == "make"


def test_the_history_can_be_bounded_cleared_and_disabled():
    record(max_entries=3)
    for size in (1000, 2000, 3000):
        make(size)
    trace = torch.npu.memory._snapshot()["device_traces"][0]
    assert [(e["action"], e["size"]) for e in trace] == [("free_requested", 3000), ("free_completed", 3000), ("snapshot", 0)]
    torch.npu.memory._record_memory_history(stacks="python")
    assert len(torch.npu.memory._snapshot()["device_traces"][0]) == 4
    record()
    assert actions(torch.npu.memory._snapshot()["device_traces"][0]) == ["snapshot"]
    torch.npu.memory._record_memory_history(None)
    make(10)
    assert torch.npu.memory._snapshot()["device_traces"][0] == []


def test_the_older_arguments_work():
    torch.npu.memory._record_memory_history(True, trace_alloc_max_entries=100, trace_alloc_record_context=True)
    x = allocate_here()
    trace = torch.npu.memory._snapshot(device="npu:0")["device_traces"][0]
    assert names(next(e for e in trace if e["action"] == "alloc")["frames"])[0] == "make"
    assert names(block_of(x)["frames"])[0] == "make"
    torch.npu.memory._record_memory_history(False)
    assert torch.npu.memory._snapshot()["device_traces"][0] == []


def test_bad_arguments_are_named():
    for wrong in ({"enabled": "most"}, {"context": "free"}, {"stacks": "cpp"}, {"max_entries": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            torch.npu.memory._record_memory_history(**wrong)


def test_threads_are_recorded_each_with_its_stack():
    record()

    def work(count):
        for _ in range(count):
            allocate_here()

    threads = [threading.Thread(target=work, args=(200,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trace = torch.npu.memory._snapshot()["device_traces"][0]
    counts = Counter(actions(trace))
    assert counts["alloc"] == counts["free_requested"] == counts["free_completed"] == 800
    assert all("allocate_here" in names(entry["frames"]) for entry in trace if entry["action"] == "alloc")


def test_replaying_the_trace_gives_the_live_memory():
    record()
    x, w = torch.ones(300, 300, device="npu", requires_grad=True), torch.ones(300, 300, device="npu")
    for _ in range(3):
        (x @ w).relu().sum().backward()
    snapshot = torch.npu.memory._snapshot()
    live = {}
    for entry in snapshot["device_traces"][0]:
        if entry["action"] == "alloc":
            assert entry["addr"] not in live
            live[entry["addr"]] = entry["size"]
        elif entry["action"] == "free_completed":
            live.pop(entry["addr"], None)
    blocks = {b["address"]: b["requested_size"] for s in snapshot["segments"] for b in s["blocks"] if b["state"] != "inactive"}
    assert live.items() <= blocks.items()
    assert {x.data_ptr(), w.data_ptr(), x.grad.data_ptr()} <= live.keys()


def test_torch_cuda_memory_viz_reads_a_snapshot(tmp_path):
    record()
    kept = [allocate_here() for _ in range(3)]
    del kept[1]
    file, out = tmp_path / "memory.pickle", tmp_path / "out"
    torch.npu.memory._dump_snapshot(str(file))
    with file.open("rb") as stream:
        snapshot = pickle.load(stream)
    assert "segments: 1" in viz.segsum(snapshot)
    assert "7 entries" in viz.trace(snapshot)
    for flame_graph in (viz.segments, viz.memory):
        assert "allocate_here" in flame_graph(snapshot, format_flamegraph=str)
    assert "<script" in viz.segment_plot(snapshot)
    command = [sys.executable, "-m", "torch.cuda._memory_viz", "trace_plot", file, "-o", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "<script" in out.read_text()


def test_out_of_memory_writes_a_snapshot_on_request(child, tmp_path):
    program = """
        import os, torch
        x = torch.empty(1000, device="npu")
        os.chdir("/")
        try:
            torch.empty(1 << 50, dtype=torch.uint8, device="npu")
        except torch.OutOfMemoryError:
            print(os.getpid())
        """
    done = child(program, OOM_SNAPSHOT_ENABLE="1", OOM_SNAPSHOT_PATH=str(tmp_path))
    (file,) = tmp_path.iterdir()
    assert file.name.startswith(f"oom_snapshot_{done.stdout.strip()}_"), done.stderr
    with file.open("rb") as stream:
        snapshot = pickle.load(stream)
    assert actions(snapshot["device_traces"][0]) == ["segment_alloc", "alloc", "oom", "snapshot"]
    assert snapshot["segments"][0]["requested_size"] == 4000
    done = child(program, OOM_SNAPSHOT_ENABLE="2", OOM_SNAPSHOT_PATH=str(tmp_path / "nowhere"))
    assert done.stdout.strip().isdigit()
    assert "could not be written" in done.stderr


def test_out_of_memory_calls_the_observers():
    seen = []
    torch_npu._C._npu_attach_out_of_memory_observer(lambda *event: seen.append(event))
    with pytest.raises(torch.OutOfMemoryError):
        make(1 << 50)
    total = torch.npu.mem_get_info()[1]
    assert len(seen) == 1
    device, requested, capacity, left = seen[0]
    assert (device, requested, capacity) == (0, 1 << 50, total)
    assert 0 < left <= total
