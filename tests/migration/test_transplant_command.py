"""The command ms_fmk_transplt: where results go, reports, exit status, in-place conversion and undo."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("libcst")
pytest.importorskip("openpyxl")

import openpyxl
import torch_npu
from torch_npu.tools.transplant import cli

SCRIPT = """\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.ones(2).cuda()  # to the device


def move(batch):
    return batch.cuda()
"""
TOOL = Path(torch_npu.__file__).resolve().parent / "tools" / "transplant"


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "pkg").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "train.py").write_text(SCRIPT)
    (root / "pkg" / "__init__.py").write_text("")
    (root / "pkg" / "data.bin").write_bytes(bytes(range(256)))
    (root / "pkg" / "net.py").write_text("from torch import nn\nnet = nn.Linear(2, 2).cuda()\n")
    (root / "run.sh").write_text("#!/bin/sh\n# CUDA_VISIBLE_DEVICES=0\nCUDA_VISIBLE_DEVICES=0 python train.py --device cuda\n")
    (root / "run.sh").chmod(0o755)
    return root


def run(*arguments):
    return cli.main([str(argument) for argument in arguments])


def fast(*arguments):
    """Without the question to torch_npu, which takes seconds."""
    return run(*arguments, "--no-support-check")


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_folder_gives_a_folder_with_the_suffix_msft_and_the_same_structure(project, tmp_path):
    assert fast("-i", project, "-o", tmp_path / "out") == 0
    result = tmp_path / "out" / "project_msft"
    reports = {"msFmkTranspltlog.txt", "unsupported_op.xlsx", "unsupported_op.csv", "change_list.csv"}
    found = {path.relative_to(result).as_posix() for path in result.rglob("*")}
    assert found == {path.relative_to(project).as_posix() for path in project.rglob("*")} | reports
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["project_msft"]
    assert "torch.npu.is_available()" in (result / "train.py").read_text()
    assert "# to the device" in (result / "train.py").read_text()
    assert (result / "pkg" / "data.bin").read_bytes() == bytes(range(256))
    assert (result / "run.sh").stat().st_mode & 0o777 == 0o755
    expected = "#!/bin/sh\n# CUDA_VISIBLE_DEVICES=0\nASCEND_RT_VISIBLE_DEVICES=0 python train.py --device npu\n"
    assert (result / "run.sh").read_text() == expected
    assert (project / "train.py").read_text() == SCRIPT


def test_the_change_list_has_the_rows_of_all_files_with_a_confidence(project, tmp_path):
    fast("-i", project, "-o", tmp_path)
    changes = rows(tmp_path / "project_msft" / "change_list.csv")
    assert list(changes[0]) == ["File", "Start Line", "End Line", "Operation Type", "Message", "Confidence"]
    assert {row["File"] for row in changes} == {"train.py", "pkg/net.py", "run.sh"}
    (move,) = [row for row in changes if (row["File"], row["Start Line"]) == ("train.py", "8")]
    assert (move["Operation Type"], move["Confidence"], move["Message"]) == ("MODIFY", "medium", ".cuda -> .npu")
    log = (tmp_path / "project_msft" / "msFmkTranspltlog.txt").read_text()
    assert "[INFO]" in log and "line: 8 ~ 8" in log and "Operation Type: MODIFY" in log


def test_a_file_goes_into_the_folder_named_after_its_own_folder(project, tmp_path):
    assert fast("-i", project / "train.py", "-o", tmp_path / "out") == 0
    result = tmp_path / "out" / "project_msft"
    assert ".npu()" in (result / "train.py").read_text() and not (result / "pkg").exists()


def test_a_file_gives_a_file_and_the_reports_lie_beside_it(project, tmp_path):
    assert fast("-i", project / "train.py", "-o", tmp_path / "out" / "train_npu.py") == 0
    assert ".npu()" in (tmp_path / "out" / "train_npu.py").read_text()
    assert rows(tmp_path / "out" / "change_list.csv")


def test_a_second_run_does_not_touch_the_first_result_unless_asked(project, tmp_path, capsys):
    fast("-i", project, "-o", tmp_path)
    marker = tmp_path / "project_msft" / "mine.txt"
    marker.write_text("x")
    assert fast("-i", project, "-o", tmp_path) == 1
    assert "exists already" in capsys.readouterr().err and marker.exists()
    assert fast("-i", project, "-o", tmp_path, "--force") == 0
    assert not marker.exists() and (tmp_path / "project_msft" / "train.py").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project", "project_msft"]


def test_the_converted_project_is_not_changed_by_a_second_conversion(project, tmp_path):
    fast("-i", project, "-o", tmp_path / "one")
    fast("-i", tmp_path / "one" / "project_msft", "-o", tmp_path / "two")
    one, two = tmp_path / "one" / "project_msft", tmp_path / "two" / "project_msft_msft"
    for name in ("train.py", "pkg/net.py", "run.sh"):
        assert (one / name).read_text() == (two / name).read_text()


def test_a_dry_run_prints_a_diff_that_patch_accepts_and_writes_nothing(project, tmp_path, capsys):
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert fast("-i", project, "--dry-run") == 0
    diff = capsys.readouterr().out
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    subprocess.run(["patch", "-p1", "-d", project, "--quiet"], input=diff, text=True, check=True)
    fast("-i", project, "--dry-run")
    assert capsys.readouterr().out == ""


def test_in_place_and_undo(project):
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert fast("-i", project, "--in-place") == 0
    assert ".npu()" in (project / "train.py").read_text()
    assert fast("-i", project, "--in-place") == 0  # changes nothing, and keeps the originals
    assert rows(project / ".transplant_undo" / "reports" / "change_list.csv") == []
    assert fast("-i", project, "--undo") == 0
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def test_undo_does_not_lose_later_work(project, capsys):
    fast("-i", project, "--in-place")
    with (project / "train.py").open("a") as file:
        file.write("# more\n")
    assert fast("-i", project, "--undo") == 1
    assert "train.py was changed after its conversion" in capsys.readouterr().err
    assert "# more" in (project / "train.py").read_text()
    assert fast("-i", project, "--undo", "--force") == 0
    assert (project / "train.py").read_text() == SCRIPT


def test_reports_for_programs(project, tmp_path):
    (project / "train.py").write_text(SCRIPT + "\nclass A:\n    def cuda(self):\n        return 1\n")
    fast("-i", project, "-o", tmp_path, "--report", "json,html,sarif")
    result = tmp_path / "project_msft"
    report = json.loads((result / "transplant_report.json").read_text())
    assert report["severity"] == "warning" and report["converted"] == 3
    assert any(change["applied"] is False and change["confidence"] == "low" for change in report["changes"])
    sarif = json.loads((result / "transplant_report.sarif").read_text())
    assert sarif["version"] == "2.1.0"
    assert {each["level"] for each in sarif["runs"][0]["results"]} == {"note", "warning"}
    assert "<table>" in (result / "transplant_report.html").read_text()


def test_unsupported_functions_are_listed_with_file_line_and_tip(tmp_path, capsys):
    script = tmp_path / "src" / "a.py"
    script.parent.mkdir()
    script.write_text("import torch\n\nx = torch.ones(2)\ntorch.cuda.no_such_function(x)\n")
    assert run("-i", script, "-o", tmp_path / "out") == 3
    assert "a.py:4: torch.npu.no_such_function" in capsys.readouterr().err
    (row,) = rows(tmp_path / "out" / "src_msft" / "unsupported_op.csv")
    assert (row["File"], row["Start Line"], row["OP"]) == ("a.py", "4", "torch.npu.no_such_function") and row["Tips"]
    sheet = openpyxl.load_workbook(tmp_path / "out" / "src_msft" / "unsupported_op.xlsx").active
    assert [[cell.value for cell in line] for line in sheet.rows] == [
        ["File", "Start Line", "End Line", "OP", "Tips"],
        ["a.py", 4, 4, "torch.npu.no_such_function", row["Tips"]],
    ]
    assert run("-i", script, "-o", tmp_path / "out2", "--fail-on", "never") == 0


def test_the_status_tells_the_severity(tmp_path):
    script = tmp_path / "a.py"
    script.write_text("import torch\nname = 'cuda'\n")
    assert fast("-i", script, "--dry-run") == 0
    assert fast("-i", script, "--dry-run", "--fail-on", "warning") == 3


def start(*command, **environment):
    return subprocess.run(
        [str(word) for word in command], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )


def test_the_command_does_not_import_torch(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nclass No:\n    def find_spec(self, name, *rest):\n        if name == 'torch': raise SystemExit('torch')\n"
        "sys.meta_path.insert(0, No())\n"
    )
    (tmp_path / "a.py").write_text(SCRIPT)
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    for command in (
        [sys.executable, "-m", "torch_npu.transplant"],
        [sys.executable, TOOL / "ms_fmk_transplt.py"],
        [TOOL / "ms_fmk_transplt.sh"],
    ):
        done = start(*command, "-i", tmp_path / "a.py", "--dry-run", "--no-support-check", PYTHONPATH=path, PYTHON=sys.executable)
        assert (done.returncode, "+x = torch.ones(2).npu()" in done.stdout) == (0, True), done.stderr


def test_many_files_are_converted_by_several_processes(tmp_path):
    root = tmp_path / "many"
    root.mkdir()
    for index in range(30):
        (root / f"f{index:02}.py").write_text(SCRIPT.replace("move", f"move{index}"))
    done = start(
        sys.executable, "-m", "torch_npu.transplant", "-i", root, "-o", tmp_path / "out", "--no-support-check", "-j", "3"
    )
    assert done.returncode == 0, done.stderr
    for index in range(30):
        assert (
            f"def move{index}(batch):\n    return batch.npu()" in (tmp_path / "out" / "many_msft" / f"f{index:02}.py").read_text()
        )
    files = [row["File"] for row in rows(tmp_path / "out" / "many_msft" / "change_list.csv")]
    assert files == sorted(files) and len(set(files)) == 30


def test_a_missing_package_is_named_in_one_sentence(tmp_path):
    (tmp_path / "libcst.py").write_text("raise ImportError('x', name='libcst')")
    (tmp_path / "a.py").write_text(SCRIPT)
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    done = start(sys.executable, "-m", "torch_npu.transplant", "-i", tmp_path / "a.py", "--dry-run", PYTHONPATH=path)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("ms_fmk_transplt needs the packages libcst and openpyxl") and done.stderr.count("\n") == 1
