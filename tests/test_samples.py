"""The samples that users know from the documents of the Ascend plugin run; each checks itself against the CPU."""

import runpy
import sys
from pathlib import Path

import pytest
from torch_npu.contrib import transfer_to_npu

transfer_to_npu.undo()

SAMPLES = Path(__file__).parent / "samples"
NAMES = sorted(path.stem for path in SAMPLES.glob("*.py"))


@pytest.fixture(autouse=True)
def clean_up():
    yield
    transfer_to_npu.undo()


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "for_cuda" in name:
        transfer_to_npu.apply()  # its import is not the first one of this process
    monkeypatch.setattr(sys, "argv", [name])
    try:
        runpy.run_path(str(SAMPLES / f"{name}.py"), run_name="__main__")
    except SystemExit as end:
        assert end.code in (None, 0, False)


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
