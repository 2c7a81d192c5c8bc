"""Unchanged libraries train on two ranks on npu. Losses and weights equal those of one process on the CPU."""

import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.distributed.rank_processes import free_port

CLIENTS = Path(__file__).resolve().parents[1] / "migration" / "clients"


def start(program, *arguments, ranks=0):
    """Runs a program, with torchrun if there are ranks, and returns the JSON that it prints."""
    command = [sys.executable, "-W", "ignore"]
    if ranks:
        where = ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
        command += ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), *where]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HCCL_WHITELIST_DISABLE": "1"}
    environment.setdefault("ASCEND_HOME_PATH", tempfile.gettempdir())  # deepspeed asks for it
    done = subprocess.run(
        [*command, str(CLIENTS / program), *arguments], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"losses"')))


reference = functools.cache(start)


def compare(found, expected, tolerance=1e-4):
    assert len(found["losses"]) == len(expected["losses"]) > 0
    assert found["losses"] == pytest.approx(expected["losses"], rel=tolerance, abs=tolerance)
    assert found["weights"].keys() == expected["weights"].keys()
    assert list(found["weights"].values()) == pytest.approx(list(expected["weights"].values()), rel=10 * tolerance, abs=1e-3)


@pytest.mark.parametrize("kind", ["ddp", pytest.param("fsdp2", marks=pytest.mark.full)])
def test_accelerate_trains_on_two_ranks(kind):
    compare(start("accelerate_ranks.py", "npu", kind, ranks=2), reference("accelerate_ranks.py", "cpu", "plain"))


@pytest.mark.full
def test_the_trainer_of_transformers_trains_on_two_ranks():
    # The logged loss depends on the number of ranks, so the CPU run also has two ranks.
    compare(start("trainer_ranks.py", "npu", ranks=2), start("trainer_ranks.py", "cpu", ranks=2), 2e-3)


def needs(package, wanted):
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"pip install '{wanted}'")


@pytest.mark.full
@needs("deepspeed", "deepspeed>=0.18,<1")
def test_deepspeed_trains_with_zero_2_on_two_ranks():
    compare(start("deepspeed_ranks.py", "npu", ranks=2), reference("deepspeed_ranks.py", "cpu"))


@pytest.mark.full
@needs("lightning", "lightning>=2.5,<3")
def test_lightning_trains_on_two_ranks():
    compare(start("lightning_ranks.py", "npu", "ddp_npu", ranks=2), reference("lightning_ranks.py", "cpu", "auto"))
