"""torch_npu.utils.collect_env and the version of CANN."""

import os
import re

import pytest
import torch
import torch_npu
from torch_npu.utils import collect_env, get_cann_version


@pytest.fixture(scope="module")
def info():
    return collect_env.get_env_info()


def test_the_report_has_the_versions_of_all_parts(info):
    assert info.torch_version == torch.__version__
    assert info.torch_npu_version == collect_env.get_torch_npu_version() == torch_npu.__version__
    assert info.cann_version == f"{get_cann_version()} (softnpu)"
    text = collect_env.pretty_str(info)
    for value in (info.torch_version, info.torch_npu_version, info.cann_version, info.python_version, info.os):
        assert value in text
    assert "None" not in text.split("CPU:")[0]


def test_the_report_is_that_of_this_machine(info, monkeypatch, capsys):
    monkeypatch.setattr(collect_env, "get_env_info", lambda: info)
    assert collect_env.get_pretty_env_info() == collect_env.pretty_str(info)
    collect_env.main()
    assert capsys.readouterr().out.endswith(collect_env.pretty_str(info) + "\n")


def test_missing_information_is_reported_as_such(info):
    text = collect_env.pretty_str(info._replace(gcc_version=None, caching_allocator_config="", pip_packages=None))
    assert "GCC version: Could not collect\n" in text
    assert "Caching allocator config: N/A\n" in text


def test_the_allocator_is_that_of_npu(monkeypatch):
    monkeypatch.setattr(collect_env._torch, "get_env_info", lambda: collect_env.SystemEnv(*["x"] * 17))
    monkeypatch.setenv("PYTORCH_NPU_ALLOC_CONF", "max_split_size_mb:64")
    assert collect_env.get_env_info().caching_allocator_config == "max_split_size_mb:64"


def test_the_command_starts_no_device(python):
    done = python(
        """
        import runpy, torch
        from torch.utils import collect_env
        collect_env.run = lambda command: (1, "", "")  # compilers and pip are not asked
        runpy.run_module("torch_npu.utils.collect_env", run_name="__main__")
        print(torch.npu.is_initialized())
        """
    )
    assert done.returncode == 0, done.stderr
    assert f"torch_npu version: {torch_npu.__version__}\n" in done.stdout
    assert done.stdout.endswith("False\n")


def test_a_missing_library_is_part_of_the_report(child, tmp_path):
    done = child(
        "from torch_npu.utils import collect_env; print(collect_env.get_cann_version())", TORCH_NPU_LIBRARY_PATH=str(tmp_path)
    )
    assert done.stdout.startswith("Could not collect: torch_npu found no device library"), done.stderr


def test_paths_are_checked(tmp_path):
    assert os.path.samefile(collect_env.get_torch_npu_install_path(), os.path.dirname(torch_npu.__file__))
    collect_env.check_directory_path_readable(str(tmp_path))
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(tmp_path)
    file.touch()
    for path, words in ((link, "is a link"), (file, "is no folder"), (tmp_path / "none", "cannot be examined")):
        with pytest.raises(RuntimeError, match=words):
            collect_env.check_directory_path_readable(str(path))
    if os.geteuid() == 0:
        os.chown(file, 12345, -1)
        with pytest.raises(RuntimeError, match="belongs to user 12345"):
            collect_env.check_path_owner_consistent(str(file))


@pytest.mark.parametrize("module", ["CANN", "RUNTIME", "COMPILER", "HCCL", "TOOLKIT", "OPP", "OPP_KERNEL", "DRIVER"])
def test_packages_of_cann_have_versions(module):
    assert re.fullmatch(r"\d+\.\d+\.\w+", get_cann_version(module))
    assert torch.npu.utils.get_cann_version(module) == get_cann_version(module)


def test_an_unknown_package_is_named():
    with pytest.raises(ValueError, match="'ATC' is no package of CANN; they are CANN, RUNTIME"):
        get_cann_version("ATC")
