"""Samples from the documents of the Ascend plugin run; each compares itself with the CPU."""

import runpy
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).with_name("samples")
NAMES = sorted(path.stem for path in SAMPLES.glob("*.py"))
FOR_CUDA = [name for name in NAMES if "for_cuda" in name]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", sorted(set(NAMES) - set(FOR_CUDA)))
def test_a_sample_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name])
    try:
        runpy.run_path(str(SAMPLES / f"{name}.py"), run_name="__main__")
    except SystemExit as end:
        assert end.code in (None, 0, False)


@pytest.mark.parametrize("name", FOR_CUDA)
def test_a_sample_for_cuda_runs(name, python):
    done = python("import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')", SAMPLES / f"{name}.py")
    assert done.returncode == 0, done.stderr


def test_import_torch_alone_is_enough(python, tmp_path):
    alone = [name for name in NAMES if "torch_npu" not in (SAMPLES / f"{name}.py").read_text()]
    assert len(alone) >= 5
    done = python(
        """
        import os, runpy, sys
        os.chdir(sys.argv[1])
        for sample in sys.argv[2:]:
            runpy.run_path(sample, run_name="__main__")
        """,
        tmp_path,
        *(SAMPLES / f"{name}.py" for name in alone),
    )
    assert done.returncode == 0, done.stderr
