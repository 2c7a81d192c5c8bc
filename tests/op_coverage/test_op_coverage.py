"""The run that writes docs/ops.md: its table, and its report of operators that run otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments, **environment):
    command = [sys.executable, "-W", "ignore", "-m", "tests.op_coverage", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The table of a run with few samples, and the errors of the run."""
    folder = tmp_path_factory.mktemp("coverage")
    done = run("--docs", folder / "ops.md", "--details", folder / "details", "--only", "logcumsumexp")
    assert done.returncode == 0, done.stderr
    return (folder / "ops.md").read_text(), (folder / "details").read_text()


def test_each_overload_is_a_row(written):
    table, _ = written
    assert "| logcumsumexp | composite | " in table
    assert "| empty_like | " in table and "not compared |" in table
    assert "| atan | not exercised | aclnnAtan | | | |" in table


def test_the_table_is_the_same_each_time_and_agrees_with_the_published_one(written, tmp_path):
    done = run("--docs", tmp_path / "ops.md", "--check", ROOT / "docs" / "ops.md", "--only", "logcumsumexp")
    assert done.returncode == 0 and " 0 otherwise than ops.md says" in done.stdout, done.stderr
    assert (tmp_path / "ops.md").read_text() == written[0]


def test_a_new_fallback_or_another_device_call_is_noticed(tmp_path):
    text = (ROOT / "docs" / "ops.md").read_text()
    assert "| atanh | aclnn | aclnnAtanh |" in text
    (tmp_path / "ops.md").write_text(text.replace("| atanh | aclnn | aclnnAtanh |", "| atanh | aclnn | aclnnTan |"))
    done = run("--check", tmp_path / "ops.md", "--only", "atan", TORCH_NPU_FORCE_FALLBACK="atan")
    assert done.returncode == 1
    assert "error: atan runs as fallback, but is published as aclnn\n" in done.stderr
    assert "error: atanh calls aclnnAtanh, but is published with aclnnTan\n" in done.stderr
    assert "atan2" not in done.stderr
