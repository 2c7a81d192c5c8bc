"""Wrong use and failures of profilers give a clear sentence, and no profiler changes what a program computes."""

import json
import signal
import threading

import pytest
import torch
from torch_npu import profiler
from torch_npu.profiler import _ExperimentalConfig, advise, profile
from torch_npu.profiler.folder import new_prof_folder, read_any
from torch_npu.profiler.records import Records, Task, read_raw, write_raw

NPU = torch._C._autograd.DeviceType.PrivateUse1
BOTH = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]


def names(prof):
    return {event.key for event in prof.key_averages()}


@pytest.mark.parametrize("call", ["stop", "step"])
def test_a_profiler_that_does_not_run_says_so(call):
    prof = profile()
    with pytest.raises(RuntimeError, match=rf"profile\.{call}: this profiler is not running; call start\(\) first"):
        getattr(prof, call)()
    prof.start()
    with pytest.raises(RuntimeError, match=r"profile\.start: this profiler is already running; call stop\(\) first"):
        prof.start()
    torch.ones(2, device="npu").sin()
    prof.stop()
    assert "aten::sin" in names(prof)


@pytest.mark.parametrize("inner", [profile, lambda: torch.profiler.profile(activities=BOTH)])
@pytest.mark.parametrize("outer_kind", [profile, torch.profiler.profile, torch.autograd.profiler.profile])
def test_profilers_do_not_nest_and_the_outer_one_goes_on(outer_kind, inner):
    x = torch.ones(2, device="npu")
    with outer_kind() as outer:
        with pytest.raises(RuntimeError, match="another profiler is recording, and profilers do not nest; stop it first"):
            inner().start()
        x.sin()
    assert "aten::sin" in names(outer)
    with profile() as later:
        x.cos()
    assert "aten::cos" in names(later)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_inside_keeps_what_was_recorded(error, tmp_path):
    handler = profiler.tensorboard_trace_handler(str(tmp_path), "me")
    with pytest.raises(error), profile(on_trace_ready=handler):
        torch.ones(2, device="npu").sin()
        raise error("stop here")
    assert "aclnnSin" in {task.name for task in read_any(tmp_path).tasks}
    with profile() as later:
        torch.ones(2, device="npu").cos()
    assert "aten::cos" in names(later)


@pytest.mark.parametrize("made", ["torch_npu", "torch", "autograd", "npu"])
def test_an_error_of_the_device_ends_the_recording_and_is_raised(made, child, tmp_path):
    """The error comes from a task that fails after the last call of the block."""
    program = """
        import sys, torch, torch_npu
        from torch_npu import profiler
        both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
        make = {
            "torch_npu": profiler.profile,
            "torch": lambda: torch.profiler.profile(activities=both),
            "autograd": lambda: torch.autograd.profiler.profile(use_npu=True),
            "npu": lambda: torch.npu.profile(sys.argv[2]),
        }[sys.argv[1]]
        x = torch.arange(4.0, device="npu")
        try:
            with torch_npu.softnpu.faults("launch:1"), make():
                x.sin()
                print("after the call")
        except RuntimeError as error:
            print("a fault was injected" in str(error))
        with make() as later:
            x.cos()
        print(sys.argv[1] == "npu" or "aten::cos" in {event.key for event in later.key_averages()})
        """
    done = child(program, made, tmp_path, SOFTNPU_LAUNCH="queue")
    assert (done.stdout, done.returncode) == ("after the call\nTrue\nTrue\n", 0), done.stderr


def test_an_interrupt_in_a_profiled_program_is_raised_and_the_next_profile_works(child, tmp_path):
    program = """
        import os, signal, sys, threading, torch, torch_npu
        from torch_npu.profiler import profile, tensorboard_trace_handler
        x = torch.ones(64, 64, device="npu")
        try:
            with profile(with_stack=True, on_trace_ready=tensorboard_trace_handler(sys.argv[1], "me")):
                threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                while True:
                    x = (x @ x).tanh()
        except KeyboardInterrupt:
            print("interrupted")
        with profile() as later:
            x.cos()
        print("aten::cos" in {event.key for event in later.key_averages()})
        """
    done = child(program, tmp_path)
    assert (done.stdout, done.returncode) == ("interrupted\nTrue\n", 0), done.stderr
    assert "aten::mm" in {row.name for row in read_any(tmp_path).operators}


def test_a_full_disk_is_named_and_the_program_goes_on(child, tmp_path):
    program = """
        import resource, sys, torch, torch_npu
        from torch_npu.profiler import profile, tensorboard_trace_handler
        x = torch.ones(4, device="npu")
        x.sin()
        prof = profile(on_trace_ready=tensorboard_trace_handler(sys.argv[1], "me"))
        prof.start()
        for _ in range(200):
            x.sin()
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
        try:
            prof.stop()
        except OSError as error:
            print(error.strerror)
        print(x.sum().item())
        """
    done = child(program, tmp_path)
    assert done.returncode == 0, done.stderr
    message, result = done.stdout.splitlines()
    assert message.startswith("the profile cannot be written to ") and "jsonl: File too large" in message and result == "4.0"
    records = read_any(tmp_path)
    assert records.calls and records.info["complete"] is False


def test_records_of_a_killed_process_can_be_read(child, tmp_path, capsys):
    program = """
        import os, signal, sys
        from pathlib import Path
        from torch_npu.profiler.records import Operator, Records, Task, write_raw

        def tasks():
            for number in range(100_000):
                if number == 50_000:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield Task("aclnnAdd", start_ns=number, end_ns=number + 1)

        class Endless(list):
            def __iter__(self):
                return tasks()

        operators = [Operator("aten::add", 1, number, number + 1) for number in range(10)]
        records = Records(operators=operators, tasks=Endless([Task("aclnnAdd", start_ns=1, end_ns=2)]))
        records.devices = lambda: [0]
        write_raw(Path(sys.argv[1]), records)
        """
    done = child(program, tmp_path)
    assert done.returncode == -signal.SIGKILL or done.returncode == 128 + signal.SIGKILL
    records = read_raw(tmp_path)
    assert len(records.operators) == 10 and 0 < len(records.tasks) < 50_000
    assert records.info["complete"] is False
    assert advise.main([str(tmp_path)]) == 0
    assert "the program ended while it was profiled" in capsys.readouterr().out


def test_a_handler_that_cannot_write_names_the_folder(tmp_path):
    handler = profiler.tensorboard_trace_handler(str(tmp_path / "gone"), "me")
    (tmp_path / "gone").rmdir()
    (tmp_path / "gone").touch()
    with (
        pytest.raises(OSError, match=r"the profile cannot be written to .*gone/me_.*_ascend_pt"),
        profile(on_trace_ready=handler),
    ):
        torch.ones(2, device="npu").sin()
    with profile() as later:
        torch.ones(2, device="npu").cos()
    assert "aten::cos" in names(later)


def test_a_line_that_lacks_a_field_is_damage(tmp_path):
    folder = new_prof_folder(tmp_path)
    write_raw(folder, Records(tasks=[Task("aclnnAdd")]))
    (folder / "device_0" / "tasks.jsonl").write_text(json.dumps({"kind": "kernel"}) + "\n")
    with pytest.raises(ValueError, match=r"tasks\.jsonl is damaged at the line"):
        read_raw(folder)


def training(steps=4):
    """Runs a program. Returns everything that a profile could change: values, order, random numbers and memory."""
    torch.manual_seed(3)
    torch.npu.synchronize()
    torch.npu.empty_cache()
    torch.npu.reset_peak_memory_stats()
    before = torch.npu.memory_stats()
    device = torch.device("npu")
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Dropout(0.3), torch.nn.GELU(), torch.nn.Linear(32, 4)).to(
        device
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    side, captured = torch.npu.Stream(), torch.npu.NPUGraph()
    static = torch.zeros(8, 4, device=device)
    with torch.npu.graph(captured):
        doubled = static * 2 + 1
    found, other_results = [], []

    def other_thread():
        with torch.npu.stream(side):
            other_results.append(torch.arange(1000.0, device=device).cumsum(0).sin())
            side.synchronize()

    for step in range(steps):
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()  # read at once, because peaks depend on the tensors that exist at the same time
        x = torch.randn(8, 16, device=device)
        y = model(x)
        static.copy_(y.detach())
        captured.replay()
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            square = y.detach().square()
        torch.npu.current_stream().wait_stream(side)
        loss = (y - doubled.clone()).square().mean() + square.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found += [loss.detach(), x, square, doubled.clone()]
        if step == 1:
            found.append(torch.rand(5, device=device))
    found += [*model.parameters(), *other_results]
    values = [value.detach().cpu() for value in found]
    after = torch.npu.memory_stats()
    keys = ("allocation.all.allocated", "segment.all.allocated", "allocated_bytes.all.peak", "reserved_bytes.all.peak")
    memory = {key: after[key] - (0 if key.endswith("peak") else before[key]) for key in keys}
    return values, memory


PROFILES = {
    "torch_npu": lambda folder: profile(
        record_shapes=True,
        with_stack=True,
        profile_memory=True,
        with_flops=True,
        experimental_config=_ExperimentalConfig("Level2", mstx=True, gc_detect_threshold=0),
        on_trace_ready=profiler.tensorboard_trace_handler(folder),
    ),
    "torch": lambda folder: torch.profiler.profile(activities=BOTH, record_shapes=True, with_stack=True, profile_memory=True),
    "autograd": lambda folder: torch.autograd.profiler.profile(use_npu=True, record_shapes=True, profile_memory=True),
    "autograd with events": lambda folder: torch.autograd.profiler.profile(use_device="npu"),
    "npu": lambda folder: torch.npu.profile(folder, use_e2e_profiler=True),
}


@pytest.mark.parametrize("kind", PROFILES)
def test_no_profile_changes_results_or_memory(kind, tmp_path):
    training(2)
    expected, memory = training()
    with PROFILES[kind](str(tmp_path)):
        found, memory_with = training()
    again, memory_after = training()
    for values in (found, again):
        assert all(one.equal(other) for one, other in zip(expected, values, strict=True))
    assert memory_with == memory and memory_after == memory


@pytest.mark.parametrize("kind", ["torch_npu", "torch"])
def test_replays_of_graphs_are_recorded(kind, tmp_path):
    x, graph = torch.ones(4, device="npu"), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = x.sin()
    with PROFILES[kind](str(tmp_path)) as prof:
        for _ in range(3):
            graph.replay()
    kernels = [event for event in prof.events() if event.name == "aclnnSin" and event.device_type == NPU]
    assert len(kernels) == 3 and y.cpu().equal(torch.ones(4).sin())


def test_a_capture_inside_of_a_profile_replays_later():
    x, graph = torch.ones(4, device="npu"), torch.npu.NPUGraph()
    with profile(), torch.npu.graph(graph):
        y = x.sin()
    graph.replay()
    assert y.cpu().equal(torch.ones(4).sin())


def test_a_fork_of_a_profiled_process_works(child):
    program = """
        import os, torch, torch_npu
        from torch_npu.profiler import profile
        with profile() as prof:
            torch.ones(3).sin()
            pid = os.fork()
            if not pid:
                print(torch.ones(3).sum().item(), flush=True)
                os._exit(0)
            os.waitpid(pid, 0)
            torch.ones(3, device="npu").cos()
        print("aten::cos" in {event.key for event in prof.key_averages()})
        """
    done = child(program)
    assert (done.stdout, done.returncode) == ("3.0\nTrue\n", 0), done.stderr


def test_a_trace_is_exported_after_the_end(tmp_path):
    prof = profile()
    for running in (False, True):
        if running:
            prof.start()
        with pytest.raises(RuntimeError, match=r"export_chrome_trace: there is no trace yet; call stop\(\) first"):
            prof.export_chrome_trace(str(tmp_path / "x.json"))
    torch.ones(2, device="npu").sin()
    prof.stop()
    prof.export_chrome_trace(str(tmp_path / "x.json"))
    assert "aten::sin" in (tmp_path / "x.json").read_text()


def test_metadata_that_is_no_text_is_named_and_no_json_is_a_text(tmp_path):
    with profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "me")) as prof:
        for value in (5, None, {}):
            for add in (prof.add_metadata, prof.add_metadata_json):
                with pytest.raises(TypeError, match=r"add_metadata\w*: value must be a text, not "):
                    add("key", value)
        prof.add_metadata_json("wrong", "not json")
        prof.add_metadata_json("right", "[1]")
    prof.export_chrome_trace(str(tmp_path / "x.json"))
    trace = json.loads((tmp_path / "x.json").read_text())
    assert (trace["wrong"], trace["right"]) == ("not json", [1])
    [path] = tmp_path.glob("*/profiler_metadata.json")
    assert {"wrong": "not json", "right": [1]}.items() <= json.loads(path.read_text()).items()
