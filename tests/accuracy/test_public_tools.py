"""Other programs read our dumps: h5copy, and msaccucmp and compare of msprobe (mindstudio-probe on PyPI)."""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_npu  # noqa: F401
from torch import nn
from torch_npu.accuracy import PrecisionDebugger
from torch_npu.capture import Capture, JsonWriter
from torch_npu.tools.accuracy.runs import open_run

h5py = pytest.importorskip("h5py")
pytestmark = pytest.mark.full


def step(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(144, 5)).to(
        device
    )
    loss = nn.functional.cross_entropy(model(torch.randn(2, 3, 8, 8).to(device)), torch.tensor([1, 3]).to(device))
    loss.backward()
    return model


@pytest.fixture
def msprobe():
    """The folder of the package."""
    try:
        importlib.metadata.version("mindstudio-probe")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("mindstudio-probe is missing: pip install mindstudio-probe")
    return Path(importlib.util.find_spec("msprobe").origin).parent


def test_h5copy_extracts_operators_that_can_be_replayed(tmp_path):
    h5copy = shutil.which("h5copy")
    if h5copy is None:
        pytest.skip("h5copy is missing: apt-get install hdf5-tools")
    path, out = tmp_path / "all.h5", tmp_path / "some.h5"
    with torch.utils.dumper(use_dump=True, dump_path=path):
        step("npu")
    names = ["linear", "conv2d", "AddmmBackward0"]
    with h5py.File(path) as file:
        groups = [f"/{name}/{next(iter(file[name]))}/" for name in names]
    for group in groups:
        subprocess.run([h5copy, "-pv", "-i", path, "-o", out, "-s", group, "-d", group], check=True)
    copied, whole = open_run(out).ops, {op.path: op for op in open_run(path).ops}
    assert {op.name for op in copied} == set(names)
    for op in copied:
        for mine, other in zip(op.outputs, whole[op.path].outputs, strict=True):
            assert mine.digest == other.digest and mine.type == other.type
    with torch.utils.dumper(use_load=True, load_file_path=out, dump_path=tmp_path / "again.h5"):
        step("cpu")
    again = {op.path: op for op in open_run(tmp_path / "again.h5").ops}
    assert {op.path for op in copied} <= set(again)


@pytest.mark.parametrize(("golden", "factor"), [("cpu", 1.0), ("npu", 1.5)])
def test_msaccucmp_of_msprobe_reads_our_hdf5_files(tmp_path, msprobe, golden, factor):
    for name, device in (("golden", golden), ("mine", "npu")):
        with torch.utils.dumper(use_dump=True, dump_path=tmp_path / f"{name}.h5"):
            x = torch.linspace(0.1, 1, 12).to(device)
            (x.view(3, 4).t() * (factor if name == "mine" else 1)).exp()
            step(device)
    words = ["compare", "-m", tmp_path / "mine.h5", "-g", tmp_path / "golden.h5", "-out", tmp_path]
    subprocess.run([sys.executable, msprobe / "msaccucmp/msaccucmp.py", *words], capture_output=True, cwd=tmp_path)
    (table,) = tmp_path.glob("result_*.csv")
    rows = list(csv.DictReader(table.open()))
    found = {row["NPUDump"]: row for row in rows if "/output/" in row["NPUDumpPath"]}
    assert {"conv2d", "linear", "exp", "AddmmBackward0"} <= set(found)
    assert float(found["linear"]["CosineSimilarity"]) > 0.9999
    assert (float(found["exp"]["MaxAbsoluteError"]) < 1e-5) == (factor == 1.0)


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("kind", ["functions", "operators"])
def test_compare_of_msprobe_reads_our_json_files(tmp_path, msprobe, task, kind):
    for device in ("cpu", "npu"):
        folder = tmp_path / device / "step0/rank0"
        if kind == "functions":
            debugger = PrecisionDebugger(task=task, dump_path=tmp_path / device, level="mix")
            debugger.start()
            step(device)
            debugger.stop()
        else:
            with Capture(JsonWriter(folder, tensors=task == "tensor"), mode=task):
                step(device)
    words = ["--target_path", tmp_path / "npu/step0/rank0/dump.json", "--golden_path", tmp_path / "cpu/step0/rank0/dump.json"]
    run = "import sys; from msprobe.msprobe import main; sys.exit(main())"
    words = [sys.executable, "-c", run, "compare", *words, "--output_path", tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    tables = list(tmp_path.glob("compare_result_*.csv"))
    assert len(tables) == 1, done.stderr[-2000:] + done.stdout[-2000:]
    rows = list(csv.DictReader(tables[0].open()))
    name = "Functional.linear.0.forward.output.0" if kind == "functions" else "Aten.linear.0.forward.output.0"
    (row,) = [row for row in rows if row["NPU Name"] == name]
    assert row["Bench Name"] == name
    if task == "tensor":
        assert float(row["Cosine"]) > 0.9999 and float(row["MaxAbsErr"]) < 1e-4
    else:
        assert abs(float(row["Max diff"])) < 1e-4
