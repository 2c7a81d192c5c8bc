"""Values of the results: lost records, links of the database, memory, receives, and costs of findings."""

import csv
import json
import os
import sqlite3
import subprocess
import sys

import pytest
import torch
from torch_npu import profiler
from torch_npu.profiler import (
    _ExperimentalConfig,
    advise,
    compare,
    database,
    findings,
    msprof,
    names,
    profile,
    tables,
    torch_trace,
)
from torch_npu.profiler import folder as folder_module
from torch_npu.profiler.folder import read_any, write_ascend_pt
from torch_npu.profiler.records import Call, Memory, NotAProfile, Operator, Records, Step, Task, read_raw, write_raw

MS = 1_000_000


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def of_kind(records, kind):
    return next((finding for finding in findings.examine(records) if finding.kind == kind), None)


def test_each_reader_reports_lost_records(tmp_path, capsys):
    write_raw(tmp_path, Records(tasks=[Task("aclnnAdd", start_ns=1, end_ns=2)], dropped=7, unfinished=2))
    again = read_raw(tmp_path)
    assert (again.dropped, again.unfinished) == (7, 2) and "complete" not in again.info
    assert advise.main([str(tmp_path)]) == 0
    assert "the records are incomplete: 7 did not fit, 2 tasks had not ended" in capsys.readouterr().out
    assert msprof.main(["--export=on", f"--output={tmp_path}"]) == 0
    assert "are incomplete: 7 did not fit, 2 tasks had not ended" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"dropped": 1}', '{"dropped": [], "unfinished": 0}', '{"dropped": NaN}'])
def test_a_cut_end_file_means_that_the_program_ended(text, tmp_path):
    write_raw(tmp_path, Records(tasks=[Task("aclnnAdd")]))
    (tmp_path / "host" / "end.json").write_text(text)
    assert read_raw(tmp_path).what_is_missing() == "the program ended while it was profiled"


def test_a_handler_warns_of_records_that_did_not_fit(tmp_path):
    handler = profiler.tensorboard_trace_handler(str(tmp_path), "me")

    def ready(prof):
        prof.npu_records.dropped = 5
        handler(prof)

    with (
        pytest.warns(UserWarning, match="5 records of the device did not fit; record fewer steps"),
        profile(on_trace_ready=ready),
    ):
        torch.ones(2, device="npu").sin()
    [info] = tmp_path.glob("*/profiler_info_0.json")
    assert json.loads(info.read_text())["end_info"]["dropped_records"] == 5


def test_two_handlers_of_one_trace_write_the_same(tmp_path):
    handlers = [profiler.tensorboard_trace_handler(str(tmp_path / name), "me", analyse_flag=False) for name in "ab"]

    def ready(prof):
        for handler in handlers:
            handler(prof)

    with profile(on_trace_ready=ready):
        torch.ones(2, device="npu").sin()
    one, other = (read_any(tmp_path / name) for name in "ab")
    assert len(one.operators) == len(other.operators) > 0 and len(one.tasks) == len(other.tasks) > 0


def test_two_ranks_may_share_the_name_of_a_worker(tmp_path, monkeypatch):
    moments = iter(["1", "1", "2"])
    monkeypatch.setattr(profiler.profiler, "moment", lambda: next(moments))
    for _ in range(2):
        with profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "me", analyse_flag=False)):
            torch.ones(2, device="npu").sin()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["me_1_ascend_pt", "me_2_ascend_pt"]


def test_a_folder_that_cannot_be_written_is_named_before_the_profile(tmp_path, monkeypatch):
    monkeypatch.setattr(profiler.profiler.os, "access", lambda path, mode: False)
    with pytest.raises(OSError, match=rf"tensorboard_trace_handler: {tmp_path} cannot be written: permission denied"):
        profiler.tensorboard_trace_handler(str(tmp_path))


def test_a_folder_of_another_program_is_refused(tmp_path):
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "info.json").write_text("{}")
    with pytest.raises(NotAProfile, match=r"contains no profile of torch_npu: .*info\.json has no version"):
        read_raw(tmp_path)


def test_a_later_analysis_keeps_the_rank(tmp_path):
    records = Records(tasks=[Task("aclnnAdd", start_ns=1, end_ns=2)], info={"process": 5, "rank": 3})
    output = write_ascend_pt(tmp_path / "x_ascend_pt", records, _ExperimentalConfig(export_type="db"))
    assert [path.name for path in output.iterdir()] == ["ascend_pytorch_profiler_3.db"]


def test_a_profile_of_the_host_alone_has_its_rank(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "2")
    handler = profiler.tensorboard_trace_handler(str(tmp_path), "me")
    with profile(activities=[profiler.ProfilerActivity.CPU], on_trace_ready=handler):
        torch.ones(2).sin()
    [trace] = tmp_path.glob("*/*/trace_view.json")
    assert json.loads(trace.read_text())["distributedInfo"] == {"rank": 2}


def test_the_database_links_operators_to_their_tasks_only(tmp_path):
    records = Records(
        tasks=[Task("aclnnAdd", correlation=9, external=4), Task("aclnnMul", correlation=4, external=9)],
        operators=[Operator("aten::add", id=4), Operator("aten::mul", id=9), Operator("<built-in function len>", kind="python")],
        calls=[Call("aclnnAdd", correlation=9), Call("aclnnMul", correlation=4)],
        memory=[Memory("npu", bytes=512, allocated=512, reserved=1024)],
    )
    database.write(tmp_path / "x.db", records)
    query = """
        SELECT api.value, kernel.value FROM PYTORCH_API
        JOIN CONNECTION_IDS ON CONNECTION_IDS.id = PYTORCH_API.connectionId
        JOIN TASK ON TASK.connectionId = CONNECTION_IDS.connectionId
        JOIN COMPUTE_TASK_INFO USING (globalTaskId)
        JOIN STRING_IDS api ON api.id = PYTORCH_API.name JOIN STRING_IDS kernel ON kernel.id = COMPUTE_TASK_INFO.name
        """
    with sqlite3.connect(tmp_path / "x.db") as base:
        assert sorted(base.execute(query)) == [("aten::add", "aclnnAdd"), ("aten::mul", "aclnnMul")]
        assert base.execute("SELECT count(*) FROM PYTORCH_API WHERE connectionId IS NULL").fetchone() == (1,)
        assert base.execute("SELECT totalAllocated, totalActive FROM MEMORY_RECORD").fetchone() == (512, None)


def test_memory_whose_release_is_not_reported_has_a_row(tmp_path):
    memory = [
        Memory("npu", 0, 64, 1024, 1024, 4096, 1 * MS),
        Memory("npu", 0, 64, 2048, 2048, 4096, 2 * MS),  # the same address again
        Memory("npu", 0, 64, -2048, 0, 4096, 3 * MS),
    ]
    tables.operator_memory(tmp_path / "m.csv", Records(memory=memory))
    found = [(row["Size(KB)"], row["Release Time(us)"]) for row in rows(tmp_path / "m.csv")]
    assert found == [("1.0", ""), ("2.0", "3000.000")]


def test_receives_are_the_bubble_of_a_step(tmp_path):
    """A step of a pipeline: 2 ms computing, a receive of 3 ms of which 1 ms overlaps with computing, a send of 1 ms, a copy, idle
    time."""
    tasks = [
        Task("aclrtMemcpyAsync", "copy", start_ns=0, end_ns=1 * MS),
        Task("aclrtStreamWaitEvent", "wait", start_ns=0, end_ns=1 * MS),
        Task("aclnnMm", start_ns=2 * MS, end_ns=4 * MS),
        Task("HcclRecv", "collective", start_ns=3 * MS, end_ns=6 * MS),
        Task("HcclSend", "collective", start_ns=7 * MS, end_ns=8 * MS),
    ]
    tables.step_trace_time(tmp_path / "s.csv", Records(tasks=tasks, steps=[Step(1, 0, 10 * MS)]))
    [row] = rows(tmp_path / "s.csv")
    assert {name: float(row[name]) / 1000 for name in tables.STEP_COLUMNS[2:]} == {
        "Computing": 2,
        "Communication(Not Overlapped)": 3,
        "Overlapped": 1,
        "Communication": 4,
        "Free": 5,
        "Stage": 7,
        "Bubble": 3,
        "Communication(Not Overlapped and Exclude Receive)": 1,
        "Preparing": 2,
    }


def test_a_wait_of_a_stream_does_not_count_as_a_wait_of_the_host():
    records = Records(calls=[Call("aclrtStreamWaitEvent", 1, 0, 10), Call("aclrtMemcpyAsync", 1, 10, 20)])
    assert of_kind(records, "synchronisation") is None
    records.calls.append(Call("aclrtSynchronizeStreamWithTimeout", 1, 20, 50))
    assert of_kind(records, "synchronisation").count == 1


def test_an_operator_inside_of_itself_counts_once():
    """A fallback calls the operator of the CPU by the same name, and aten::item calls aten::_local_scalar_dense."""
    records = Records(
        operators=[
            Operator("aten::foo", 1, 0, 100_000),
            Operator("aten::foo", 1, 10_000, 90_000),
            Operator("aten::item", 1, 200_000, 300_000),
            Operator("aten::_local_scalar_dense", 1, 210_000, 290_000),
        ],
        info={"fallbacks": {"aten::foo": 1}},
    )
    assert of_kind(records, "fallback").cost_us == 100
    assert of_kind(records, "synchronisation").cost_us == 100


def test_a_copy_between_short_kernels_does_not_count_as_idle_time():
    tasks = [Task("aclnnAdd", start_ns=number * 100_000, end_ns=number * 100_000 + 10_000) for number in range(101)]
    tasks.append(Task("aclrtMemcpyAsync", "copy", stream=2, start_ns=50_000, end_ns=5_000_000))
    cost = of_kind(Records(tasks=tasks), "small launches").cost_us
    assert cost == 50 * 90 + 40  # 50 gaps after the copy, and the beginning of the first gap


def test_timing_an_operator_changes_no_argument():
    x, y = torch.ones(3), torch.ones(3, device="npu")
    profiler.time_operator(torch.Tensor.add_, x, 1, repeat=2)
    profiler.time_operator(torch.Tensor.add_, y, 1, repeat=2)
    assert x.tolist() == y.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="repeat must be at least 1, not 'x'"):
        profiler.time_operator(torch.sin, x, repeat="x")


@pytest.mark.parametrize("activities", [profiler.ProfilerActivity.CPU, 5, [], "CPU"])
def test_wrong_activities_are_named(activities):
    with pytest.raises(ValueError, match=r"activities must be a list of ProfilerActivity\.CPU and ProfilerActivity\.NPU, not"):
        profile(activities=activities)


def test_a_handler_without_a_trace_says_so(tmp_path):
    handler = profiler.tensorboard_trace_handler(str(tmp_path))
    for prof in (profile(), None):
        with pytest.raises(RuntimeError, match="there is no trace yet; give the handler as on_trace_ready of a profiler"):
            handler(prof)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_trace_of_torch_is_read_by_the_advisor(compressed, tmp_path, capsys):
    x = torch.ones(200, 300, device="npu")
    both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    ready = torch.profiler.tensorboard_trace_handler(str(tmp_path), "worker", use_gzip=compressed)
    steps = torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1)
    with torch.profiler.profile(activities=both, with_stack=True, schedule=steps, on_trace_ready=ready) as prof:
        for _ in range(3):
            torch.sum(torch.transpose(x, 0, 1).contiguous()).item()
            prof.step()
    [trace] = tmp_path.iterdir()
    records = read_any(tmp_path)
    assert [step.number for step in records.steps] == [1, 2]
    [one, other] = [task for task in records.tasks if names.shown(task) == names.COPY_TO_CONTIGUOUS]
    assert one.end_ns > one.start_ns >= records.steps[0].start_ns and other.external and other.correlation
    assert {(task.direction, task.name) for task in records.tasks if task.kind == "copy"} == {("DtoH", "aclrtMemcpy")}
    found = {finding.kind: finding for finding in findings.examine(records)}
    assert found["copy"].count == 2 and "test_npu_profiler_values.py" in found["copy"].lines[0]
    assert found["synchronisation"].count >= 2
    assert advise.main([str(trace), "--html", str(tmp_path / "page.html")]) == 0
    assert "copies to contiguous memory (2x)" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"traceEvents": 1}', '{"traceEvents": [{"ph": "X", "cat": "kernel"}]}'])
def test_a_file_that_is_not_a_trace_is_named(text, tmp_path, capsys):
    path = tmp_path / "x.pt.trace.json"
    path.write_text(text)
    for given in (path, tmp_path):
        assert advise.main([str(given)]) == 1
        assert f"{path} is damaged, or is not a trace of torch.profiler" in capsys.readouterr().err
    path.rename(tmp_path / "x.txt")
    assert advise.main([str(tmp_path / "x.txt")]) == 1
    assert "is not a folder" in capsys.readouterr().err


def test_a_program_may_change_its_working_directory(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(profiler.dynamic_profile, "_state", profiler.dynamic_profile._State())
    handler = profiler.tensorboard_trace_handler("traces", "me", analyse_flag=False)
    profiler.dynamic_profile.init("dynamic")
    with torch.npu.profile("result"):
        monkeypatch.chdir(tmp_path / "other")
        torch.ones(2, device="npu").sin()
    with profile(on_trace_ready=handler):
        torch.ones(2, device="npu").sin()
    assert {path.name for path in tmp_path.iterdir()} == {"dynamic", "other", "result", "traces"}
    assert not list((tmp_path / "other").iterdir()) and profiler.dynamic_profile._state.path.is_file()
    assert read_any(tmp_path / "result").info["python"] and read_any(tmp_path / "traces").tasks


def test_the_shape_of_a_scalar_is_known(tmp_path):
    tasks = [
        Task("aclnnReduceSum", start_ns=1, inputs=[((2, 3), "FLOAT", "ND")], outputs=[((), "FLOAT", "ND")]),
        Task("aclnnInplaceOne", start_ns=2, outputs=[((4,), "FLOAT", "ND")]),
        Task("aclnnSin", start_ns=3),
    ]
    tables.kernel_details(tmp_path / "k.csv", Records(tasks=tasks), "ACL_AICORE_NONE")
    columns = ("Input Shapes", "Input Data Types", "Output Shapes", "Output Data Types")
    found = [tuple(row[name] for name in columns) for row in rows(tmp_path / "k.csv")]
    assert found == [("2,3", "FLOAT", "", "FLOAT"), ("", "", "4", "FLOAT"), ("N/A",) * 4]


def test_a_task_in_two_layers_has_one_arrow(tmp_path):
    task = Task("aclnnUnique", thread=1, enqueue_ns=10, start_ns=20, end_ns=30, correlation=1)
    write_raw(tmp_path, Records(tasks=[task], calls=[Call("aclnnUnique", 1, 5, 15, 1)]))
    assert msprof.main(["--export=on", f"--output={tmp_path}"]) == 0
    events = json.loads((tmp_path / "timeline" / "msprof_0.json").read_text())["traceEvents"]
    bars = [msprof.LAYERS[event["pid"] - 1] for event in events if event["ph"] == "X"]
    assert bars == ["AscendCL", "Task Scheduler", "AI CPU"]
    assert [(event["ph"], event["pid"]) for event in events if event["ph"] in "sf"] == [("s", 2), ("f", 3)]


def test_the_page_shows_short_times_exactly(tmp_path):
    start = 1_795_033_580_314_951_117
    write_raw(tmp_path, Records(tasks=[Task("aclnnAdd", start_ns=start, end_ns=start + 1400)]))
    assert advise.main([str(tmp_path), "--html", str(tmp_path / "page.html")]) == 0
    assert "aclnnAdd: 1.4 us at 0.0" in (tmp_path / "page.html").read_text()


def test_the_advisor_names_the_profile_that_it_reads(tmp_path, capsys):
    for rank in range(2):
        write_raw(tmp_path / f"{rank}_ascend_pt" / "PROF_1", Records(tasks=[Task("aclnnAdd", start_ns=1, end_ns=2)]))
        os.utime(tmp_path / f"{rank}_ascend_pt" / "PROF_1" / "host" / "info.json", ns=(rank, rank))
    assert advise.main([str(tmp_path)]) == 0
    assert capsys.readouterr().err == f"profile: {tmp_path / '1_ascend_pt' / 'PROF_1'}\n"


def test_copies_of_a_torch_profile_are_not_listed_as_kernels(tmp_path):
    both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    handler = profiler.tensorboard_trace_handler(str(tmp_path), "me")
    with torch.profiler.profile(activities=both, on_trace_ready=handler):
        torch.ones(4, device="npu").zero_().sin().cpu()
    tasks = {(task.name, task.kind, task.direction, task.stream) for task in read_any(tmp_path).tasks}
    assert ("aclrtMemcpy", "copy", "DtoH", -1) in tasks and ("aclnnSin", "kernel", "", 0) in tasks
    [table] = tmp_path.glob("*/*/kernel_details.csv")
    assert not [row["Name"] for row in rows(table) if "Mem" in row["Name"]]


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("Memcpy HtoD (aclrtMemcpyAsync)", ("aclrtMemcpyAsync", "copy", "HtoD")),
        ("Memset (aclrtMemsetAsync)", ("aclrtMemsetAsync", "fill", "")),
        ("HcclAllReduce", ("HcclAllReduce", "collective", "")),
        ("aclnnAdd", ("aclnnAdd", "kernel", "")),
    ],
)
def test_names_of_tasks_in_profiles_of_torch(name, task):
    assert torch_trace.task_of(name) == task


def test_the_newest_profile_is_read_at_any_depth_and_after_an_export(tmp_path):
    for age, folder in enumerate(("x_ascend_pt/PROF_1", "PROF_2", "PROF_3", "y_ascend_pt/PROF_4")):
        write_raw(tmp_path / folder, Records(tasks=[Task(f"aclnn{age}", start_ns=1, end_ns=2)]))
        os.utime(tmp_path / folder / "host" / "info.json", ns=(age, age))
    assert msprof.main(["--export=on", f"--output={tmp_path / 'PROF_2'}"]) == 0
    assert [task.name for task in read_any(tmp_path).tasks] == ["aclnn3"]


def test_a_folder_is_analysed_from_inside(tmp_path, monkeypatch):
    with profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "me", analyse_flag=False)):
        torch.ones(2, device="npu").sin()
    [folder] = tmp_path.iterdir()
    monkeypatch.chdir(folder)
    profiler.profiler.analyse(".")
    assert (folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").exists()


@pytest.mark.parametrize("command", [advise.main, lambda folder: compare.main([*folder, *folder])])
def test_an_error_of_the_system_names_its_file(command, tmp_path, capsys, monkeypatch):
    def denied(source):
        raise PermissionError(13, "Permission denied", str(source))

    write_raw(tmp_path, Records(tasks=[Task("aclnnAdd", start_ns=1, end_ns=2)]))
    monkeypatch.setattr(folder_module, "read_raw", denied)
    assert command([str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith(f": {tmp_path}: Permission denied\n")


def test_a_wrong_number_of_rows_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        compare.main([str(tmp_path), str(tmp_path), "--most", "-1"])
    assert "--most must be at least 1, not -1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("core", "functions"),
    [
        ("AI_CORE", "Mm Addmm Bmm Baddbmm BatchMatMul Addmv Convolution FlashAttentionScore QuantMatmulV5 SoftIntMm"),
        ("AI_VECTOR_CORE", "Cummax Cummin SoftLgamma SoftDigamma SoftIgamma AddRmsNorm AddRelu UpsampleBilinear2d GemmaRmsNorm"),
        ("AI_CPU", "Unique2 TopK Sort LinalgQr"),
    ],
)
def test_the_core_of_an_operator_is_that_of_its_family(core, functions):
    assert {name: names.core(Task(f"aclnn{name}")) for name in functions.split()} == dict.fromkeys(functions.split(), core)


@pytest.mark.parametrize("record_shapes", [True, False])
@pytest.mark.parametrize("kind", ["torch", "torch_npu"])
def test_a_conversion_of_types_is_no_copy_in_a_trace_of_torch(kind, record_shapes, tmp_path):
    both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    handler = (torch.profiler if kind == "torch" else profiler).tensorboard_trace_handler(str(tmp_path), "me")
    x = torch.ones(30, 20, device="npu")
    with torch.profiler.profile(activities=both, record_shapes=record_shapes, on_trace_ready=handler):
        x.half()
        x.t().to(torch.int64)
        x.t().contiguous()
    records = read_any(tmp_path)
    assert of_kind(records, "copy").count == 1
    if record_shapes:
        shown = [names.shown(task) for task in sorted(records.tasks, key=lambda task: task.start_ns)]
        assert shown == ["aclnnInplaceCopy", "aclnnInplaceCopy", "PTCopy"]
        types = [(task.inputs[0][1], task.outputs[0][1]) for task in records.tasks]
        assert types == [("FLOAT", "FLOAT16"), ("FLOAT", "INT64"), ("FLOAT", "FLOAT")]


def test_bytes_that_torch_does_not_record_are_unknown(tmp_path):
    known = Task("HcclSend", "collective", enqueue_ns=1, start_ns=MS, end_ns=2 * MS, bytes=4_000_000)
    unknown = known._replace(enqueue_ns=0, start_ns=2 * MS, end_ns=3 * MS, bytes=0, task=1)
    tables.communication(tmp_path, Records(tasks=[known, unknown]))
    [step] = json.loads((tmp_path / "communication.json").read_text()).values()
    found = [list(row["Communication Bandwidth Info"].values()) for row in step["p2p"].values()]
    assert found == [[4.0, 4.0], ["N/A", "N/A"]]


def test_the_database_has_no_count_of_elements(tmp_path):
    database.write(tmp_path / "x.db", Records(tasks=[Task("HcclAllReduce", "collective", bytes=64)]))
    with sqlite3.connect(tmp_path / "x.db") as base:
        assert base.execute("SELECT count, dataType FROM COMMUNICATION_OP").fetchone() == (None, None)


def test_a_number_of_switches_of_a_wrong_type_is_damage(tmp_path, capsys):
    for bits in ("x", None, [], 1.5):
        write_raw(tmp_path, Records(info={"config": {"bits": bits}}))
        assert msprof.main(["--export=on", f"--output={tmp_path}"]) == 1
        assert "info.json is damaged; record the profile again" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["advise", "compare"])
def test_output_that_cannot_be_written_is_a_sentence(command, tmp_path):
    write_raw(tmp_path, Records(tasks=[Task("aclnnAdd", start_ns=1, end_ns=2)]))
    folders = [str(tmp_path)] * (2 if command == "compare" else 1)
    with open("/dev/full", "w") as full:
        module = ["-m", f"torch_npu.profiler.{command}"]
        done = subprocess.run([sys.executable, *module, *folders], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1, done.stderr
    assert b"Traceback" not in done.stderr and done.stderr.endswith(b"No space left on device\n")
