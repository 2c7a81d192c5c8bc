"""torch.npu and torch.accelerator: which devices there are, and which one is current."""

import pytest
import torch


def test_there_are_devices():
    assert torch.npu.is_available()
    assert torch.npu.device_count() >= 1
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.accelerator.device_count() == torch.npu.device_count()


def test_the_library_in_use_can_be_asked_for():
    info = torch.npu.library_info()
    assert info["path"].endswith("libascendcl.so")
    assert info["origin"] in ("env", "cann", "softnpu")
    assert torch.npu.get_device_name() == info["soc"]


def test_properties_describe_the_device():
    properties = torch.npu.get_device_properties(0)
    assert properties.name.startswith("Ascend")
    assert properties.total_memory > 0
    assert properties.name in repr(properties)
    assert torch.npu.get_device_properties("npu:0").uuid == properties.uuid
    free, total = torch.npu.mem_get_info()
    assert 0 <= free <= total


def test_npu_is_a_device_by_name_and_index():
    assert torch.device("npu:1") == torch.device("npu", 1)
    assert torch.ones(1, device="npu").device == torch.device("npu", torch.npu.current_device())


needs_two = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two devices")


@needs_two
def test_the_current_device_is_where_tensors_go():
    with torch.npu.device(1):
        assert torch.npu.current_device() == 1
        assert torch.ones(1, device="npu").device.index == 1
        with torch.npu.device(None), torch.npu.device("npu:0"):
            assert torch.npu.current_device() == 0
        assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0
    torch.npu.set_device("npu:1")
    try:
        assert torch.accelerator.current_device_index() == 1
    finally:
        torch.npu.set_device(0)


@needs_two
def test_device_of_follows_a_tensor():
    there = torch.ones(1, device="npu:1")
    with torch.npu.device_of(there):
        assert torch.npu.current_device() == 1
    with torch.npu.device_of(torch.ones(1)):
        assert torch.npu.current_device() == 0


@needs_two
def test_work_on_another_device_leaves_the_current_one_alone():
    there = torch.arange(6.0, device="npu:1").reshape(2, 3)
    assert (there @ there.T).sum().item() == 83.0
    assert torch.npu.current_device() == 0


@pytest.mark.parametrize("wrong", ["cuda:0", "cpu", torch.device("cpu")])
def test_a_device_of_another_type_is_refused(wrong):
    with pytest.raises(ValueError, match="type npu is needed"):
        torch.npu.set_device(wrong)


def test_something_else_is_refused():
    with pytest.raises(TypeError, match="a device is an int"):
        torch.npu.synchronize(1.5)
    with pytest.raises(ValueError, match="a device is needed"):
        torch.npu.set_device(None)


def test_visible_devices_are_renumbered(python):
    done = python("import torch; print(torch.npu.device_count())", ASCEND_RT_VISIBLE_DEVICES="0,2")
    assert done.stdout == "2\n", done.stderr


def test_a_process_without_devices_says_so(python):
    done = python(
        """
        import torch
        print(torch.npu.is_available(), torch.npu.device_count(), torch.accelerator.is_available())
        torch.manual_seed(0)
        torch.ones(2, device="npu")
        """,
        ASCEND_RT_VISIBLE_DEVICES="",
    )
    assert done.stdout == "False 0 False\n"
    assert "there is no NPU in this process" in done.stderr


FORKED = """
import os, torch
{before}
child = os.fork()
if child == 0:
    try:
        print(torch.npu.device_count() > 0, torch.ones(2, device="npu").sum().item(), flush=True)
    except RuntimeError as error:
        print(str(error).splitlines()[0], flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_child_forked_before_the_first_use_has_the_device(python):
    assert python(FORKED.format(before="torch.npu.device_count()")).stdout == "True 2.0\n"


def test_a_child_forked_after_the_first_use_is_told_to_spawn(python):
    assert "'spawn'" in python(FORKED.format(before="torch.ones(1, device='npu')")).stdout


def test_a_data_loader_with_workers_and_pinned_memory_feeds_the_device():
    torch.ones(1, device="npu")
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, pin_memory=True)
    batches = [batch for (batch,) in loader]
    assert all(batch.is_pinned() for batch in batches)
    assert [batch.to("npu", non_blocking=True).sum().item() for batch in batches] == [6.0, 22.0]
