"""AclWriter: dump files of operators from runs on any device."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import torch
from torch_npu import softnpu
from torch_npu.capture import AclWriter, Capture
from torch_npu.tools.accuracy import cli
from torch_npu.tools.accuracy.dump_data import parse_name, read


def test_runs_on_the_cpu_have_dump_files_too(tmp_path, capsys):
    def network(device):
        torch.manual_seed(0)
        layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5)]
        return torch.nn.Sequential(*layers).to(device), torch.randn(2, 3, 8, 8).to(device), torch.tensor([1, 3]).to(device)

    for name, device in (("golden", "cpu"), ("mine", "npu"), ("wrong", "npu")):
        faults = softnpu.faults("wrong:aclnnRelu:1") if name == "wrong" else contextlib.nullcontext()
        model, x, target = network(device)
        with faults, Capture(AclWriter(tmp_path / name, device=3)):
            torch.nn.functional.cross_entropy(model(x), target).backward()
    names = [parse_name(path.name) for path in (tmp_path / "mine").glob("*/3/0/0/*")]
    assert {"linear", "AddmmBackward0"} <= {name.type for name in names} and len({name.time for name in names}) == len(names)
    words = ["compare", "-g", str(tmp_path / "golden"), "-out", str(tmp_path / "out"), "-m"]
    assert cli.main([*words, str(tmp_path / "mine")]) == 0
    assert cli.main([*words, str(tmp_path / "wrong")]) == 1
    assert "the first wrong operator is relu relu_0" in capsys.readouterr().out
    assert cli.main(["convert", "-d", str(tmp_path / "golden"), "-out", str(tmp_path / "npy")]) == 0
    assert len(list((tmp_path / "npy").glob("linear.linear_0.*.output.0.npy"))) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.int64, torch.bool, torch.float8_e5m2, torch.complex32])
def test_every_type_is_in_the_file_as_it_is(dtype, tmp_path):
    x = torch.tensor([[1.0, 0.0], [3.0, 4.0]]).to(dtype).t()
    with Capture(AclWriter(tmp_path), operators="clone") as capture:
        x.clone()
        x[:0].clone()
        x[0, 0].clone()
    assert capture.failure is None
    whole, empty, one = (read(path) for path in sorted(tmp_path.rglob("clone.*")))
    assert whole.inputs[0].data == x.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    assert [dump.inputs[0].shape for dump in (whole, empty, one)] == [(2, 2), (0, 2), ()]
    assert [len(dump.outputs[0].data) for dump in (whole, empty, one)] == [4 * x.element_size(), 0, x.element_size()]


def test_a_full_disk_stops_the_dump_and_leaves_whole_files(tmp_path, monkeypatch, capfd):
    count = []

    def full(self, data):
        count.append(1)
        if len(count) > 1:
            raise OSError(28, "No space left on device")
        return write_bytes(self, data)

    write_bytes = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", full)
    with Capture(AclWriter(tmp_path), operators="neg"):
        for _ in range(3):
            torch.neg(torch.ones(2))
    told = capfd.readouterr().err
    assert "cannot be written: No space left on device" in told and "the program goes on" in told
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert read(path).inputs[0].values().tolist() == [1, 1]
