"""What every test of the plugin gets: the device, no fallback to the CPU unless it asks for one, and nothing left behind."""

import gc
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

SCRATCH = tempfile.TemporaryDirectory(prefix="torch_npu_tests_")
for folder in ("log", "ledger", "empty"):
    Path(SCRATCH.name, folder).mkdir()

# Nothing is written to the user's home.
os.environ.setdefault("ASCEND_PROCESS_LOG_PATH", f"{SCRATCH.name}/log")

# What other processes hold of the device is none of a test's business.
os.environ.setdefault("SOFTNPU_LEDGER_DIR", f"{SCRATCH.name}/ledger")

# Without the wheel only the code generators can be tested.
INSTALLED = importlib.util.find_spec("torch_npu") is not None
collect_ignore_glob = [] if INSTALLED else ["test_*.py", "clients/*", "ops/*", "models/*"]


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="the tests that build or install something, too")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: builds or installs something; runs with --full only")
    config.addinivalue_line("markers", "fallback: runs operators on the CPU on purpose")


def pytest_collection_finish():
    # What is loaded by now stays until the end: gc.collect() of a test need not walk through it.
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: "empty_device" not in item.fixturenames)
    if config.getoption("--full"):
        return
    for item in items:
        if "full" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="only with --full"))


@pytest.fixture(autouse=True)
def no_fallback(request):
    """Strict mode: an operator that npu lacks fails the test that uses it."""
    if not INSTALLED or "torch_npu" not in sys.modules:
        yield
        return
    import torch

    torch.npu.set_strict_fallback("fallback" not in request.keywords)
    yield
    torch.npu.set_strict_fallback(False)
    torch.npu.reset_fallback_stats()


@pytest.fixture(autouse=True)
def seeded():
    """Every test draws the same numbers, whichever ran before it."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(autouse=True)
def flags_may_be_set(monkeypatch):
    """Programs set flags of cuDNN. Some test imports torch.testing, which forbids that to the whole process."""
    if "torch" in sys.modules:
        flags = sys.modules["torch"].backends.flags_frozen.__globals__
        monkeypatch.setitem(flags, "__allow_nonbracketed_mutation_flag", True)


@pytest.fixture(scope="session")
def python():
    """Runs a program in a process of its own, away from the source tree, and gives the finished process."""

    def run(program, *arguments, **environment):
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
            env={**os.environ, **environment},
            cwd=f"{SCRATCH.name}/empty",
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


@pytest.fixture
def empty_device():
    """Nothing of earlier tests is held or cached. Tests that use it run before all others, which may leave something."""
    import torch

    gc.collect()
    torch.npu.synchronize()
    torch.npu.empty_cache()


@pytest.fixture(scope="session")
def _children():
    server = subprocess.Popen(
        [sys.executable, ROOT / "tests" / "children.py"],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield server
    server.communicate()


@pytest.fixture(scope="session")
def child(_children, tmp_path_factory):
    """As `python`, in a process that is born with torch imported: for programs that say nothing about how Python starts."""

    def run(program, *arguments, **environment):
        folder = tmp_path_factory.mktemp("child")
        stdout, stderr = folder / "stdout", folder / "stderr"
        stdout.touch(), stderr.touch()
        request = {
            "program": textwrap.dedent(program),
            "arguments": [str(argument) for argument in arguments],
            "environment": {**os.environ, **environment},
            "folder": f"{SCRATCH.name}/empty",
            "stdout": str(stdout),
            "stderr": str(stderr),
        }
        print(json.dumps(request), file=_children.stdin, flush=True)
        status = int(_children.stdout.readline())
        return subprocess.CompletedProcess(request["program"], status, stdout.read_text(), stderr.read_text())

    return run
