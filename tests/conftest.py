"""Fixtures and options of all tests. Operators that fall back to the CPU fail a test that is not marked `fallback`."""

import gc
import importlib.util
import json
import os
import signal
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

# A shell ignores SIGINT for programs in the background. The programs of the tests would inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Nothing is written to the user's home.
os.environ.setdefault("ASCEND_PROCESS_LOG_PATH", f"{SCRATCH.name}/log")

# Tests do not see the memory that other processes hold.
os.environ.setdefault("SOFTNPU_LEDGER_DIR", f"{SCRATCH.name}/ledger")

# Without torch_npu only these folders are collected.
WITHOUT_PLUGIN = {"codegen", "fuzz", "upstream"}
INSTALLED = importlib.util.find_spec("torch_npu") is not None
FOLDERS = {path.name for path in Path(__file__).parent.iterdir() if path.is_dir()}
collect_ignore_glob = [] if INSTALLED else [f"{name}/*" for name in FOLDERS - WITHOUT_PLUGIN]


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also run tests that build or install something, or take long")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: builds or installs something, or takes long; runs with --full only")
    config.addinivalue_line("markers", "fallback: runs operators on the CPU on purpose")


def pytest_collection_finish():
    # Objects of the loaded modules live until the end: gc.collect() of a test skips them.
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: "empty_device" not in item.fixturenames)
    if config.getoption("--full"):
        return
    for item in items:
        if item.get_closest_marker("full"):  # keywords also hold the names of folders
            item.add_marker(pytest.mark.skip(reason="only with --full"))


@pytest.fixture(autouse=True)
def no_fallback(request):
    """Strict fallback mode: an operator that npu lacks fails the test that uses it."""
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
    """A test draws the same random numbers whichever tests ran before it."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(autouse=True)
def flags_may_be_set(monkeypatch):
    """Lets programs set cuDNN flags. torch.testing, once imported, forbids that in the whole process."""
    if "torch" in sys.modules:
        flags = sys.modules["torch"].backends.flags_frozen.__globals__
        monkeypatch.setitem(flags, "__allow_nonbracketed_mutation_flag", True)


def environment_with(variables):
    """The environment of this process with other variables. A device of a given size is not shared with other processes."""
    if "SOFTNPU_DEVICE_MEMORY" in variables:
        variables = {"SOFTNPU_LEDGER_DIR": tempfile.mkdtemp(dir=f"{SCRATCH.name}/ledger"), **variables}
    return {**os.environ, **variables}


@pytest.fixture(scope="module")
def browser():
    """A driver of a headless Chromium; see browser.py."""
    from tests.browser import start

    driver = start()
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def python():
    """Runs a program in a new Python process outside the source tree, and returns the finished process."""

    def run(program, *arguments, **environment):
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
            env=environment_with(environment),
            cwd=f"{SCRATCH.name}/empty",
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


@pytest.fixture
def empty_device():
    """No tensor is held and no memory is cached. Tests with this fixture run first, because others may leave tensors behind."""
    import torch

    gc.collect()
    torch.npu.synchronize()
    torch.npu.empty_cache()


@pytest.fixture(scope="session")
def _fork_server():
    server = subprocess.Popen(
        [sys.executable, ROOT / "tests" / "fork_server.py"],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield server
    server.communicate()


@pytest.fixture(scope="session")
def child(_fork_server, tmp_path_factory):
    """Like `python`, but the process is forked and has already imported torch. It starts faster."""

    def run(program, *arguments, **environment):
        folder = tmp_path_factory.mktemp("child")
        stdout, stderr = folder / "stdout", folder / "stderr"
        stdout.touch(), stderr.touch()
        request = {
            "program": textwrap.dedent(program),
            "arguments": [str(argument) for argument in arguments],
            "environment": environment_with(environment),
            "folder": f"{SCRATCH.name}/empty",
            "stdout": str(stdout),
            "stderr": str(stderr),
        }
        print(json.dumps(request), file=_fork_server.stdin, flush=True)
        status = int(_fork_server.stdout.readline())
        return subprocess.CompletedProcess(request["program"], status, stdout.read_text(), stderr.read_text())

    return run
