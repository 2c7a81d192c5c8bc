"""Work on two streams, ordered and timed by events, with marks for a profiler. Prints the results."""

import json

import torch
import torch.cuda.nvtx as nvtx


def on_streams(x):
    first, second = torch.cuda.Stream(), torch.cuda.Stream(device="cuda:0", priority=-1)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.wait_stream(torch.cuda.current_stream())
    nvtx.range_push("streams")
    with torch.cuda.stream(first):
        assert torch.cuda.current_stream() == first
        begin.record()
        y = x @ x
        done = first.record_event()
    with nvtx.range("second"), torch.cuda.stream(second):
        second.wait_event(done)
        z = y.sin() + 1
        end.record(second)
    nvtx.range_pop()
    torch.cuda.current_stream().wait_stream(second)
    z.record_stream(torch.cuda.current_stream())
    torch.cuda.synchronize()
    assert end.query() and second.query() and begin.elapsed_time(end) >= 0
    assert isinstance(first, torch.cuda.Stream) and isinstance(begin, torch.cuda.Event)
    torch.Stream(device="cuda").synchronize()
    return z


torch.manual_seed(0)
matrix = torch.randn(32, 32) / 8
if torch.cuda.is_available():
    torch.cuda.set_device(0)
    with torch.cuda.device(0), torch.cuda.device("cuda:0"):
        result = on_streams(matrix.cuda(non_blocking=True))
    assert result.is_cuda and result.get_device() == torch.cuda.current_device() == 0
    torch.cuda.empty_cache()
    assert torch.cuda.max_memory_allocated("cuda:0") >= torch.cuda.memory_allocated() > 0
    assert torch.cuda.get_device_properties(torch.device("cuda")).total_memory > 1 << 30
    assert torch.cuda.memory_stats(device=0)["allocation.all.current"] > 0
    major, minor = torch.cuda.get_device_capability()
    torch.cuda.cudart().cudaProfilerStart()
else:
    result = (matrix @ matrix).sin() + 1
print(json.dumps(result.cpu().flatten().tolist()))
