"""Libraries detect npu by calls and attributes of their own; each test makes those of one library."""

import importlib
import importlib.metadata
import importlib.util
import sys

import pytest
import torch
import torch_npu


def test_accelerate():
    from accelerate.utils import is_npu_available

    assert is_npu_available(check_device=True)


def test_transformers():
    from transformers.utils import is_torch_bf16_gpu_available, is_torch_npu_available

    assert is_torch_npu_available(check_device=True) and is_torch_bf16_gpu_available()


def test_diffusers_by_the_distribution():
    assert importlib.util.find_spec("torch_npu") is not None
    assert importlib.metadata.version("torch_npu") == torch_npu.__version__


def test_timm_and_open_clip_without_an_import(child):
    done = child("import torch\nprint(torch.npu.is_available())")
    assert done.stdout == "True\n", done.stderr


def test_deepspeed_by_two_imports():
    import torch.npu

    assert sys.modules["torch.npu"] is torch.npu is torch_npu.npu
    called = []
    torch.npu._lazy_call(lambda: called.append(1))
    torch.npu.synchronize()
    assert called == [1]


def test_ultralytics_by_an_index():
    assert hasattr(torch, "npu") and torch.npu.is_available() and torch.npu.device_count() > 1
    torch.npu.set_device("npu:1")
    assert torch.npu.current_device() == 1 and torch.npu.get_device_name(1).startswith("Ascend")
    torch.npu.set_device(0)


def test_torchao_llamafactory_and_torchtitan_by_the_accelerator():
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator().type == "npu"
    assert torch.get_device_module("npu") is torch.get_device_module() is torch.npu
    assert torch._utils._get_available_device_type() == "npu"
    assert torch._utils._get_device_module("npu") is torch.npu


def test_torchtune_unsloth_and_verl_by_an_import_that_may_fail():
    torch_npu = importlib.import_module("torch_npu")
    assert torch_npu.npu.is_available() and not hasattr(torch.nested.nested_tensor, "__wrapped__")


def test_ray_isolates_by_visible_devices(child):
    done = child("import torch\nprint(torch.npu.device_count())", ASCEND_RT_VISIBLE_DEVICES="0,3")
    assert done.stdout == "2\n", done.stderr


def test_trl_reads_the_use_count_of_a_storage():
    x = torch.ones(3).npu()
    before = torch_npu._C._storage_Use_Count(x.untyped_storage()._cdata)
    view = x[1:]
    assert torch_npu._C._storage_Use_Count(view.untyped_storage()._cdata) == before + 1


@pytest.mark.parametrize("devices", ["", "-1"])
def test_a_machine_without_a_device_is_told_by_is_available(child, devices):
    done = child(
        """
        import torch, torch_npu
        print(torch.npu.is_available(), torch.npu.device_count())
        from accelerate.utils import is_npu_available
        from transformers.utils import is_torch_npu_available
        print(is_npu_available(), is_torch_npu_available())
        """,
        ASCEND_RT_VISIBLE_DEVICES=devices,
    )
    assert (done.stdout, done.returncode) == ("False 0\nFalse False\n", 0), done.stderr


def test_mmengine_by_a_module_and_a_setting():
    import torch_npu.npu.utils

    torch.npu.set_compile_mode(jit_compile=False)
    assert torch.npu.is_available() and torch_npu.npu.utils is torch.npu.utils
    assert torch.ones(1, device=torch.npu.native_device).is_npu


def test_deepspeed_by_old_types_and_the_runtime():
    assert isinstance(torch.npu.FloatTensor([1.0]), torch.npu.FloatTensor) and torch.npu.npurt() is not None
