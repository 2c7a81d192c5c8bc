"""Programs that were written for CUDA (tests/migration) run on npu unchanged, and do what they do on the CPU."""

import io
import json
import os
import pickle
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PROGRAMS = Path(__file__).parent / "migration"
# Relative; that of half precision.
TOLERANCE = {"amp_training": 5e-2}
NOTICE = "transfer_to_npu: cuda means npu from now on (undo() ends it)"


@pytest.fixture(scope="module")
def transfer_to_npu():
    from torch_npu.contrib import transfer_to_npu

    transfer_to_npu.undo()
    return transfer_to_npu


@pytest.fixture
def transferred(transfer_to_npu):
    with transfer_to_npu.scope():
        yield transfer_to_npu


def assert_close(found, expected, tolerance):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, tolerance)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=tolerance, abs=tolerance)
    else:
        assert found == expected


@pytest.fixture
def result_of(monkeypatch, capfd):
    def run(name):
        monkeypatch.setattr(sys, "argv", [name, "--gpu", "0"])
        torch.compiler.reset()
        runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")
        return json.loads(capfd.readouterr().out.splitlines()[-1])

    return run


@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("*.py")))
def test_a_program_for_cuda_does_what_it_does_on_the_cpu(result_of, transfer_to_npu, name):
    assert not torch.cuda.is_available()
    on_cpu = result_of(name)
    with transfer_to_npu.scope():
        assert torch.cuda.is_available()
        assert_close(result_of(name), on_cpu, TOLERANCE.get(name, 1e-4))


IMPORT = "import torch_npu.contrib.transfer_to_npu"


@pytest.mark.parametrize(
    "first", [IMPORT, f"import torch, torch.cuda.amp\n{IMPORT}", "from torch_npu.contrib import transfer_to_npu"]
)
def test_one_line_is_enough_wherever_it_stands(python, first):
    done = python(f"{first}\nimport torch\nprint(torch.cuda.is_initialized(), torch.ones(2, device='cuda').sum().cuda().item())")
    assert (done.stdout, done.stderr, done.returncode) == ("False 2.0\n", NOTICE + "\n", 0)
