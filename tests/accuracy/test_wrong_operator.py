"""msaccucmp with two dumps, and python -m torch_npu.accuracy, name the wrong operator of a training step first."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest
import torch
import torch_npu
from torch import nn
from torch_npu.accuracy import _command
from torch_npu.capture import Capture, Hdf5Writer
from torch_npu.tools.accuracy import cli
from torch_npu.tools.report import read_data

pytest.importorskip("h5py")

# Launches of functions of the device in step().
LAUNCHES = {
    "aclnnMm": 4, "aclnnReduceSum": 2, "aclnnBatchNorm": 1, "aclnnRelu": 1, "aclnnThresholdBackward": 1, "aclnnGeluV2": 1,
    "aclnnGeluBackwardV2": 1, "aclnnLogSoftmax": 1, "aclnnLogSoftmaxBackward": 1, "aclnnAddmm": 2, "aclnnNLLLoss": 1,
    "aclnnNLLLossBackward": 1, "aclnnConvolution": 1, "aclnnConvolutionBackward": 1, "aclnnBatchNormBackward": 1,
    "aclnnLayerNorm": 1, "aclnnLayerNormBackward": 1, "aclnnAdds": 1, "aclnnInplaceFillScalar": 1,
}  # fmt: skip
PLACES = [(name, number) for name, count in LAUNCHES.items() for number in range(1, count + 1)]


def network():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 16), nn.GELU(), nn.LayerNorm(16)]
    return nn.Sequential(*layers, nn.Linear(16, 5), nn.LogSoftmax(1)).npu()


def step(model):
    x = torch.linspace(-1, 1, 2 * 3 * 8 * 8).npu().view(2, 3, 8, 8)
    nn.functional.nll_loss(model(x), torch.tensor([1, 3]).npu()).backward()


def injected():
    torch.npu.synchronize()
    return torch_npu.softnpu.fault_counts()["injected"]


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    path = tmp_path_factory.mktemp("golden") / "golden.h5"
    model = network()
    with Capture(Hdf5Writer(path)):
        step(model)
    return path


CHOSEN = [
    pytest.param(*place, marks=[] if i < 4 else pytest.mark.full) for i, place in enumerate(random.Random(22).sample(PLACES, 20))
]


@pytest.mark.parametrize(("function", "number"), CHOSEN)
def test_the_wrong_operator_is_named_first(function, number, golden, tmp_path, capsys):
    calls, culprits, model = [], [], network()

    def before(name, backward, values):
        """Records the call that contained the fault."""
        if not culprits and injected():
            culprits.append((calls[-1], len(calls)))
        calls.append(name)
        return 0

    with (
        torch_npu.softnpu.faults(f"wrong:{function}:{number}"),
        Capture(Hdf5Writer(tmp_path / "mine.h5"), before=before),
    ):
        step(model)
        assert injected() == 1
    (culprit, sequence) = culprits[0] if culprits else (calls[-1], len(calls))
    status = cli.main(["compare", "-m", str(tmp_path / "mine.h5"), "-g", str(golden), "-out", str(tmp_path)])
    (page,) = tmp_path.glob("*.html")
    first = read_data(page.read_text())["first"]
    assert status == 1 and (first["name"], first["number"], first["state"]) == (culprit, sequence, "error")
    assert f"the first wrong operator is {culprit}" in capsys.readouterr().out


def test_the_command_names_it_and_writes_a_program_that_fails(tmp_path, capsys):
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).npu()\n"
        "for _ in range(2):\n"
        "    model(torch.randn(4, 8).npu()).sum().backward()\n"
    )
    with torch_npu.softnpu.faults("wrong:aclnnGeluV2:1+"):
        status = _command.main(["--out", str(tmp_path / "out"), str(tmp_path / "train.py")])
    data = json.loads((tmp_path / "out/report.json").read_text())
    assert status == 1 and [found["operator"] for found in data["findings"]] == ["aten::gelu"]
    found = data["findings"][0]
    assert found["module"] == "1" and "train.py:4" in found["line"] and found["calls"] == 2
    assert "the first result" not in capsys.readouterr().out
    words = [sys.executable, found["program"]]
    for faults, expected in (("wrong:aclnnGeluV2:1+", 1), ("", 0)):
        done = subprocess.run(words, capture_output=True, text=True, cwd="/", env={**os.environ, "SOFTNPU_FAULTS": faults})
        assert done.returncode == expected, done.stderr
        assert ("units of float32" in done.stderr) == bool(expected)
