"""`python -m tests.upstream` on a checkout with one small test file: which tests it runs, counts and prints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


RANKS_FILE = """
import unittest
import torch
from torch import distributed as dist
from torch.testing._internal.common_distributed import MultiProcessTestCase, requires_nccl, skip_if_lt_x_gpu
from torch.testing._internal.common_fsdp import FSDPTest, get_devtype
from torch.testing._internal.common_utils import TEST_CUDA, device_sleep, get_cycles_per_ms
from torch.testing._internal.distributed._tensor.common_dtensor import DTensorTestBase, with_comms


class TestRanks(FSDPTest):
    @skip_if_lt_x_gpu(2)
    def test_sum(self):
        x = torch.full((2,), float(self.rank), device=get_devtype())
        dist.all_reduce(x)
        self.assertEqual(x.device, torch.device("npu", self.rank))
        self.assertEqual(x.tolist(), [6.0, 6.0])

    def test_wrong(self):
        dist.all_reduce(torch.ones(1, device=get_devtype()))
        self.assertEqual(self.rank, 0)

    def test_alone(self):
        self.assertEqual(self.world_size, 4)

    @unittest.skip("not for this device")
    def test_skipped(self):
        self.fail("runs")

    @unittest.expectedFailure
    def test_failure_of_pytorch(self):
        self.fail("as expected")

    def test_sleep(self):
        dist.all_reduce(torch.ones(1, device=get_devtype()))
        device_sleep(get_devtype().type, int(get_cycles_per_ms(get_devtype().type)))
        self.assertTrue(TEST_CUDA)


class TestEightRanks(FSDPTest):
    world_size = 8

    def test_devices(self):
        dist.all_reduce(torch.ones(1, device=get_devtype()))
        self.assertEqual(torch.npu.current_device(), self.rank)


class TestNamedBackend(DTensorTestBase):
    backend = "nccl"

    @with_comms
    def test_sum(self):
        dist.all_reduce(torch.ones(1, device=self.device_type))


class TestWithoutGroup(FSDPTest):
    @classmethod
    def _run(cls, rank, *args, **kwargs):
        raise RuntimeError(f"no group for rank {rank}")

    def test_nothing(self):
        pass
"""


def test_distributed_tests_count_if_they_called_hccl(tmp_path):
    (tmp_path / "test" / "distributed").mkdir(parents=True)
    (tmp_path / "test" / "distributed" / "test_ranks.py").write_text(RANKS_FILE)
    report = tmp_path / "report"
    done = upstream(tmp_path, "distributed/test_ranks", "--report", report)
    assert done.returncode == 1, done.stderr
    text = report.read_text()
    row = next(line for line in text.splitlines() if line.startswith("distributed/test_ranks.py  "))
    assert row.split()[1:5] == ["4", "2", "0", "3"], text
    assert "TestRanks::test_wrong: failed" in text and "Expected 0 but got" in text
    assert "TestRanks::test_skipped: failed: skipped: not for this device" in text
    assert "RuntimeError: no group for rank 3" in text
    assert "test_alone" not in text
    assert "test_failure_of_pytorch" not in text
    assert "TestEightRanks" not in text and "TestNamedBackend" not in text


@pytest.mark.full
@pytest.mark.skipif("PYTORCH_CHECKOUT" not in os.environ, reason="PYTORCH_CHECKOUT names no checkout of PyTorch")
def test_a_sample_of_the_distributed_tests_passes(tmp_path):
    report = tmp_path / "report"
    done = upstream(os.environ["PYTORCH_CHECKOUT"], "distributed", "--count", 300, "--seed", 0, "--report", report)
    assert done.returncode == 0, done.stderr + report.read_text()
    passed, failed, known = map(int, report.read_text().splitlines()[-1].split()[1:4])
    assert passed >= 0.95 * (passed + failed + known) > 0
