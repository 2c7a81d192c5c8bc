"""Programs of libraries that support npu give the results of a CPU without the plugin."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TRANSFERRED = (
    "import runpy, sys, torch_npu.contrib.transfer_to_npu; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


def run(program, device, *options, **environment):
    """Runs a program of the folder clients. Returns the JSON of its last line."""
    command = [sys.executable, "-W", "ignore", *options, Path(__file__).with_name("clients") / f"{program}.py", device]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def on_both(program):
    return run(program, "cpu", TORCH_DEVICE_BACKEND_AUTOLOAD="0"), run(program, "npu", TORCH_NPU_STRICT_FALLBACK="1")


def test_the_trainer_of_transformers():
    cpu, npu = on_both("trainer")
    assert npu["losses"] == pytest.approx(cpu["losses"], rel=1e-4)
    assert npu["resumed"] == pytest.approx(npu["losses"][-len(npu["resumed"]) :], rel=1e-4)
    assert npu["eval"] == pytest.approx(cpu["eval"], rel=1e-4)
    assert cpu["losses"][-1] < cpu["losses"][0]


@pytest.mark.full
def test_a_library_that_supports_npu_works_with_transfer_to_npu():
    assert run("trainer", "npu", "-c", TRANSFERRED) == run("trainer", "npu")


@pytest.mark.full
def test_the_training_of_timm():
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm cannot be imported: it is not installed")
    cpu, npu = on_both("image_training")
    # bfloat16 has 8 bits.
    assert npu == pytest.approx(cpu, rel=5e-2, abs=5e-2)
