"""Contents and requirements of the installed package, and the quickstart program."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import torch
import torch_npu

ROOT = Path(__file__).resolve().parents[2]


def test_the_package_carries_the_plugin_the_device_headers_and_the_licence():
    files = {str(file) for file in importlib.metadata.files("torch_npu")}
    for name in ("libtorch_npu", "libascendcl", "libopapi", "libhccl", "libmsprofiler"):
        assert f"torch_npu/lib/{name}.so" in files
    for name in ("acl/acl.h", "acl/acl_prof.h", "aclnn/acl_meta.h", "hccl/hccl.h"):
        assert f"torch_npu/include/{name}" in files
    headers = ROOT / "csrc" / "api" / "include"
    for header in headers.rglob("*.h*"):
        assert f"torch_npu/include/{header.relative_to(headers)}" in files
    assert any(re.fullmatch(r"torch_npu/_C\..*\.so", name) for name in files)
    assert any(name.endswith("/LICENSE") for name in files)
    assert not [name for name in files if re.search(r"(^|/)tests?[/_]", name) or name.endswith((".cpp", ".yaml"))]


def test_the_package_needs_stock_torch_only():
    needed = [each for each in importlib.metadata.requires("torch_npu") if "extra ==" not in each]
    assert needed == ["torch==2.13.0"]


def test_the_version_is_torchs_with_a_label():
    assert torch_npu.__version__ == importlib.metadata.version("torch_npu")
    assert re.fullmatch(rf"{re.escape(torch.__version__.split('+')[0])}\+soft\.\d+", torch_npu.__version__)


def test_the_embedded_device_library_is_the_packages_own():
    if torch.npu.library_info()["origin"] == "softnpu":
        assert Path(torch.npu.library_info()["path"]) == Path(torch_npu.__file__).parent / "lib" / "libascendcl.so"


def quickstart(*arguments):
    return subprocess.run(
        [sys.executable, ROOT / "examples" / "quickstart.py", *arguments], capture_output=True, text=True, timeout=600
    )


def test_quickstart_learns_and_agrees_with_the_cpu():
    done = quickstart()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "libascendcl.so" in done.stdout
    assert "ok     CPU fallbacks 0\n" in done.stdout
    assert "ok     checkpoint read back on the CPU" in done.stdout
    assert float(re.search(r"ok     test accuracy ([\d.]+)%", done.stdout)[1]) >= 97
    assert float(re.search(r"ok     largest difference of losses from the CPU's (\S+)", done.stdout)[1]) <= 1e-4
    assert re.search(r"time: [\d.]+ of the CPU's", done.stdout)


def test_quickstart_takes_options():
    done = quickstart("--device", "npu:0", "--epochs", "1", "--batch-size", "200")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "epoch  1/1" in done.stdout
    for wrong in (["--epochs", "0"], ["--device", "abacus"], ["--batch-size", "many"]):
        done = quickstart(*wrong)
        assert done.returncode == 2
        assert f"argument {wrong[0]}" in done.stderr
