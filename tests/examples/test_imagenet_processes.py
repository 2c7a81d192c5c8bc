"""The trainer of examples/imagenet with several processes, and the commands of the documents up to a checkpoint."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT
from tests.distributed.rank_processes import free_port
from tests.examples.imagenet_folder import make_folder
from tests.examples.test_imagenet import SEVERAL, SINGLE, losses, same

PROGRAM = ROOT / "examples" / "imagenet" / "main.py"
QUICK = ["--workers", "0", "--image-size", "32", "--print-freq", "1"]


@pytest.fixture
def train(tmp_path):
    """Runs the trainer in an empty folder and returns the finished process."""

    def run(*arguments, launcher=(), **environment):
        return subprocess.run(
            [sys.executable, *launcher, PROGRAM, *map(str, arguments)],
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "TORCH_NPU_STRICT_FALLBACK": "1",
                "MASTER_PORT": str(free_port()),
                **environment,
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=1500,
        )

    return run


def checkpoint(folder):
    return torch.load(Path(folder, "checkpoint.pth.tar"), map_location="cpu", weights_only=True)


def assert_trained(done, folder, epoch=1):
    assert done.returncode == 0, done.stderr[-3000:]
    state = checkpoint(folder)
    assert state["epoch"] == epoch
    assert all(torch.isfinite(value).all() for value in state["state_dict"].values())
    assert [path.name for path in folder.glob("*.tar.*")] == []
    return state


def test_eight_processes_train_resnet18(train, tmp_path):
    done = train(*QUICK, "--arch", "resnet18", "--multiprocessing-distributed", "--dist-backend", "hccl", "--batch-size", 32,
                 "--synthetic-images", 64, "--epochs", 1, "--seed", 1, "--lr", 0.01)  # fmt: skip
    state = assert_trained(done, tmp_path)
    assert [line.split("\t")[0] for line in done.stdout.splitlines() if "Epoch" in line] == ["Epoch: [0][0/2]", "Epoch: [0][1/2]"]
    assert state["arch"] == "resnet18" and set(state) == {"epoch", "arch", "state_dict", "best_acc1", "optimizer"}


SMALL = ["--arch", "shufflenet_v2_x0_5", "--batch-size", 16, "--synthetic-images", 32, "--seed", 1, "--lr", 0.01]


@pytest.mark.full
def test_hccl_trains_as_gloo_does(train, tmp_path):
    several = [*QUICK, *SMALL, "--multiprocessing-distributed", "--device-list", "0,1", "--epochs", 1]
    npu = train(*several)
    weights = assert_trained(npu, tmp_path)["state_dict"]
    cpu = train(*several, "--device", "cpu")
    expected = assert_trained(cpu, tmp_path)["state_dict"]
    assert losses(npu.stdout)[:2] == pytest.approx(losses(cpu.stdout)[:2], rel=1e-3)
    for name, value in expected.items():
        if "running" not in name:
            torch.testing.assert_close(weights[name], value, rtol=1e-3, atol=1e-3, msg=name)


# The gradients of this network overflow with the default scale, which is constant.
LEVELS = {"float32": [], "O2": ["--amp", "--loss-scale", "16"], "O1": ["--amp", "--opt-level", "O1", "--loss-scale", "-1"]}


@pytest.mark.full
@pytest.mark.parametrize("level", LEVELS)
def test_several_processes_resume_where_they_stopped(train, tmp_path, level):
    several = [*QUICK, *SMALL, *LEVELS[level], "--multiprocessing-distributed", "--device-list", "0,1"]
    unbroken = assert_trained(train(*several, "--epochs", 2), tmp_path, epoch=2)
    assert_trained(train(*several, "--epochs", 1), tmp_path)
    resumed = assert_trained(train(*several, "--epochs", 2, "--resume", "checkpoint.pth.tar"), tmp_path, epoch=2)
    assert same(resumed, unbroken)


@pytest.mark.full
def test_torchrun_starts_the_processes(train, tmp_path):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    assert_trained(train(*QUICK, *SMALL, "--epochs", 1, launcher=launcher), tmp_path)


@pytest.mark.full
def test_two_nodes_of_one_machine_train_together(train, tmp_path):
    address = ["--dist-url", f"tcp://127.0.0.1:{free_port()}", "--world-size", "2", "--multiprocessing-distributed"]
    command = [sys.executable, PROGRAM, *QUICK, *map(str, SMALL), *address, "--epochs", "1"]
    (tmp_path / "second").mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    second = subprocess.Popen([*command, "--rank", "1", "--device-list", "2,3"], cwd=tmp_path / "second", env=environment)
    done = train(*command[2:], "--rank", "0", "--device-list", "0,1")
    assert second.wait(300) == 0
    assert same(assert_trained(done, tmp_path), checkpoint(tmp_path / "second"))


@pytest.mark.full
def test_processes_load_images_beside_the_training(train, tmp_path):
    folder = make_folder(tmp_path / "data", train=32, val=8)
    assert_trained(train(folder, *SMALL, "--image-size", 32, "--workers", 2, "--epochs", 1), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("arch", ["alexnet", "vgg11", "shufflenet_v2_x1_0", "shufflenet_v2_x1_0_tuned"])
def test_other_networks_of_the_documents_train(train, tmp_path, arch):
    options = ["--arch", arch, "--image-size", 64, "--batch-size", 4, "--workers", 0, "--lr", 0.001, "--synthetic-images", 8]
    assert_trained(train(*options, "--epochs", 1), tmp_path)


APPENDED = ["--epochs", "1", "--image-size", "32", "--workers", "0"]


@pytest.mark.full
def test_the_command_of_the_documents_for_one_device_runs(train, tmp_path):
    folder = make_folder(tmp_path / "data", train=256, val=16)
    done = train(*SINGLE.replace("DATA", str(folder)).split(), "--print-freq", 1, *APPENDED)
    assert assert_trained(done, tmp_path)["arch"] == "resnet50"
    assert done.stdout.count("Epoch: [0]") == 2
    done = train(*SINGLE.replace("DATA", str(folder)).split(), *APPENDED, "--epochs", 2, "--resume", "checkpoint.pth.tar")
    assert_trained(done, tmp_path, epoch=2)


@pytest.mark.full
def test_the_command_of_the_documents_for_eight_devices_runs(train, tmp_path):
    folder = make_folder(tmp_path / "data", train=4096, val=64)
    # The documents ask the reader to write the address of the machine.
    command = SEVERAL.replace("DATA", str(folder)).replace("1.1.1.1", "127.0.0.1").split()
    done = train(*command, *APPENDED)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("Epoch: [0]") == 2
    state = checkpoint(tmp_path)
    assert (state["epoch"], state["arch"], set(state["amp"])) == (1, "resnet50", {"loss_scaler0"})
    assert train(*command, *APPENDED, "--epochs", 2, "--resume", "checkpoint.pth.tar").returncode == 0
    assert checkpoint(tmp_path)["epoch"] == 2
