"""torch.profiler and torch.autograd.profiler record the tasks of npu."""

import json
import runpy
import threading
from pathlib import Path

import pytest
import torch
import torch_npu
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

from tests.profiler import trace_rules

NPU = torch._C._autograd.DeviceType.PrivateUse1
BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
SAMPLES = Path(__file__).with_name("samples")


def train_step(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss


def network():
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).npu()


def tasks(prof):
    return [event for event in prof.events() if event.device_type == NPU]


def test_kernels_have_times_and_streams_and_belong_to_operators():
    side = torch.npu.Stream()
    x = torch.ones(200, 200, device="npu")
    with profile(activities=BOTH) as prof:
        y = x @ x
        with torch.npu.stream(side):
            side.wait_stream(torch.npu.default_stream())
            z = x.exp()
        torch.npu.synchronize()
    assert y.sum().item() == 200**3 and z.shape == x.shape
    found = {event.name: event for event in tasks(prof)}
    product = next(event for name, event in found.items() if "mm" in name.lower() or "matmul" in name.lower())
    assert product.time_range.elapsed_us() > 0
    assert found["aclnnExp"].device_resource_id != product.device_resource_id
    [operator] = [event for event in prof.events() if event.name == "aten::mm" and event.device_type != NPU]
    assert [kernel.name for kernel in operator.kernels] == [product.name]
    assert operator.device_time_total == pytest.approx(product.time_range.elapsed_us(), abs=0.01)


def test_averages_have_columns_of_the_device_in_the_order_of_torch():
    model, x = network(), torch.ones(4, 32, device="npu")
    with profile(activities=BOTH, record_shapes=True, profile_memory=True) as prof:
        train_step(model, x)
    text = prof.key_averages(group_by_input_shape=True).table(sort_by="self_device_time_total", row_limit=5)
    head = text.split("\n")[1]
    columns = ["Self CPU", "CPU total", "Self NPU", "Self NPU %", "NPU total", "NPU time avg", "CPU Mem", "NPU Mem", "# of Calls"]
    places = [head.index(column) for column in columns]
    assert places == sorted(places) and "Input Shapes" in head
    assert "Self NPU time total: " in text
    assert sum(row.self_device_time_total for row in prof.key_averages() if row.device_type == NPU) > 0


def test_memory_flops_stacks_and_modules_are_recorded(tmp_path):
    x = torch.ones(64, 64, device="npu")
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)  # without it torch keeps no stacks in events
    switches = {"profile_memory": True, "with_flops": True, "with_stack": True, "with_modules": True}
    with profile(activities=BOTH, experimental_config=verbose, **switches) as prof:
        y = torch.mm(x, x)
        kept = torch.empty(1000, 256, device="npu")
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["aten::mm"].flops == 2 * 64**3
    assert rows["aten::empty"].device_memory_usage >= kept.nbytes and y.shape == x.shape
    [call] = [event for event in prof.events() if event.name == "aten::mm" and event.device_type != NPU]
    assert any("test_memory_flops_stacks" in frame for frame in call.stack)
    prof.export_stacks(str(tmp_path / "stacks.txt"), "self_cpu_time_total")
    assert "test_memory_flops_stacks" in (tmp_path / "stacks.txt").read_text()


def test_a_schedule_writes_a_trace_for_each_cycle(tmp_path):
    x = torch.ones(8, device="npu")
    cycles = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=BOTH, schedule=cycles, on_trace_ready=tensorboard_trace_handler(str(tmp_path), "worker")) as prof:
        for _ in range(8):
            (x + 1).sum()
            prof.step()
    traces = sorted(tmp_path.glob("worker.*.pt.trace.json"))
    assert len(traces) == 2
    for path in traces:
        events = trace_rules.read(path)
        steps = {event["name"] for event in events if event.get("name", "").startswith("ProfilerStep#")}
        assert len(steps) == 2 and any(event.get("cat") == "kernel" for event in events)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_trace_obeys_the_rules_of_viewers_and_links_calls_to_kernels(tmp_path, name):
    model, x = network(), torch.ones(4, 32, device="npu")
    side = torch.npu.Stream()

    def other():
        with torch.npu.stream(side), record_function("other"):
            model(x)

    with profile(activities=BOTH, record_shapes=True) as prof:  # torch's own Python functions overlap its ranges
        thread = threading.Thread(target=other)
        thread.start()
        for _ in range(3):
            with record_function("step"):
                train_step(model, x).item()
        thread.join()
    prof.export_chrome_trace(str(tmp_path / name))
    events = trace_rules.read(tmp_path / name)
    trace_rules.check([event for event in events if event.get("cat") not in ("fwdbwd",)])
    kernels = [event for event in events if event.get("cat") == "kernel"]
    calls = [event for event in events if event.get("cat") == "privateuse1_runtime"]
    launches = {event["args"]["correlation"]: event for event in calls if "correlation" in event.get("args", {})}
    operators = {event["args"]["External id"]: event["name"] for event in events if event.get("cat") == "cpu_op"}
    assert len(kernels) > 20
    for kernel in kernels:
        assert launches[kernel["args"]["correlation"]]["ts"] <= kernel["ts"] + 0.0015
    linked = {(kernel["name"], operators.get(kernel["args"].get("External id"))) for kernel in kernels}
    assert {("aclnnAddmm", "aten::addmm"), ("aclnnMm", "aten::mm")} <= linked
    flows = {event["id"] for event in events if event["ph"] == "s" and event["cat"] == "ac2g"}
    assert {kernel["args"]["correlation"] for kernel in kernels} <= flows


def test_activities_of_cuda_are_those_of_npu_under_transfer(child, tmp_path):
    program = """
        import sys, torch, torch_npu
        from torch_npu.contrib import transfer_to_npu
        from torch.profiler import ProfilerActivity, profile
        x = torch.ones(50, 50, device="cuda")
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
            (x @ x).sum().item()
        rows = prof.key_averages()
        assert sum(row.self_device_time_total for row in rows) > 0
        print(rows.table(sort_by="cuda_time_total"))
        with torch.autograd.profiler.profile(use_cuda=True) as old:
            x.exp()
        print(old.key_averages().table(sort_by="cuda_time_total"))
        """
    done = child(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Self NPU %") == 2 and "aten::exp" in done.stdout


@pytest.mark.parametrize("sample", ["chrome_trace", "memory", "shapes", "simple"])
def test_the_samples_of_the_documents_print_their_columns(sample, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SAMPLES / f"{sample}.py"), run_name="__main__")
    columns = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
    columns += ["Self NPU %", "Self NPU", "NPU total", "NPU time avg"]
    columns += ["CPU Mem", "Self CPU Mem", "NPU Mem", "Self NPU Mem"] if sample == "memory" else []
    columns += ["# of Calls"] + (["Input Shape"] if sample == "shapes" else [])
    if sample != "simple":
        lines = capsys.readouterr().out.split("\n")
        assert [name.strip() for name in lines[1].split("  ") if name.strip()] == columns
        row = next(line for line in lines if line.strip().startswith("aten::convolution "))
        cells = row.split()
        assert cells[6].endswith("%") and not cells[7].endswith("%")
    if sample in ("chrome_trace", "simple"):
        events = trace_rules.read(tmp_path / "profile_data.json")
        trace_rules.check([event for event in events if event.get("cat") != "fwdbwd"])
        names = {event["name"] for event in events if event["ph"] == "X"}
        assert any(name.startswith("aclnn") for name in names)
        assert ("aten::conv2d" in names) == (sample == "chrome_trace")


def test_the_table_of_the_documents_moves_whole_columns():
    x = torch.ones(30, 30, device="npu")
    with torch.autograd.profiler.profile(use_npu=True) as prof:
        x @ x
    row = prof.key_averages().table().split("\n")
    plain = torch.autograd.profiler_util.EventList.table(prof.key_averages()).split("\n")
    first, second = plain[1].index("Self NPU") + 8 - 12, plain[1].index("Self NPU %") + 10 - 12
    for line, other in zip(row[1:2] + row[3:6], plain[1:2] + plain[3:6], strict=True):
        assert line[first : first + 12] == other[second : second + 12]
        assert line[second : second + 12] == other[first : first + 12]
        assert line[:first] == other[:first]


@pytest.mark.parametrize("with_stack", [False, True])
def test_use_npu_simple_keeps_innermost_operators(with_stack, tmp_path):
    model, x = network(), torch.ones(4, 32, device="npu")
    with torch.autograd.profiler.profile(use_npu=True, use_npu_simple=True, with_stack=with_stack) as prof:
        train_step(model, x)
    names = {event.name for event in prof.function_events}
    assert {"aclnnAddmm", "aclnnMm", "aten::addmm", "aten::mm"} <= names and "aten::linear" not in names
    operators = {event.name for event in prof.function_events if event.device_type != NPU}
    assert not any(name.startswith(("acl", "<")) or ".py(" in name for name in operators), operators
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    found = {event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert "aten::linear" not in found and {"aclnnAddmm", "aten::addmm"} <= found
    assert not any(".py(" in name or name.startswith("<") for name in found)


@pytest.mark.parametrize("column", ["self_npu_time_total", "self_npu_memory_usage"])
def test_a_table_is_sorted_by_a_column_of_npu(column):
    x = torch.ones(300, 300, device="npu")
    with torch.autograd.profiler.profile(use_npu=True, profile_memory=True) as prof:
        x.neg(), x @ x @ x
    rows = prof.key_averages()
    highest = max(rows, key=lambda row: getattr(row, column.replace("npu", "device")))
    for table in (rows.table(sort_by=column, row_limit=1), rows.table(column, row_limit=1)):
        assert table.split("\n")[3].split()[0] == highest.key, table
    assert rows.table(sort_by=column.replace("npu", "cuda")) == rows.table(sort_by=column)
    with pytest.raises(ValueError, match=r"there is no value 'npu_speed' to sort by; use cpu_time_total, npu_time_total"):
        rows.table(sort_by="npu_speed")


@pytest.mark.parametrize("order", ["of the documents", "right"])
def test_a_gradient_that_is_set_to_none_leaves_nothing_to_the_optimizer(order):
    """The published samples call zero_grad between backward and step."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    before = model[0].weight.detach().clone()
    with torch.autograd.profiler.profile(use_npu=True) as prof:
        train_step(model, torch.ones(4, 32, device="npu"))
        if order == "right":
            optimizer.step()
            optimizer.zero_grad()
        else:
            optimizer.zero_grad()
            optimizer.step()
    assert model[0].weight.equal(before) == (order != "right")
    assert ("aten::add_" in {row.key for row in prof.key_averages()}) == (order == "right")


@pytest.mark.parametrize("kind", ["torch_npu", "autograd"])
def test_stacks_are_exported_with_times_of_npu(kind, tmp_path):
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
    made = (
        torch_npu.profiler.profile(with_stack=True)
        if kind == "torch_npu"
        else torch.autograd.profiler.profile(use_npu=True, with_stack=True, experimental_config=verbose)
    )
    with made as prof:
        torch.ones(300, 300, device="npu").exp()
    prof.export_stacks(str(tmp_path / "stacks.txt"), "self_npu_time_total")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert any("test_stacks_are_exported" in line and int(line.split()[-1]) > 0 for line in lines)
    with pytest.raises(ValueError, match="self_cpu_time_total"):
        prof.export_stacks(str(tmp_path / "stacks.txt"), "speed")
    with pytest.raises(RuntimeError, match=r"export_stacks: there are no stacks; record first, with profile\(with_stack=True\)"):
        torch_npu.profiler.profile().export_stacks(str(tmp_path / "stacks.txt"))
