"""Interrupted and nested profilers, ranges with unusual names, and damaged or hostile records."""

import json
import sys

import pytest
import torch
from torch_npu import profiler
from torch_npu.profiler import _ExperimentalConfig, _records, advise, compare, msprof, profile
from torch_npu.profiler.records import KERNEL, Call, Mark, Memory, Operator, Records, Step, Task, write_raw

mstx = sys.modules["torch_npu.npu.mstx"]


def interrupt_the_next_wait(monkeypatch):
    wait = torch.npu.synchronize

    def interrupted(*arguments):
        monkeypatch.setattr(torch.npu, "synchronize", wait)
        raise KeyboardInterrupt

    monkeypatch.setattr(torch.npu, "synchronize", interrupted)


def makers(folder):
    host = [torch.profiler.ProfilerActivity.CPU]
    return {
        "torch_npu": profile,
        "torch": torch.profiler.profile,
        "torch of the host": lambda: torch.profiler.profile(activities=host),
        "autograd": lambda: torch.autograd.profiler.profile(use_npu=True),
        "npu": lambda: torch.npu.profile(str(folder)),
        "npu with operators": lambda: torch.npu.profile(str(folder), use_e2e_profiler=True),
    }


@pytest.mark.parametrize("kind", ["torch_npu", "torch", "autograd", "npu", "npu with operators"])
def test_an_interrupt_of_the_last_wait_ends_the_recording(kind, tmp_path, monkeypatch):
    x = torch.ones(2, device="npu")
    with pytest.raises(KeyboardInterrupt), makers(tmp_path)[kind]():
        x.sin()
        interrupt_the_next_wait(monkeypatch)
    assert (mstx._listeners, _records._sessions) == ([], [])
    for next_kind in ("torch_npu", "npu with operators"):
        with makers(tmp_path)[next_kind]():
            x.cos()


@pytest.mark.parametrize("outer", ["torch_npu", "torch", "torch of the host", "autograd"])
def test_operators_of_npu_profile_are_not_taken_from_another_profiler(outer, tmp_path):
    x = torch.ones(2, device="npu")
    with makers(tmp_path)[outer]() as prof:
        with pytest.raises(RuntimeError, match="another profiler is recording, and profilers do not nest; stop it first"):
            makers(tmp_path)["npu with operators"]().__enter__()
        with makers(tmp_path)["npu"]():
            x.sin()
    assert "aten::sin" in {event.key for event in prof.key_averages()}


@pytest.mark.parametrize("outer", ["torch_npu", "torch", "autograd", "npu with operators"])
def test_a_profiler_of_the_host_takes_no_records_of_a_profiler_of_npu(outer, tmp_path):
    x = torch.ones(2, device="npu")
    with makers(tmp_path)[outer]() as prof:
        with pytest.raises(RuntimeError, match="profilers do not nest"):
            makers(tmp_path)["torch of the host"]().start()
        x.sin()
    if outer == "npu with operators":
        [path] = tmp_path.glob("PROF_*/host/operators.jsonl")
        assert "aten::sin" in path.read_text()
    else:
        assert "aten::sin" in {event.key for event in prof.key_averages()}


def test_a_range_of_the_user_with_the_name_of_a_step_is_a_range(tmp_path):
    with (
        profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path))),
        torch.profiler.record_function("ProfilerStep#x"),
    ):
        torch.ones(2, device="npu").sin()
    [path] = tmp_path.glob("*/PROF_*/host/operators.jsonl")
    assert "ProfilerStep#x" in path.read_text()


def test_a_range_object_may_be_entered_again_in_its_block():
    with profile(experimental_config=_ExperimentalConfig(mstx=True)) as prof:
        within = torch.npu.mstx.annotate("again")
        with within, within:
            pass
    outer, inner = sorted(prof.npu_records.marks, key=lambda mark: mark.start_ns)
    assert outer.name == inner.name == "again" and outer.end_ns >= inner.end_ns
    assert mstx._open == {}


@pytest.mark.parametrize("number", [[], None, "1", 10**6])
def test_a_wrong_number_of_a_range_is_a_warning(number):
    with pytest.warns(UserWarning, match="range_end: there is no open range"):
        torch.npu.mstx.range_end(number)


def write_records(folder):
    start = 1_700_000_000_000_000_000
    records = Records(info={"process": 1, "rank": 0, "fallbacks": {"aten::x": 1}, "config": {"bits": 0x7F, "metrics": 0}})
    for number, name in enumerate(["a,b", 'say "x"', "one\ntwo", "<script>alert(1)</script>", "\x00", "\u2028", "=cmd()"]):
        at = start + 100 * number
        records.tasks.append(
            Task(name, KERNEL, 0, 0, number, 1, at, at + 10, at + 50, number + 1, inputs=[([2, 3], "f<b>", "ND")])
        )
        records.calls.append(Call(name, 1, at, at + 5, number + 1))
        records.operators.append(Operator(name, 1, at, at + 9, "operator", [[2, 3]], ["float"], [name], id=number + 1))
        records.marks.append(Mark(name, 1, at, at + 4))
    records.memory.append(Memory("npu", 0, 64, 512, 512, 1024, start))
    records.steps.append(Step(1, start, start + 1000))
    write_raw(folder, records)


def run_commands(folder):
    commands = [
        msprof.main(["--export=on", f"--output={folder}", *more]) for more in ((), ("--summary-format=json",), ("--type=db",))
    ]
    advice = advise.main([str(folder), "--json", "--html", str(folder / "page.html")])
    return [*commands, advice, compare.main([str(folder), str(folder)])]


WRONG = [None, "x", 1.5, True, 1 << 63, 10**400, [], {}, [[1]], [[[1], None, None]], float("nan"), "../../outside"]
FIELDS = [
    *(("device_0/tasks", name) for name in ("name", "device", "start_ns", "end_ns", "stream", "inputs")),
    *(("host/operators", name) for name in ("name", "thread", "end_ns", "dtypes", "stack")),
    *(("host/calls", "name"), ("host/marks", "thread"), ("host/steps", "number"), ("host/memory", "time_ns")),
]


@pytest.mark.parametrize(("table", "field"), FIELDS)
def test_a_value_of_a_wrong_type_is_damage(table, field, tmp_path, capsys):
    write_records(tmp_path)
    path = tmp_path / f"{table}.jsonl"
    first, rest = path.read_text().split("\n", 1)
    right = type(json.loads(first)[field])
    for value in WRONG:
        if type(value) is right and not (right is int and value > 1 << 62) and not (field == "inputs" and value):
            continue
        if field in ("dtypes", "stack") and isinstance(value, list) and not value:
            continue
        path.write_text(json.dumps({**json.loads(first), field: value}) + "\n" + rest)
        assert run_commands(tmp_path) == [1] * 5, value
        said = capsys.readouterr().err
        assert said.count("is damaged at the line '{") == 5, said


@pytest.mark.parametrize("field", ["process", "rank", "fallbacks", "config", "governor", "threads"])
@pytest.mark.parametrize("value", [None, [1], 1 << 70, 1.5])
def test_settings_of_a_wrong_type_are_damage(field, value, tmp_path, capsys):
    write_records(tmp_path)
    path = tmp_path / "host" / "info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    assert run_commands(tmp_path) == [1] * 5
    assert "info.json is damaged; record the profile again" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["[1]\n", "null\n", "[" * 100_000 + "\n", "{}\n"], ids=["list", "null", "deep", "empty"])
def test_a_line_that_is_not_a_record_is_damage(line, tmp_path, capsys):
    write_records(tmp_path)
    (tmp_path / "host" / "steps.jsonl").write_text(line)
    assert run_commands(tmp_path) == [1] * 5
    assert capsys.readouterr().err.count("steps.jsonl is damaged at the line") == 5


@pytest.mark.parametrize("name", [b"\xff\xc9", b"\\ud800", b"\\udfff \\ud83d\\ude00"], ids=["bytes", "half", "half and whole"])
def test_invalid_characters_of_a_name_are_replaced(name, tmp_path):
    write_records(tmp_path)
    path = tmp_path / "device_0" / "tasks.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"a,b"', b'"before ' + name + b' after"'))
    assert run_commands(tmp_path) == [0] * 5
    shown = (tmp_path / "timeline" / "msprof_0.json").read_text()
    assert {"before", "after"} <= {word for event in json.loads(shown)["traceEvents"] for word in event["name"].split()}


def test_an_error_of_the_device_is_raised_after_the_trace_was_written(child, tmp_path):
    program = """
        import sys, torch, torch_npu
        from torch_npu.profiler import profile, schedule, tensorboard_trace_handler
        x = torch.arange(4.0, device="npu")
        for steps in (0, 2):
            handler = tensorboard_trace_handler(sys.argv[1], f"worker{steps}")
            chosen = schedule(wait=0, warmup=1, active=1, repeat=1) if steps else None
            with torch_npu.softnpu.faults("launch:2"):
                prof = profile(on_trace_ready=handler, schedule=chosen)
                prof.start()
                x.cos()
                try:
                    for _ in range(steps):
                        prof.step()
                        x.sin()
                    if not steps:
                        x.sin()
                    prof.stop()
                except RuntimeError as error:
                    print("a fault was injected" in str(error))
        """
    done = child(program, tmp_path, SOFTNPU_LAUNCH="queue")
    assert (done.stdout, done.returncode) == ("True\nTrue\n", 0), done.stderr
    for worker in ("worker0", "worker2"):
        [path] = tmp_path.glob(f"{worker}_*_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json")
        json.loads(path.read_text())


@pytest.mark.parametrize(("end", "status"), [("x.sin()", 0), ("x.sin(); fault.__enter__(); x.cos()", 1)])
def test_a_program_that_forks_or_fails_at_its_end_has_a_result(end, status, child, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, torch, torch_npu\n"
        "x = torch.arange(4.0, device='npu')\n"
        "fault = torch_npu.softnpu.faults('launch:1')\n"
        "if os.fork() == 0:\n    sys.exit(7)\n"
        "print('child', os.waitstatus_to_exitcode(os.wait()[1]))\n" + end + "\n"
    )
    program = f"""
        import sys
        from torch_npu import profile
        sys.exit(profile.main(["--out", {str(tmp_path / "out")!r}, "--no-stack", {str(script)!r}]))
        """
    done = child(program, SOFTNPU_LAUNCH="queue")
    assert (done.stdout, done.returncode) == ("child 7\n", status), done.stderr
    [page] = tmp_path.glob("out/*_ascend_pt/advice.html")
    assert "Sin" in page.read_text()


def test_functions_that_are_freed_while_they_are_profiled_end_no_profile(tmp_path):
    """When the profile ends, torch's pointers to the names lead to other bytes."""
    x, others = torch.ones(2, device="npu"), []
    with profile(with_stack=True, on_trace_ready=profiler.tensorboard_trace_handler(tmp_path)):
        for number in range(300):
            names = {}
            exec(compile("def g(x):\n return x.sin()\ndef f(x):\n return g(x)", f"é{number:0200d}.py", "exec"), names)
            names.pop("f")(x)
            names.clear()
            others.append([b"\x80" * length for length in range(150, 260, 2)])
    [trace] = tmp_path.rglob("trace_view.json")
    assert sum(event["name"] == "aten::sin" for event in json.loads(trace.read_text())["traceEvents"]) == 300


@pytest.mark.parametrize("kind", ["torch_npu", "torch", "autograd", "npu", "npu with operators"])
def test_a_profile_that_ends_inside_of_a_capture_keeps_the_capture(kind, tmp_path):
    """A wait for the device would end the capture."""
    x, graph = torch.ones(4, device="npu"), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        with makers(tmp_path)[kind]():
            y = x + 1
        z = y * 2
    graph.replay()
    assert z.cpu().tolist() == [4] * 4
    with makers(tmp_path)["torch_npu"]() as later:
        x.cos()
    assert "aten::cos" in {event.key for event in later.key_averages()}


MAKERS = """
    import sys, torch, torch_npu
    from torch_npu.profiler import profile, schedule, tensorboard_trace_handler
    both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    x = torch.ones(3, device="npu")
    """


@pytest.mark.parametrize(
    ("made", "pattern"),
    [
        ("profile(with_stack=True, on_trace_ready=tensorboard_trace_handler(sys.argv[1]))", "*/*/trace_view.json"),
        ("torch.profiler.profile(activities=both, with_stack=True)", ""),
        ("torch.autograd.profiler.profile(use_npu=True)", ""),
        ("torch.npu.profile(sys.argv[1], use_e2e_profiler=True)", "*/host/operators.jsonl"),
    ],
)
def test_a_program_that_ends_before_its_profiler_ends_well(made, pattern, child, tmp_path):
    program = f"""{MAKERS}
    prof = {made}
    getattr(prof, "start", prof.__enter__)()
    x.sin()
    sys.exit(7)
    """
    done = child(program, tmp_path)
    assert done.returncode == 7, done.stderr
    for path in tmp_path.glob(pattern) if pattern else ():
        assert "aten::sin" in path.read_text()
    assert len(list(tmp_path.glob(pattern)) if pattern else [1]) == 1


@pytest.mark.parametrize("made", ["profile(", "torch.profiler.profile(activities=both, "])
def test_a_handler_that_fails_in_a_step_ends_no_process(made, child):
    """A full disk, for example. The next cycles are recorded."""
    program = f"""{MAKERS}
    found = []

    def ready(prof):
        found.append("aten::sin" in {{event.key for event in prof.key_averages()}})
        raise OSError(28, "the disk is full")

    with {made}schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=ready) as prof:
        for _ in range(4):
            x.sin()
            try:
                prof.step()
            except OSError as error:
                print(error.strerror, found)
    """
    done = child(program)
    assert (done.stdout, done.returncode) == ("the disk is full [True]\nthe disk is full [True, True]\n", 0), done.stderr


@pytest.mark.parametrize("made", ["profile(", "torch.profiler.profile(activities=both, "])
def test_profilers_do_not_nest_in_the_warm_up_of_a_schedule(made, child):
    program = f"""{MAKERS}
    found = []
    ready = lambda prof: found.extend(event.key for event in prof.key_averages())
    outer = {made}schedule=schedule(wait=0, warmup=1, active=1, repeat=1), on_trace_ready=ready)
    outer.start()
    for make in (profile, lambda: torch.profiler.profile(activities=both[:1])):
        try:
            make().start()
        except RuntimeError as error:
            print(error)
    outer.step()
    x.sin()
    outer.step()
    outer.stop()
    print("aten::sin" in found)
    with profile() as later:
        x.cos()
    print("aten::cos" in {{event.key for event in later.key_averages()}})
    """
    done = child(program)
    nested = "profile: another profiler is recording, and profilers do not nest; stop it first\n"
    assert (done.stdout, done.returncode) == (2 * nested + "True\nTrue\n", 0), done.stderr


def test_half_a_character_in_a_mark_ends_no_profile(tmp_path):
    config = _ExperimentalConfig(mstx=True, export_type=["text", "db"])
    with profile(experimental_config=config, on_trace_ready=profiler.tensorboard_trace_handler(tmp_path)):
        torch.npu.mstx.mark("before \ud800 after")
    [path] = tmp_path.rglob("trace_view.json")
    assert "before ? after" in {event["name"] for event in json.loads(path.read_text())["traceEvents"]}


def test_names_that_torch_cannot_decode_end_no_profile_of_npu(tmp_path, monkeypatch):
    """Torch's tables need the names of all functions, and raise this error if one was freed since."""

    def parse(*arguments):
        raise UnicodeDecodeError("utf-8", b"\xc9", 0, 1, "invalid continuation byte")

    monkeypatch.setattr(torch.autograd.profiler.profile, "_parse_kineto_results", parse)
    with makers(tmp_path)["npu with operators"]():
        torch.ones(2, device="npu").sin()
    [path] = tmp_path.glob("PROF_*/host/operators.jsonl")
    assert "aten::sin" in path.read_text()
