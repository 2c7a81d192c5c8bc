"""Eight threads on eight streams each get the results of one thread on the CPU."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


def stress(mode, seconds):
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("stress.py"), f"--seconds={seconds}"],
        env={**os.environ, "SOFTNPU_LAUNCH": mode},
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        timeout=seconds * 2 + 300,
    )
    assert done.returncode == 0, f"SOFTNPU_LAUNCH={mode}\n{done.stdout[-200:]}\n{done.stderr}"


@pytest.mark.parametrize("mode", ["hybrid", "queue"])
def test_threads_and_streams_do_not_change_results(mode):
    stress(mode, 2)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["hybrid", "queue", "sync"])
def test_threads_and_streams_do_not_change_results_for_long(mode):
    stress(mode, float(os.environ.get("SOFTNPU_STRESS_SECONDS", "60")))
