"""`python -m tests.upstream` on a checkout with one small test file: which tests it runs, counts and prints."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FILE = """
import os
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCPU, dtypes
from torch.testing._internal.common_utils import TestCase


class TestSmall(TestCase):
    @dtypes(torch.float32, torch.int64)
    def test_sum(self, device, dtype):
        self.assertEqual(torch.ones(3, device=device, dtype=dtype).sum(), 3)

    def test_wrong(self, device):
        self.assertEqual(torch.ones(3, device=device).device.type, "cuda")

    def test_crash(self, device):
        os.abort()

    @onlyCPU
    def test_gated(self, device):
        self.fail("runs on the CPU only")


class TestPlain(TestCase):
    def test_no_device(self):
        self.fail("has nothing to do with a device")


instantiate_device_type_tests(TestSmall, globals(), only_for="npu")
"""


def upstream(*arguments):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.upstream", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
    )


def checkout(folder):
    (folder / "test").mkdir()
    (folder / "test" / "test_small.py").write_text(FILE)
    return folder


def test_every_test_of_the_device_is_counted(tmp_path):
    report = tmp_path / "report"
    done = upstream(checkout(tmp_path), "test_small", "--report", report)
    assert done.returncode == 1, done.stderr
    text = report.read_text()
    row = next(line for line in text.splitlines() if line.startswith("test_small.py  "))
    assert row.split()[1:5] == ["2", "2", "0", "1"], text
    assert "test_small.py::TestSmallNPU::test_crash_npu: crashed: the process ended with SIGABRT" in text
    assert "test_small.py::TestSmallNPU::test_wrong_npu: failed" in text
    assert "'npu' != 'cuda'" in text


def test_chosen_tests_pass(tmp_path):
    done = upstream(checkout(tmp_path), "test_small.py", "--only", "test_sum")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 unexpected" in done.stdout


def test_a_file_that_the_checkout_lacks_is_named(tmp_path):
    done = upstream(checkout(tmp_path), "test_small", "test_absent")
    assert done.returncode == 2
    assert f"{tmp_path}/test has no test_absent.py" in done.stderr
