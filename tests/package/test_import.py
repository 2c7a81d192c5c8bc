"""`import torch` loads the plugin, works in any order of imports, and never fails because of torch_npu."""

import pytest
import torch
import torch_npu_autoload

from tests.conftest import ROOT

USE = "print(torch.ones(2, device='npu').sum().item(), torch.npu.is_initialized())"


@pytest.mark.parametrize("first", ["torch", "torch_npu", "torch.npu", "torch_npu.npu", "torch_npu, torch.npu"])
def test_any_import_may_be_the_first_statement(python, first):
    done = python(f"import {first}\nimport torch\n{USE}")
    assert (done.stdout, done.stderr, done.returncode) == ("2.0 True\n", "", 0)


def test_torch_npu_works_where_autoload_is_off(python):
    done = python(f"import torch\nassert not hasattr(torch, 'npu')\nimport torch_npu\n{USE}", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (done.stdout, done.returncode) == ("2.0 True\n", 0), done.stderr


def test_an_import_starts_no_device_and_loads_no_device_library(python):
    done = python(
        """
        import torch
        torch.manual_seed(1)
        torch.ones(2) + 1
        assert not torch.npu.is_initialized()
        print("libascendcl" in open("/proc/self/maps").read())
        """
    )
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr


def test_rarely_used_modules_are_imported_on_first_use(python):
    done = python(
        """
        import sys, torch, torch_npu
        rare = ["distributed", "jit", "optim", "profiler", "testing", "utils"]
        print([name for name in rare if f"torch_npu.{name}" in sys.modules])
        print([getattr(torch_npu, name).__name__ for name in rare] == [f"torch_npu.{name}" for name in rare])
        print(torch_npu.multiprocessing.reductions.__name__, hasattr(torch_npu, "absent"))
        """
    )
    assert done.stdout == "[]\nTrue\ntorch_npu.multiprocessing.reductions False\n", done.stderr


def test_a_plugin_that_cannot_be_loaded_is_one_warning(python):
    done = python(
        """
        import sys, types
        class Broken:
            def find_spec(self, name, path=None, target=None):
                if name == "torch_npu._C":
                    raise ImportError("libtorch_npu.so: undefined symbol: _ZN3c10")
        sys.meta_path.insert(0, Broken())
        import torch
        print(torch.ones(2).sum().item(), hasattr(torch, "npu"))
        """
    )
    assert (done.stdout, done.returncode) == ("2.0 False\n", 0)
    assert done.stderr.count("torch_npu was not loaded") == 1
    assert "undefined symbol" in done.stderr


def test_another_torch_is_refused_in_one_sentence(python):
    done = python("import torch\ntorch.__version__ = '2.9.1'\nimport torch_npu", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    built_for = ".".join(torch.__version__.split(".")[:2])
    assert f"was built for torch {built_for}, but torch 2.9.1 is installed" in done.stderr


def test_importing_the_source_folder_explains_that_it_is_not_a_build(python):
    sources = ROOT / "python"
    done = python("import torch_npu", TORCH_DEVICE_BACKEND_AUTOLOAD="0", PYTHONPATH=str(sources))
    assert done.returncode == 1
    assert f"{sources}/torch_npu has the sources of torch_npu, not a build" in done.stderr.splitlines()[-1]
    done = python("import torch\nprint(torch.ones(2).sum().item())", PYTHONPATH=str(sources))
    assert (done.stdout, done.returncode) == ("2.0\n", 0)
    assert "torch_npu was not loaded" in done.stderr and "start it in another folder" in done.stderr


@pytest.mark.parametrize(
    ("cuda_devices", "cann", "switch", "wanted"),
    [
        (0, False, "", True),
        (1, False, "", False),
        (1, True, "", True),
        (1, False, "1", True),
        (0, False, "0", False),
        (0, True, "0", False),
    ],
)
def test_beside_cuda_npu_is_registered_if_there_is_cann_or_if_asked(monkeypatch, cuda_devices, cann, switch, wanted):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda_devices)
    monkeypatch.setattr(torch_npu_autoload, "_has_cann", lambda: cann)
    monkeypatch.setenv("TORCH_NPU_AUTOLOAD", switch)
    assert torch_npu_autoload._is_wanted() == wanted


def test_a_bad_value_of_the_switch_is_named(monkeypatch):
    monkeypatch.setenv("TORCH_NPU_AUTOLOAD", "yes")
    with pytest.warns(UserWarning, match="TORCH_NPU_AUTOLOAD is 'yes', but must be 0 or 1"):
        torch_npu_autoload._is_wanted()


def test_import_torch_succeeds_if_warnings_are_errors(python):
    done = python("import warnings\nwarnings.simplefilter('error')\nimport torch\n" + USE, TORCH_NPU_AUTOLOAD="yes")
    assert (done.stdout, done.returncode) == ("2.0 True\n", 0), done.stderr
    assert "UserWarning: the environment variable TORCH_NPU_AUTOLOAD is 'yes'" in done.stderr


def test_cann_is_found_by_its_runtime_library(monkeypatch, tmp_path):
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setattr(torch_npu_autoload, "_CANN_HOMES", ())
    assert not torch_npu_autoload._has_cann()
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libascendcl.so").touch()
    assert torch_npu_autoload._has_cann()


def test_modules_under_torch_dot_npu_are_those_of_the_package(python):
    done = python(
        """
        import torch.npu.amp, torch_npu.npu.amp
        from torch.npu.random import get_rng_state
        from torch.npu import Stream
        import torch
        print(torch.npu.amp is torch_npu.npu.amp, get_rng_state is torch.npu.get_rng_state, Stream is torch.npu.streams.Stream)
        """
    )
    assert done.stdout == "True True True\n", done.stderr


def test_every_public_name_exists():
    for name in torch.npu.__all__:
        assert hasattr(torch.npu, name), name
