"""A process of examples/imagenet is killed in the second epoch. torchrun restarts all processes, which end with the same
weights."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT
from tests.distributed.rank_processes import free_port, shared_memory

PROGRAM = ROOT / "examples" / "imagenet" / "main.py"
TRANSFER = (
    "import runpy, sys, torch_npu.contrib.transfer_to_npu; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
)
OPTIONS = [
    "--arch", "shufflenet_v2_x0_5", "--workers", "0", "--image-size", "32", "--print-freq", "1", "--seed", "1", "--lr", "0.01",
    "--epochs", "3", "--resume", "auto",
]  # fmt: skip
STEPS = 6


def process_of(launcher, rank):
    """The process that torchrun has started for a rank."""
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        with contextlib.suppress(OSError):
            if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                return int(child)
    raise AssertionError(f"torchrun has no process for rank {rank}")


def train(folder, ranks, is_cuda, is_harmed):
    """Trains and returns the last checkpoint. With `is_harmed`, the last rank is killed in the second epoch."""
    folder.mkdir()
    before = shared_memory()
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", "--max-restarts=1",
                f"--master-port={free_port()}"]  # fmt: skip
    program = ["--no-python", sys.executable, "-c", TRANSFER, PROGRAM, "--device", "gpu"] if is_cuda else [PROGRAM]
    images = ["--batch-size", str(2 * ranks), "--synthetic-images", str(2 * ranks * STEPS)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_NPU_STRICT_FALLBACK": "1"}
    with (folder / "errors").open("w") as errors, subprocess.Popen(
        [*launcher, *program, *OPTIONS, *images], stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder, env=environment
    ) as torchrun:  # fmt: skip
        lines = []
        for line in torchrun.stdout:
            lines.append(line)
            if is_harmed and line.startswith("Epoch: [1][0/"):
                os.kill(process_of(torchrun.pid, ranks - 1), signal.SIGKILL)
                is_harmed = False
    output = "".join(lines)
    assert torchrun.returncode == 0, output + (folder / "errors").read_text()[-3000:]
    assert shared_memory() == before
    assert {path.name for path in folder.iterdir()} <= {"checkpoint.pth.tar", "model_best.pth.tar", "errors"}
    return torch.load(folder / "checkpoint.pth.tar", map_location="cpu", weights_only=True), output


@pytest.mark.full
@pytest.mark.parametrize(("ranks", "is_cuda"), [(2, False), (8, False), (2, True), (8, True)])
def test_a_killed_process_does_not_change_the_weights(tmp_path, ranks, is_cuda):
    expected, undisturbed = train(tmp_path / "undisturbed", ranks, is_cuda, is_harmed=False)
    assert "loaded checkpoint" not in undisturbed
    state, output = train(tmp_path / "harmed", ranks, is_cuda, is_harmed=True)
    assert "loaded checkpoint checkpoint.pth.tar (epoch 1)" in output
    assert state["epoch"] == expected["epoch"] == 3
    assert state["state_dict"].keys() == expected["state_dict"].keys()
    for name, value in expected["state_dict"].items():
        assert torch.equal(state["state_dict"][name], value), name
