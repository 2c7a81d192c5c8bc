"""Results of torch_npu.profiler, torch.npu.profile, msprof and the advisor, for made-up records and for recorded programs."""

import csv
import gc
import json
import sqlite3

import pytest
import torch
from torch_npu import profiler
from torch_npu.profiler import _ExperimentalConfig, advise, compare, database, findings, msprof, profile, tables
from torch_npu.profiler.folder import new_prof_folder, read_any, write_ascend_pt
from torch_npu.profiler.records import Call, Mark, Memory, NotAProfile, Operator, Records, Step, Task, read_raw, write_raw
from torch_npu.profiler.trace import write_trace
from torch_npu.tools import op_info
from torch_npu.tools.report import read_data

MS = 1_000_000
TENSOR = ((2, 3), "FLOAT", "ND")


def made():
    stack = ("/home/me/train.py(7): step",)
    return Records(
        tasks=[
            Task("aclnnAdd", "kernel", 0, 1, 1, 7, 1 * MS, 2 * MS, 3 * MS, 1, 11, 0, "", (TENSOR, TENSOR), (TENSOR,)),
            Task("aclnnInplaceCopy", "kernel", 0, 1, 2, 7, 3 * MS, 3 * MS, 5 * MS, 2, 12),
            Task("HcclAllReduce", "collective", 0, 2, 3, 7, 4 * MS, 4 * MS, 8 * MS, 3, 0, 1_000_000),
            Task("aclrtMemcpyAsync", "copy", 0, 1, 4, 7, 8 * MS, 8 * MS, 9 * MS, 4, 0, 64, "DtoD"),
            Task("aclnnUnique", "kernel", 0, 1, 5, 7, 9 * MS, 9 * MS, 10 * MS, 5, 0),
        ],
        calls=[
            Call("aclnnAdd", 7, 1 * MS, 1 * MS + 500, 1),
            Call("aclrtSynchronizeStream", 7, 5 * MS, 8 * MS, 0),
        ],
        operators=[
            Operator("aten::add", 7, MS - 1000, 2 * MS, "operator", [[2, 3], [2, 3]], ["float", "float"], stack, 1, 0, 0, 11),
            Operator("aten::contiguous", 7, 3 * MS - 1000, 4 * MS, "operator", (), (), stack, 2, 0, 0, 12),
            Operator("aten::item", 7, 5 * MS - 1000, 9 * MS, "operator", (), (), ("/home/me/train.py(9): step",), 3, 0, 0, 13),
        ],
        marks=[Mark("epoch", 7, MS, 9 * MS), Mark("point", 7, 2 * MS, 2 * MS)],
        memory=[Memory("npu", 0, 64, 1024, 1024, 4096, MS), Memory("npu", 0, 64, -1024, 0, 4096, 2 * MS)],
        steps=[Step(3, 0, 6 * MS), Step(4, 6 * MS, 11 * MS)],
        info={"process": 5, "fallbacks": {"aten::add": 2}, "governor": "powersave", "threads": 9, "processors": 2},
    )


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_records_are_read_as_they_were_written(tmp_path):
    write_raw(tmp_path, made())
    again = read_raw(tmp_path)
    assert [task.name for task in again.tasks] == [task.name for task in made().tasks]
    assert again.steps == made().steps and again.memory == made().memory and again.marks == made().marks


def test_a_cut_file_is_read_up_to_its_last_line(tmp_path):
    write_raw(tmp_path, made())
    path = tmp_path / "device_0" / "tasks.jsonl"
    path.write_text(path.read_text()[:-20])
    (tmp_path / "host" / "end.json").unlink()
    again = read_raw(tmp_path)
    assert len(again.tasks) == 4 and again.info["complete"] is False
    assert any("ended while" in finding.title for finding in findings.examine(again))


def test_tables_have_the_published_columns_and_values(tmp_path):
    config = _ExperimentalConfig("Level1", profiler.AiCMetrics.ArithmeticUtilization, export_type=["text", "db"])
    output = write_ascend_pt(tmp_path / "x_ascend_pt", made(), config)
    first = rows(output / "kernel_details.csv")[0]
    assert list(first)[:9] == tables.KERNEL_COLUMNS[:9] and "mac_fp16_ratio" in first
    assert (first["Step Id"], first["Name"], first["Type"], first["Duration(us)"]) == ("3", "aclnnAdd", "Add", "1000.0")
    assert (first["Wait Time(us)"], first["Input Shapes"], first["Input Data Types"]) == ("1000.0", "2,3;2,3", "FLOAT;FLOAT")
    assert first["mac_fp16_ratio"] == "N/A"
    steps = rows(output / "step_trace_time.csv")
    assert [float(steps[0][name]) for name in ("Computing", "Communication", "Overlapped", "Free")] == [3000, 2000, 1000, 2000]
    operators = {row["Name"]: row for row in rows(output / "operator_details.csv")}
    assert float(operators["aten::add"]["Device Self Duration(us)"]) == 1000
    assert float(operators["aten::add"]["Host Self Duration(us)"]) == 1001
    assert rows(output / "api_statistic.csv")[0]["API Name"] == "aclrtSynchronizeStream"
    assert rows(output / "operator_memory.csv")[0]["Size(KB)"] == "1.0"
    assert "HcclAllReduce__3@2" in json.loads((output / "communication.json").read_text())["step3"]["collective"]
    with sqlite3.connect(next(output.glob("ascend_pytorch_profiler_*.db"))) as base:
        query = "SELECT value, endNs - startNs FROM TASK JOIN COMPUTE_TASK_INFO USING (globalTaskId) JOIN STRING_IDS ON id = name"
        assert dict(base.execute(query)) == {"aclnnAdd": MS, "PTCopy": 2 * MS, "aclnnUnique": MS}


def test_a_trace_obeys_the_rules_of_viewers(tmp_path):
    write_trace(tmp_path / "trace.json", made())
    trace = json.loads((tmp_path / "trace.json").read_text())
    by_track = {}
    for event in trace["traceEvents"]:
        assert isinstance(event["ts"], (int, float)) and event["pid"] < 100
        if event["ph"] == "X":
            by_track.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for bars in by_track.values():
        bars.sort(key=lambda bar: (bar[0], -bar[1]))
        ends = []
        for start, end in bars:
            while ends and ends[-1] <= start:
                ends.pop()
            assert not ends or end <= ends[-1]
            ends.append(end)
    names = {event["name"] for event in trace["traceEvents"]}
    assert {"PTCopy", "D2DCopywithStreamSynchronize", "aclnnAdd", "epoch", "ProfilerStep#3"} <= names
    flows = [event for event in trace["traceEvents"] if event["ph"] in "sf"]
    assert [event["ph"] for event in flows] == ["s", "f"] and flows[0]["id"] == flows[1]["id"]


def test_a_real_profile_has_all_files(tmp_path):
    config = _ExperimentalConfig(mstx=True, export_type=["text", "db"])
    handler = profiler.tensorboard_trace_handler(str(tmp_path), "me")
    with profile(record_shapes=True, experimental_config=config, on_trace_ready=handler), torch.npu.mstx.annotate("inside"):
        x = torch.ones(3, 4, device="npu").t().contiguous()
    assert x.cpu().equal(torch.ones(4, 3))
    [folder] = tmp_path.iterdir()
    found = {path.name for path in (folder / "ASCEND_PROFILER_OUTPUT").iterdir()}
    assert {"trace_view.json", "kernel_details.csv", "operator_details.csv", "ascend_pytorch_profiler_0.db"} <= found
    records = read_any(folder)
    assert "aten::contiguous" in {row.name for row in records.operators}
    assert [mark.name for mark in records.marks] == ["inside"]


def test_raw_records_alone_are_analysed_later(tmp_path):
    with profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "me", analyse_flag=False)):
        torch.ones(3, device="npu").sin()
    [folder] = tmp_path.iterdir()
    assert not (folder / "ASCEND_PROFILER_OUTPUT").exists()
    profiler.profiler.analyse(str(tmp_path))
    assert (folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").exists()


def test_a_database_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(OSError, match=r"none/x\.db cannot be written"):
        database.write(tmp_path / "none" / "x.db", made())


def test_bad_folders_are_named_in_one_sentence(tmp_path, capsys):
    with pytest.raises(NotAProfile, match="contains no profile of torch_npu"):
        read_any(tmp_path)
    with pytest.raises(NotAProfile, match="is not a folder"):
        read_any(tmp_path / "none")
    with pytest.raises(NotAProfile, match="contains no folder"):
        profiler.profiler.analyse(str(tmp_path))
    write_raw(tmp_path, made())
    info = tmp_path / "host" / "info.json"
    info.write_text(json.dumps({"version": 99}))
    assert advise.main([str(tmp_path)]) == 1
    assert "written by another version of torch_npu (format 99" in capsys.readouterr().err
    info.write_text("{")
    assert msprof.main(["--export=on", f"--output={tmp_path}"]) == 1
    assert "is damaged" in capsys.readouterr().err
    info.write_text(json.dumps({"version": 1, "config": {"metrics": "SPEED"}}))
    assert msprof.main(["--export=on", f"--output={tmp_path}"]) == 1
    assert "unknown metric 'SPEED'" in capsys.readouterr().err
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="cannot be made"):
        profiler.tensorboard_trace_handler(str(tmp_path / "file" / "x"))


def test_msprof_makes_four_layers_and_tables(tmp_path, monkeypatch, capsys):
    records = made()
    records.info["config"] = {"bits": 0x50, "metrics": "ACL_AICORE_PIPE_UTILIZATION"}
    folder = new_prof_folder(tmp_path)
    assert folder.name.startswith("PROF_")
    write_raw(folder, records)
    monkeypatch.chdir(folder)
    assert msprof.main(["--export=on", "--output=./"]) == 0
    events = json.loads((folder / "timeline" / "msprof_0.json").read_text())["traceEvents"]
    order = {event["pid"]: event["args"]["sort_index"] for event in events if event["name"] == "process_sort_index"}
    layers = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert [layers[pid] for pid in sorted(layers, key=order.get)] == list(msprof.LAYERS)
    assert {event["name"] for event in events if event["pid"] == 4 and event["ph"] == "X"} == {"aclnnUnique"}
    summary = rows(folder / "summary" / "op_summary.csv")
    assert len(summary) == 4 and summary[0]["mte1_ratio"] == "N/A" and summary[0]["OP Type"] == "Add"
    assert {path.name for path in (folder / "summary").iterdir()} >= {"task_time.csv", "l2_cache.csv", "step_trace.csv"}
    assert msprof.main(["--output=./"]) == 1 and "--export=on" in capsys.readouterr().err


def test_findings_come_in_the_order_of_their_cost():
    found = findings.examine(made())
    by_kind = {finding.kind: finding for finding in found}
    assert [finding.cost_us for finding in found] == sorted((finding.cost_us for finding in found), reverse=True)
    assert by_kind["synchronisation"].cost_us == 3000
    assert by_kind["synchronisation"].lines == ["/home/me/train.py:9 step (aten::item)"]
    assert by_kind["copy"].cost_us == 3000 and by_kind["copy"].lines[0] == "/home/me/train.py:7 step (aten::contiguous)"
    assert by_kind["communication"].cost_us == 3000
    assert by_kind["fallback"].count == 2 and by_kind["fallback"].lines == ["/home/me/train.py:7 step"]
    assert {finding.title for finding in found if finding.kind == "host"} == {
        "the processors run with the governor powersave",
        "torch uses 9 threads on 2 processors",
    }


def test_the_page_carries_its_data_and_figures(tmp_path, capsys):
    write_raw(tmp_path / "p", made())
    assert advise.main([str(tmp_path), "--json", "--html", str(tmp_path / "a.html")]) == 0
    printed = json.loads(capsys.readouterr().out)
    text = (tmp_path / "a.html").read_text()
    assert read_data(text) == printed and printed["findings"]
    assert 'class="timeline"' in text and 'class="flame"' in text and "aclnnAdd: 1000.0 us" in text
    assert "src=" not in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_compare_shows_what_became_slower(tmp_path, capsys):
    slow = made()
    slow.tasks[0] = slow.tasks[0]._replace(end_ns=3 * MS + 500_000)
    write_raw(tmp_path / "a", made())
    write_raw(tmp_path / "b", slow)
    first = compare.compare(tmp_path / "a", tmp_path / "b")[0]
    assert (first.kind, first.name, first.slower_us) == ("kernel", "aclnnAdd", 500)
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "none")]) == 1
    assert "is not a folder" in capsys.readouterr().err


def test_npu_profile_writes_a_folder(tmp_path):
    x = torch.ones(4, device="npu")
    with torch.npu.profile(str(tmp_path / "new"), use_e2e_profiler=True):
        y = (x + 1).sum()
    assert y.item() == 8
    [folder] = (tmp_path / "new").iterdir()
    assert folder.name.startswith("PROF_")
    records = read_raw(folder)
    assert "aten::add" in {row.name for row in records.operators}
    assert records.info["config"]["metrics"] == "ACL_AICORE_ARITHMETIC_UTILIZATION"


def test_profiles_of_npu_do_not_nest_and_end_in_order(tmp_path):
    outer, inner = torch.npu.profile(str(tmp_path)), torch.npu.profile(str(tmp_path))
    with outer, pytest.raises(RuntimeError, match="a profile is already open"):
        inner.__enter__()
    with pytest.raises(RuntimeError, match="prof_stop: no recording is active"):
        torch.npu.prof_stop()
    with pytest.raises(RuntimeError, match=r"call prof_init\(path\) first"):
        torch.npu.prof_start()
    torch.npu.prof_init(str(tmp_path))
    torch.npu.prof_start(0x1FF, 1)
    torch.npu.iteration_start()
    torch.npu.iteration_end()
    torch.npu.prof_stop()
    torch.npu.prof_finalize()
    newest = max(tmp_path.iterdir())
    assert len(read_raw(newest).steps) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [({"aiCoreMetricsType": 7}, "must be 0, 1, 2, 3, 4 or 255"), ({"ACL_PROF_AICPU": 1}, "ACL_PROF_AICPU must be True or False")],
)
def test_bad_switches_are_named(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        torch.npu.profileConfig(**options)
    assert torch.npu.profileConfig().AiCoreMetricsConfig == 0
    assert torch.npu.profileConfig(ACL_PROF_AICORE_METRICS=False).AiCoreMetricsConfig == 0xFF


def test_operators_of_logs_are_listed_once(tmp_path, monkeypatch, capsys):
    head = "[INFO] ASCENDCL(1,python):2025-01-01-00:00:00.000.000 [op.cpp:1]2 compile:aclopCompile::aclOp = OpType: "
    (tmp_path / "plog-1.log").write_text(f"{head}Add, InputDesc[0]: x \n{head}Add, InputDesc[0]: x \n{head}Mul, y \n")
    (tmp_path / "plog-1.out").write_text(f"{head}Sub, z \n")
    monkeypatch.chdir(tmp_path)
    assert op_info.main([]) == 0
    assert (tmp_path / "ascend_op_info_summary.txt").read_text() == "Add InputDesc[0]: x\nMul y\n"
    assert op_info.main(["--host_log_folder", "none"]) == 1
    assert "none is not a folder" in capsys.readouterr().err


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_module_is_timed_on_both_devices_and_stays_where_it_is(device):
    module = torch.nn.BatchNorm1d(4).to(device)
    times = profiler.time_operator(module, torch.ones(3, 4), repeat=2)
    assert times.npu_us > 0 and times.cpu_us > 0
    assert module.weight.device.type == device and module.num_batches_tracked.item() == 0


def test_one_operator_is_timed_on_both_devices():
    times = profiler.time_operator(torch.add, torch.ones(4), torch.ones(4), repeat=2)
    assert times.npu_us > 0 and times.cpu_us > 0
    with pytest.raises(ValueError, match="repeat must be at least 1, not 0"):
        profiler.time_operator(torch.add, torch.ones(4), 1, repeat=0)


def test_a_profile_changes_no_results(tmp_path):
    def train():
        torch.manual_seed(1)
        model = torch.nn.Linear(6, 6).npu()
        for _ in range(3):
            model(torch.ones(2, 6, device="npu")).square().sum().backward()
        return model.weight.grad.cpu()

    expected = train()
    with profile(record_shapes=True, with_stack=True), torch.npu.profile(str(tmp_path)):
        found = train()
    assert found.equal(expected)


def test_settings_and_metadata_are_stored_and_used_again(tmp_path):
    config = _ExperimentalConfig("Level1", profiler.AiCMetrics.Memory, l2_cache=True, export_type=["db"])
    handler = profiler.tensorboard_trace_handler(str(tmp_path), "me")
    with profile(record_shapes=True, experimental_config=config, on_trace_ready=handler) as prof:
        prof.add_metadata("model", 'a "small" one')
        prof.add_metadata_json("sizes", "[1, 2]")
        torch.ones(3, device="npu").sin()
    [folder] = tmp_path.iterdir()
    info = json.loads((folder / "profiler_info_0.json").read_text())
    assert info["config"]["common_config"]["record_shapes"] is True
    assert info["config"]["experimental_config"]["_aic_metrics"] == profiler.AiCMetrics.Memory
    stored = json.loads((folder / "profiler_metadata.json").read_text())
    assert {"model": 'a "small" one', "sizes": [1, 2]}.items() <= stored.items()
    output = folder / "ASCEND_PROFILER_OUTPUT"
    assert [path.name for path in output.iterdir()] == ["ascend_pytorch_profiler_0.db"]
    profiler.profiler.analyse(str(tmp_path), export_type=profiler.ExportType.Text)
    assert rows(output / "l2_cache.csv")[0]["Hit Rate"] == "N/A"
    assert "main_mem_read_bw" in rows(output / "kernel_details.csv")[0]
    assert "aclnnSin" in {row["kernel_name"] for row in rows(output / "task_time.csv")}
    (folder / "profiler_info_0.json").write_text("{}")
    with pytest.raises(NotAProfile, match="is damaged or of another version"):
        profiler.profiler.analyse(str(tmp_path))


@pytest.mark.parametrize(("least", "found"), [(0, True), (60_000, False)])
def test_collections_of_garbage_are_marks_in_the_trace(tmp_path, least, found):
    config = _ExperimentalConfig(gc_detect_threshold=least)
    with profile(experimental_config=config, on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "me")):
        gc.collect()
        gc.collect()
    domains = {mark.domain for mark in read_any(tmp_path).marks}
    assert domains == ({"garbage collection"} if found else set())
    assert not any("_Collections" in repr(callback) for callback in gc.callbacks)


def test_memory_is_recorded_with_the_operator_that_allocates(tmp_path):
    with profile(profile_memory=True, on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "me")):
        kept = torch.empty(512, 1024, device="npu")
        torch.empty(256, 1024, device="npu")
    [output] = tmp_path.glob("*/ASCEND_PROFILER_OUTPUT")
    found = [row for row in rows(output / "operator_memory.csv") if row["Device Type"] == "NPU:0"]
    assert [(row["Name"], row["Size(KB)"]) for row in found] == [("aten::empty", "2048.0"), ("aten::empty", "1024.0")]
    assert kept.nbytes == 2 << 20 and float(found[1]["Allocation Total Allocated(MB)"]) >= 3
    assert len([row for row in rows(output / "memory_record.csv") if row["Device Type"] == "NPU:0"]) == 2


def test_times_keep_their_last_digits(tmp_path):
    """Times are exact to a nanosecond. A float of microseconds since 1970 would be exact only to a quarter of a microsecond."""
    start = 1_795_033_580_314_951_117
    write_ascend_pt(tmp_path / "x_ascend_pt", Records(tasks=[Task("aclnnAdd", start_ns=start, end_ns=start + 1)]),
                    _ExperimentalConfig())  # fmt: skip
    [output] = tmp_path.glob("*/ASCEND_PROFILER_OUTPUT")
    assert rows(output / "kernel_details.csv")[0]["Start Time(us)"] == "1795033580314951.117"
    assert msprof.main(["--export=on", f"--output={tmp_path / 'x_ascend_pt'}"]) == 0
    [summary] = tmp_path.glob("*/PROF_*/summary")
    assert rows(summary / "op_summary.csv")[0]["Task Start Time(us)"] == "1795033580314951.117"
    assert rows(summary / "task_time.csv")[0]["task_stop(us)"] == "1795033580314951.118"


def test_steps_of_a_thousand_are_split(tmp_path):
    tasks = [Task("aclnnAdd", start_ns=10 * number + 1, end_ns=10 * number + 8) for number in range(2000)]
    tasks += [Task("HcclSend", "collective", start_ns=10 * number, end_ns=10 * number + 4) for number in range(0, 2000, 2)]
    records = Records(tasks=tasks, steps=[Step(number, 20 * number, 20 * number + 20) for number in range(1000)])
    tables.step_trace_time(tmp_path / "s.csv", records)
    found = rows(tmp_path / "s.csv")
    assert len(found) == 1000
    for row in found:
        assert [float(row[name]) for name in ("Computing", "Communication", "Overlapped", "Free")] == [0.014, 0.004, 0.003, 0.005]
