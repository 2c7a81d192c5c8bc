"""npu-smi shows the memory of processes; it needs neither torch nor a device."""

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch_npu
from torch_npu import _commands

MIB = 1 << 20
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def smi(tmp_path):
    environment = {**os.environ, "SOFTNPU_LEDGER_DIR": str(tmp_path), "SOFTNPU_DEVICE_COUNT": "2", "SOFTNPU_DEVICE_MEMORY": "1G"}

    def run(*arguments, start=("-m", "torch_npu.tools.smi"), **more):
        command = [sys.executable, *start, *arguments]
        return subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, timeout=120, cwd=tmp_path)

    run.environment = environment
    return run


@pytest.fixture
def worker(smi):
    """A process that holds 64 MiB of npu:1, and keeps its stream busy while it waits for a line."""
    program = """
    import ctypes, sys, torch
    held = torch.ones(16 << 20, device="npu:1")
    torch.npu.synchronize(1)
    libc, device = ctypes.CDLL(None), ctypes.CDLL(torch.npu.library_info()["path"])
    gate, is_held = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    for semaphore in (gate, is_held):
        libc.sem_init(semaphore, 0, 0)
    stream = ctypes.c_void_p(torch.npu.current_stream(1).npu_stream)
    with torch.npu.device(1):
        for function, semaphore in ((libc.sem_post, is_held), (libc.sem_wait, gate)):
            assert device.aclrtLaunchHostFunc(stream, function, semaphore) == 0
    libc.sem_wait(is_held)
    print("ready", flush=True)
    sys.stdin.readline()
    libc.sem_post(gate)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=smi.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    yield process
    process.communicate("\n", timeout=120)


def test_the_table_shows_memory_and_processes(smi, worker):
    done = smi("info")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert torch_npu.__version__ in lines[1]
    for title in ("NPU", "Name", "Health", "Power(W)", "Temp(C)", "Hugepages-Usage(page)", "Chip", "Bus-Id", "AICore(%)"):
        assert title in done.stdout
    assert sum("910B3" in line and "OK" in line for line in lines) == 2
    assert "/ 1024" in done.stdout
    (process,) = [line for line in lines if str(worker.pid) in line]
    assert process.split("|")[1].split() == ["1", "0"]
    assert int(process.split("|")[4]) >= 64
    assert "No running processes found in NPU 0" in done.stdout


def test_json_has_bytes_processes_and_how_busy_a_device_is(smi, worker):
    found = json.loads(smi("info", "--json").stdout)
    idle, used = found["devices"]
    assert (idle["used"], idle["processes"], idle["busy"], found["chip"]) == (0, [], 0.0, "Ascend910B3")
    assert used["used"] >= 64 * MIB
    assert used["busy"] > 0
    assert [(process["pid"], process["memory"]) for process in used["processes"]] == [(worker.pid, used["used"])]


def test_a_process_that_is_gone_holds_nothing(smi, worker):
    worker.kill()
    worker.wait()
    assert [device["used"] for device in json.loads(smi("info", "--json").stdout)["devices"]] == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["-l"], ["Total Count                    : 2", "NPU ID                         : 1"]),
        (["-m"], ["Chip Logic ID", "910B3"]),
        (["-t", "memory", "-i", "1"], ["HBM Capacity(MB)               : 1024", "HBM Usage(MB)                  : 0"]),
        (["-t", "usages", "-i", "0", "-c", "0"], ["HBM Usage Rate(%)              : 0", "Aicore Usage Rate(%)           : 0"]),
        (["-t", "common", "-i", "0"], ["Temperature(C)                 : n/a"]),
        (["-t", "board", "-i", "0"], ["softnpu", torch_npu.__version__]),
        (["-t", "health", "-i", "0"], [": OK"]),
        (["-t", "proc-mem", "-i", "0"], ["Processes                      : 0"]),
    ],
)
def test_parts_can_be_asked_for(smi, arguments, shown):
    done = smi("info", *arguments)
    assert done.returncode == 0, done.stderr
    for text in shown:
        assert text in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["info", "-t", "memory", "-i", "2"], 1, "there is no NPU 2; this host has 2, 0 to 1"),
        (["info", "-i", "-1"], 1, "there is no NPU -1"),
        (["info", "-t", "memory", "-i", "0", "-c", "3"], 1, "NPU 0 has no chip 3"),
        (["info", "-t", "memory"], 2, "-t memory needs -i"),
        (["info", "-t", "weather", "-i", "0"], 2, "invalid choice: 'weather'"),
        (["info", "-w", "never"], 2, "'never' is no number of seconds"),
        (["set"], 2, "invalid choice: 'set'"),
    ],
)
def test_bad_arguments_are_named(smi, arguments, status, words):
    done = smi(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr


def test_torch_is_not_imported(smi):
    done = smi("info", "-l", start=("-X", "importtime", "-m", "torch_npu.tools.smi"))
    assert done.returncode == 0
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "torch_npu._commands" in imported
    assert "torch" not in imported


def test_an_unusable_ledger_is_explained(smi):
    done = smi("info", SOFTNPU_LEDGER_DIR="/proc/none")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("the ledger /proc/none/") == 1


def test_a_library_that_is_not_softnpu_is_named(smi, tmp_path):
    done = smi("info", TORCH_NPU_LIBRARY_PATH=str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"TORCH_NPU_LIBRARY_PATH is '{tmp_path}/none', where there is no libascendcl.so" in done.stderr
    (tmp_path / "libascendcl.so").write_text("no library")
    done = smi("info", TORCH_NPU_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 1
    assert f"{tmp_path}/libascendcl.so cannot be loaded" in done.stderr


@pytest.mark.parametrize(("output", "words"), [(" > /dev/full", ": [Errno 28] No space left on device"), (" | true", "")])
def test_output_that_cannot_be_written_is_no_traceback(smi, output, words):
    command = shlex.join([sys.executable, "-m", "torch_npu.tools.smi", "info"]) + output
    done = subprocess.run(["sh", "-c", command], env=smi.environment, capture_output=True, text=True, timeout=120)
    assert done.stderr == (f"torch_npu.tools.smi{words}\n" if words else "")


def test_npu_smi_of_the_driver_is_run_if_installed(smi, tmp_path):
    program = tmp_path / "npu-smi"
    program.write_text('#!/bin/sh\necho "the driver: $*"\nexit 3\n')
    program.chmod(0o755)
    search = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = smi("info", "-l", PATH=search)
    assert (done.returncode, done.stdout) == (3, "the driver: info -l\n")
    assert f"running {program}" in done.stderr
    assert "Total Count" in smi("info", "-l", PATH=search, TORCH_NPU_LIBRARY_PATH="softnpu").stdout


def test_the_installed_command_needs_no_torch_either(smi, tmp_path):
    """Runs a script like the one that installers write for the entry point in pyproject.toml."""
    entry = re.search(r'^npu-smi = "([\w.]+):(\w+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    script = tmp_path / "npu-smi"
    script.write_text(f"import sys\nfrom {entry[1]} import {entry[2]}\nsys.exit({entry[2]}())\n")
    done = smi("info", "-l", start=("-X", "importtime", script))
    assert "Total Count" in done.stdout, done.stderr
    assert "| torch\n" not in done.stderr
    assert smi("info", "-i", "7", start=(script,)).returncode == 1


@pytest.mark.parametrize(
    ("command", "module"),
    [
        (["python", "-m", "torch_npu.tools.smi", "info"], "tools.smi"),
        (["python", "-X", "importtime", "-m", "torch_npu.doctor"], "doctor"),
        (["python", "/usr/bin/npu-smi", "info"], "tools.smi"),
        (["python", "-c", "import torch_npu", "-m", "torch_npu.doctor"], None),
        (["python", "train.py", "-m", "torch_npu.doctor"], None),
        (["python", "-m", "pytest", "torch_npu.doctor"], None),
        (["python", "-m"], None),
        (["python"], None),
    ],
)
def test_commands_are_recognised_by_their_command_line(command, module):
    assert _commands._asked(command) == module
