"""Values of the results: what did not fit, links of the database, memory, receives, and costs of findings."""

import csv
import json

import pytest
import torch
from torch_npu import profiler
from torch_npu.profiler import _ExperimentalConfig, advise, findings, msprof, profile
from torch_npu.profiler.folder import read_any, write_ascend_pt
from torch_npu.profiler.records import NotAProfile, Records, Task, read_raw, write_raw

MS = 1_000_000


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def of_kind(records, kind):
    return next((finding for finding in findings.examine(records) if finding.kind == kind), None)


def test_what_did_not_fit_is_said_by_each_reader(tmp_path, capsys):
    write_raw(tmp_path, Records(tasks=[Task("aclnnAdd", start_ns=1, end_ns=2)], dropped=7, unfinished=2))
    again = read_raw(tmp_path)
    assert (again.dropped, again.unfinished) == (7, 2) and "complete" not in again.info
    assert advise.main([str(tmp_path)]) == 0
    assert "the records are incomplete: 7 did not fit, 2 tasks had not ended" in capsys.readouterr().out
    assert msprof.main(["--export=on", f"--output={tmp_path}"]) == 0
    assert "are incomplete: 7 did not fit, 2 tasks had not ended" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"dropped": 1}', '{"dropped": [], "unfinished": 0}', '{"dropped": NaN}'])
def test_a_cut_end_is_a_program_that_ended(text, tmp_path):
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


def test_a_folder_of_another_program_is_no_profile(tmp_path):
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "info.json").write_text("{}")
    with pytest.raises(NotAProfile, match=r"holds no profile of torch_npu: .*info\.json has no version"):
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


@pytest.mark.parametrize("activities", [profiler.ProfilerActivity.CPU, 5, [], "CPU"])
def test_wrong_activities_are_named(activities):
    with pytest.raises(
        ValueError, match=r"activities must be of ProfilerActivity\.CPU and ProfilerActivity\.NPU, as a list, not"
    ):
        profile(activities=activities)
