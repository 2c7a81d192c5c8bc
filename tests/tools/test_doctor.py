"""python -m torch_npu.doctor names a problem and its remedy, also if nothing can be imported."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_npu
from torch_npu.tools._cann_variables import CANN_VARIABLES, COLLECTIVE_VARIABLES

PACKAGE = Path(torch_npu.__file__).parent


@pytest.fixture
def doctor(tmp_path):
    def run(*arguments, first=None, **environment):
        """first: a folder at the front of PYTHONPATH."""
        environment = {**os.environ, **environment}
        if first is not None:
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(first), environment.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "torch_npu.doctor", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)

    return run


def findings(done, status):
    assert done.returncode == status, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["ok"] == (status == 0)
    assert all(bool(finding["fix"]) == (finding["state"] == "problem") for finding in answer["findings"])
    return answer["findings"]


def about(found, subject, state):
    return [
        finding["text"] + " -> " + finding["fix"] for finding in found if (finding["about"], finding["state"]) == (subject, state)
    ]


@pytest.fixture
def package(tmp_path):
    """A copy of the package that a test can damage; libraries are links."""
    copy = tmp_path / "site" / "torch_npu"
    copy.mkdir(parents=True)
    for path in PACKAGE.iterdir():
        if path.name not in ("lib", "__pycache__"):
            (copy / path.name).symlink_to(path.resolve())
    (copy / "lib").mkdir()
    for path in (PACKAGE / "lib").iterdir():
        (copy / "lib" / path.name).symlink_to(path.resolve())
    return copy


def spoil(path, content):
    path.unlink()
    path.write_bytes(content)


def test_a_healthy_installation(doctor):
    done = doctor()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "problem" not in done.stdout
    assert done.stdout.endswith("torch_npu works here.\n")
    for words in (
        torch_npu.__version__,
        "which torch_npu was built for",
        "libascendcl.so (softnpu)",
        "the same as on the CPU",
        "GLIBCXX",
    ):
        assert words in done.stdout
    assert f"python: {sys.version.split()[0]}, {sys.executable}" in done.stdout


@pytest.fixture(scope="module")
def other_environment(tmp_path_factory):
    """Another environment of the same Python: its executable is a link to the same binary."""
    folder = tmp_path_factory.mktemp("other")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


def test_another_environment_on_the_path_is_named_by_its_full_path(doctor, other_environment):
    script = other_environment / "bin" / "npu-smi"
    script.write_text(f"#!{other_environment}/bin/python\nfrom torch_npu.tools.smi import main\n")
    script.chmod(0o755)
    done = doctor("--json", PATH=f"{other_environment}/bin:{os.environ['PATH']}")
    found = findings(done, 0)
    (text,) = [text for text in about(found, "python", "note") if str(other_environment) in text]
    assert f"the command python starts {other_environment}/bin/python" in text
    assert f"prefix {other_environment}" in text
    assert f"use {sys.executable}" in text
    (text,) = about(found, "npu-smi", "note")
    assert f"{script} is run by {other_environment}/bin/python, not by this Python, {sys.executable}" in text


def test_the_running_environment_on_the_path_is_not_noted(doctor):
    found = findings(doctor("--json", PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin"), 0)
    assert about(found, "python", "note") == []
    assert f"{sys.executable}, prefix {sys.prefix}" in about(found, "python", "ok")[0]


def test_bindings_for_another_python_are_a_problem(doctor, package):
    (bindings,) = package.glob("_C*.so")
    bindings.rename(package / "_C.cpython-39-x86_64-linux-gnu.so")
    found = findings(doctor("--json", first=package.parent, TORCH_DEVICE_BACKEND_AUTOLOAD="0"), 1)
    (text,) = about(found, "files", "problem")
    assert "_C.cpython-39-x86_64-linux-gnu.so was built for another Python than this one" in text


def test_a_wrong_library_path(doctor, tmp_path):
    found = findings(doctor("--json", TORCH_NPU_LIBRARY_PATH=str(tmp_path), SOFTNPU_LAUNCH="sync"), 1)
    (text,) = about(found, "device library", "problem")
    assert "no libascendcl.so" in text
    assert f"TORCH_NPU_LIBRARY_PATH is '{tmp_path}': correct or unset it" in text
    assert about(found, "import torch_npu", "problem") == []
    assert "SOFTNPU_LAUNCH=sync (not checked: the device library does not work) -> " in about(found, "environment", "note")


def test_variables_with_bad_values_and_misspelt_ones(doctor):
    environment = {
        "TASK_QUEUE_ENABLE": "yes",
        "SOFTNPU_LAUNCH": "later",
        "SOFTNPU_LUNCH": "sync",
        "TASK_QUEUE_ENABLED": "1",
        "TORCH_NPU_DEBUG": "1",
        "PYTORCH_NPU_ALLOC_CONF": "size:1",
        "ASCEND_PROCESS_LOG_PATH": "/proc/none",
    }
    found = findings(doctor("--json", TORCH_NPU_WARNING_DISABLE="1", **environment), 1)
    (text,) = about(found, "a product on npu", "problem")
    assert text.endswith("-> correct or unset PYTORCH_NPU_ALLOC_CONF")
    (text,) = about(found, "log", "note")
    assert "/proc/none/plog cannot be written" in text
    bad = about(found, "environment", "problem")
    assert len(bad) == 2
    assert any("TASK_QUEUE_ENABLE is 'yes', but must be 0, 1 or 2; 1 is used. -> correct or unset" in text for text in bad)
    assert any("bad value 'later' of SOFTNPU_LAUNCH" in text and "correct or unset SOFTNPU_LAUNCH" in text for text in bad)
    assert any(
        "SOFTNPU_LUNCH=sync is read by nothing here; did you mean SOFTNPU_LAUNCH?" in text
        for text in about(found, "environment", "note")
    )
    assert any("did you mean TASK_QUEUE_ENABLE?" in text for text in about(found, "environment", "note"))
    assert any(text.startswith("TORCH_NPU_DEBUG=1") for text in about(found, "environment", "ok"))


def test_misspelt_names_of_cann(doctor):
    environment = {"ASCEND_WORKPATH": "/tmp", "HCCL_CONECT_TIMEOUT": "60", "ASCEND_WORK_PATH": "/tmp", "HCCL_RDMA_TC": "many"}
    found = findings(doctor("--json", **environment), 1)
    (text,) = about(found, "environment", "problem")
    assert "HCCL_RDMA_TC is 'many', but must be a whole number from 0 to 255" in text
    notes = " ".join(about(found, "environment", "note"))
    assert "ASCEND_WORKPATH=/tmp is read by nothing here; did you mean ASCEND_WORK_PATH?" in notes
    assert "HCCL_CONECT_TIMEOUT=60 is read by nothing here; did you mean HCCL_CONNECT_TIMEOUT?" in notes
    assert "ASCEND_WORK_PATH=/tmp is read by CANN, not by torch_npu" in notes


def test_names_that_the_collective_library_reads(doctor):
    found = findings(doctor("--json", HCCL_CONNECT_TIMEOUT="60", HCCL_WHITELIST_DISABLE="1"), 0)
    known = about(found, "environment", "ok")
    assert {"HCCL_CONNECT_TIMEOUT=60", "HCCL_WHITELIST_DISABLE=1"} <= {text.split(" ->")[0].strip() for text in known}


def test_the_document_lists_the_names_that_the_doctor_knows():
    text = (Path(__file__).resolve().parents[2] / "docs" / "environment.md").read_text()
    section = text.split("## Collective library")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)`", section, re.M)) == COLLECTIVE_VARIABLES
    (names,) = re.findall(r"^`ASCEND_ALLOW_LINK`.*$", text, re.M)
    assert set(re.findall(r"`(\w+)`", names)) == CANN_VARIABLES


def test_no_device(doctor):
    found = findings(doctor("--json", ASCEND_RT_VISIBLE_DEVICES=""), 1)
    (text,) = about(found, "devices", "problem")
    assert "ASCEND_RT_VISIBLE_DEVICES is ''; unset it" in text
    assert [finding["about"] for finding in found if finding["state"] == "problem"] == ["devices"]


def test_another_torch(doctor, tmp_path):
    other = tmp_path / "other"
    (other / "torch").mkdir(parents=True)
    (other / "torch" / "__init__.py").write_text("__version__ = '2.9.1'\n")
    (other / "torch-2.9.1.dist-info").mkdir()
    (other / "torch-2.9.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.9.1\n")
    found = findings(doctor("--json", first=other), 1)
    (text,) = about(found, "torch", "problem")
    mine = ".".join(torch.__version__.split(".")[:2])
    assert f"torch 2.9.1 is installed, but torch_npu was built for torch {mine}" in text
    assert f"install torch {mine}, or a torch_npu that was built for torch 2.9" in text
    assert (
        len([finding for finding in found if finding["about"].startswith("import torch") and finding["state"] == "problem"]) == 1
    )


def test_a_folder_that_hides_torch(doctor, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("from torch._C import *\n")  # like the folder torch of a checkout of PyTorch
    found = findings(doctor("--json"), 1)
    (text,) = about(found, "import torch", "problem")
    assert "No module named 'torch._C'" in text
    assert f"a folder named torch hides the installed torch: start Python in another folder than {tmp_path}" in text


def test_a_broken_plugin(doctor, package):
    (bindings,) = package.glob("_C*.so")
    spoil(bindings, b"no library")
    found = findings(doctor("--json", first=package.parent, TORCH_DEVICE_BACKEND_AUTOLOAD="0"), 1)
    (text,) = about(found, "import torch_npu", "problem")
    assert "ImportError" in text
    assert about(found, "import torch", "problem") == []


def test_a_crash_is_reported_with_its_place(doctor, package):
    (package / "npu").unlink()
    shutil.copytree(PACKAGE / "npu", package / "npu")
    (package / "npu" / "memory.py").write_text("import os\nos.abort()\n")
    found = findings(doctor("--json", first=package.parent, TORCH_DEVICE_BACKEND_AUTOLOAD="0"), 1)
    (text,) = about(found, "import torch_npu", "problem")
    assert "died of signal 6" in text
    assert "faulthandler" in text


def test_problems_found_before_any_import_are_reported_together(doctor, package):
    metadata = package.parent / "torch_npu-2.13.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0\n")
    (package / "lib" / "libascendcl.so").unlink()
    spoil(package / "lib" / "libopapi.so", b"\0GLIBCXX_3.4.99\0")
    environment = {"SOFTNPU_LEDGER_DIR": "/proc/none", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    found = findings(doctor("--json", first=package.parent, **environment), 1)
    for subject, words in (
        ("torch_npu", ["the distribution torch_npu is 2.13.0, the vendor's"]),
        ("files", ["lib/libascendcl.so missing"]),
        ("libstdc++", ["GLIBCXX_3.4.99 is needed", "LD_LIBRARY_PATH"]),
        ("shared memory", ["SOFTNPU_LEDGER_DIR"]),
    ):
        (text,) = about(found, subject, "problem")
        for word in words:
            assert word in text
