"""Options of the command msprof, and folders that cannot be read or written."""

import csv
import json
import os
import sqlite3

import pytest
from torch_npu.profiler import msprof
from torch_npu.profiler.folder import new_prof_folder
from torch_npu.profiler.records import Call, Records, Step, Task, write_raw

MS = 1_000_000


@pytest.fixture
def folder(tmp_path):
    made = new_prof_folder(tmp_path)
    tasks = [
        Task("aclnnAdd", "kernel", 0, 1, 1, 7, MS, 2 * MS, 3 * MS, 1),
        Task("aclnnMul", "kernel", 1, 2, 1, 7, 5 * MS, 6 * MS, 7 * MS, 2),
    ]
    calls = [Call("aclnnAdd", 7, MS, MS + 9, 1), Call("aclnnMul", 7, 5 * MS, 5 * MS + 9, 2)]
    write_raw(made, Records(tasks, calls, steps=[Step(1, 0, 4 * MS), Step(2, 4 * MS, 8 * MS)], info={"config": {"bits": 0x40}}))
    return made


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_each_device_has_a_timeline(folder):
    assert msprof.main(["--export=on", f"--output={folder}"]) == 0
    names = {
        number: {
            event["name"] for event in json.loads((folder / "timeline" / f"msprof_{number}.json").read_text())["traceEvents"]
        }
        for number in (0, 1)
    }
    assert "aclnnAdd" in names[0] and "aclnnMul" in names[1]
    assert [row["Device_id"] for row in rows(folder / "summary" / "op_summary.csv")] == ["0", "1"]


def test_one_iteration_is_exported(folder, capsys):
    assert msprof.main(["--export=on", f"--output={folder}", "--iteration-id=2", "--model-id=1"]) == 0
    assert "--model-id has no effect: there are no offline models" in capsys.readouterr().err
    assert [row["Op Name"] for row in rows(folder / "summary" / "op_summary.csv")] == ["aclnnMul"]
    assert [row["API Name"] for row in rows(folder / "summary" / "api_statistic.csv")] == ["aclnnMul"]
    assert msprof.main(["--export=on", f"--output={folder}", "--iteration-id=3"]) == 1
    assert "there is no step 3; the steps are 1, 2" in capsys.readouterr().err


def test_tables_as_json(folder):
    assert msprof.main(["--export=on", f"--output={folder}", "--summary-format=json"]) == 0
    assert not list((folder / "summary").glob("*.csv"))
    assert [row["Op Name"] for row in json.loads((folder / "summary" / "op_summary.json").read_text())] == [
        "aclnnAdd",
        "aclnnMul",
    ]


def test_a_database(folder):
    assert msprof.main(["--export=on", f"--output={folder}", "--type=db"]) == 0
    assert not (folder / "summary").exists()
    [path] = folder.glob("msprof_*.db")
    with sqlite3.connect(path) as base:
        assert base.execute("SELECT count(*) FROM TASK").fetchone() == (2,)


def test_parse_only_reads(folder, capsys):
    assert msprof.main(["--parse=on", f"--output={folder.parent}"]) == 0
    assert "can be read: 2 tasks, 2 calls" in capsys.readouterr().out
    assert not (folder / "summary").exists()


@pytest.mark.parametrize("option", ["--application=x", "--query=on", "--analyze=on", "--reports=x.json"])
def test_an_option_that_is_not_offered_prints_a_sentence(option, folder, capsys):
    assert msprof.main(["--export=on", f"--output={folder}", option]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"msprof: {option.partition('=')[0]} is not offered: ") and error.count("\n") == 1


def test_accepted_options_have_no_effect(folder, capsys):
    assert msprof.main(["--export=on", f"--output={folder}", "--clear=on", "--python-path=/usr/bin/python3"]) == 0
    assert capsys.readouterr().err.count("has no effect") == 2


@pytest.mark.parametrize("option", ["--type=xml", "--summary-format=xlsx", "--iteration-id=two", "--speed=9"])
def test_wrong_options_stop_the_command(option, folder, capsys):
    with pytest.raises(SystemExit) as stopped:
        msprof.main(["--export=on", f"--output={folder}", option])
    assert stopped.value.code == 2 and option.partition("=")[0] in capsys.readouterr().err


def test_a_folder_without_records_is_named(tmp_path, capsys):
    for path, message in ((tmp_path, "contains no folder PROF_* with records"), (tmp_path / "none", "is not a folder")):
        assert msprof.main(["--export=on", f"--output={path}"]) == 1
        assert message in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_named(folder, capsys):
    folder.chmod(0o500)
    assert msprof.main(["--export=on", f"--output={folder}"]) == 1
    assert "timeline cannot be made: Permission denied" in capsys.readouterr().err
    folder.chmod(0o700)


def test_a_folder_whose_place_is_taken_is_named(folder, capsys):
    (folder / "timeline").touch()
    assert msprof.main(["--export=on", f"--output={folder}"]) == 1
    assert "timeline cannot be made: File exists" in capsys.readouterr().err
