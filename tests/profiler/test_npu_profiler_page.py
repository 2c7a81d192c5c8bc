"""The page of the advisor in a browser, traces in HolisticTraceAnalysis, and a million events."""

import importlib.util
import json
import os
import sys

import pytest
import torch
from torch_npu import profiler
from torch_npu.profiler import advise
from torch_npu.profiler.folder import read_any
from torch_npu.profiler.records import Call, Operator, Records, Step, Task, write_raw

from tests.browser import filter_rows, open_page, sort_rows, texts


def train(steps, prof=None, batch=None):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        if batch is not None:
            batch.npu()
        loss = model(torch.ones(16, 64, device="npu").t().contiguous().t()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        if prof is not None:
            prof.step()


@pytest.mark.full
def test_a_browser_shows_the_page(browser, tmp_path, capsys):
    handler = profiler.tensorboard_trace_handler(str(tmp_path), "me", analyse_flag=False)
    with profiler.profile(with_stack=True, on_trace_ready=handler):
        train(3)
    page = tmp_path / "advice.html"
    assert advise.main([str(tmp_path), "--json", "--html", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert open_page(browser, page)["findings"] == found
    assert browser.title == "Profile"
    titles = [title for title in texts(browser, "h2") if title]
    assert titles == ["Findings", "Timeline", "Flame graph", "Kernels", "Operators"]
    bars = "return [...document.querySelectorAll('svg.{} rect')].filter(r => r.getBoundingClientRect().width > 0).length"
    assert browser.execute_script(bars.format("timeline")) > 20 and browser.execute_script(bars.format("flame")) > 5
    assert any("aclnn" in text for text in texts(browser, "svg.timeline title"))
    rows, shown = filter_rows(browser, -1, "addmm")
    assert 0 < shown < rows
    counts = [int(text) for text in sort_rows(browser, -1, 1)]
    assert counts == sorted(counts) and counts[0] < counts[-1]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["torch", "torch_npu"])
def test_holistic_trace_analysis_reads_a_trace(kind, tmp_path):
    if importlib.util.find_spec("hta") is None:
        pytest.skip("needs HolisticTraceAnalysis: pip install --group full")
    from hta.trace_analysis import TraceAnalysis

    both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=3, repeat=1)
    if kind == "torch":
        handler = torch.profiler.tensorboard_trace_handler(str(tmp_path / "traces"), "rank0")
        made = torch.profiler.profile(activities=both, schedule=schedule, on_trace_ready=handler)
    else:
        handler = profiler.tensorboard_trace_handler(str(tmp_path / "traces"), "rank0")
        made = profiler.profile(schedule=schedule, on_trace_ready=handler)
    # The tool adds times since a distant origin in float64 and asserts that copies take some time. Its sums are off by some
    # microseconds, so the copies must take longer than that.
    with made as prof:
        train(4, prof, batch=torch.ones(1 << 20))
    [trace] = [*(tmp_path / "traces").glob("*.json"), *(tmp_path / "traces").glob("*/*/trace_view.json")]
    analysis = TraceAnalysis(trace_files={0: str(trace)}, trace_dir=str(trace.parent))
    times = analysis.get_temporal_breakdown(visualize=False)
    assert float(times["compute_time(us)"][0]) > 0 and float(times["idle_time(us)"][0]) > 0
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=5)
    assert "COMPUTATION" in set(kinds["kernel_type"]) and any("aclnn" in name for name in kernels["name"])


MILLION = """
    import resource, sys, time
    from pathlib import Path
    import torch_npu
    from torch_npu.profiler.experimental_config import _ExperimentalConfig
    from torch_npu.profiler.folder import read_any, write_output
    begin = time.monotonic()
    folder = Path(sys.argv[1])
    write_output(folder, read_any(folder), _ExperimentalConfig(), ["text", "db"])
    print(time.monotonic() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
    """


@pytest.mark.full
def test_a_million_events_are_exported_within_a_gigabyte(python, tmp_path, record_property):
    stack = ["/home/me/train.py(7): step", "/home/me/train.py(70): main"]
    tensors = [((64, 64), "FLOAT", "ND")] * 2
    records = Records(info={"process": 5}, steps=[Step(number, number * 10**9, (number + 1) * 10**9) for number in range(3)])
    for number in range(250_000):
        start, shapes, dtypes = 10_000 * number, [[64, 64], [64, 64]], ["float", "float"]
        for depth, name in enumerate(("aten::outer", "aten::inner")):
            place = (start + depth * 1000, start + 9000 - depth * 1000)
            records.operators.append(
                Operator(f"{name}{number % 50}", 7, *place, shapes=shapes, dtypes=dtypes, stack=stack, id=2 * number + depth + 1)
            )
        records.calls.append(Call("aclnnAdd", 7, start + 2000, start + 4000, number + 1))
        task = Task("aclnnAdd", stream=1, task=number, thread=7, correlation=number + 1, external=2 * number + 2, inputs=tensors)
        records.tasks.append(task._replace(enqueue_ns=start + 2500, start_ns=start + 3000, end_ns=start + 9500))
    write_raw(tmp_path / "PROF_1", records)
    done = python(MILLION, tmp_path)
    assert done.returncode == 0, done.stderr
    seconds, megabytes = map(float, done.stdout.split())
    record_property("seconds", seconds)
    record_property("megabytes", megabytes)
    print(f"{seconds:.1f} s, {megabytes:.0f} MB", file=sys.stderr)
    assert megabytes < 1024
    assert os.path.getsize(tmp_path / "ASCEND_PROFILER_OUTPUT" / "trace_view.json") > 100_000_000
    assert len(read_any(tmp_path).tasks) == 250_000
