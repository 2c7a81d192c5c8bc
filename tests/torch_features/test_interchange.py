"""Tensors on npu and the rest of Python: DLPack, NumPy and buffers."""

import numpy as np
import pytest
import torch
from torch.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack

from tests.support import two_devices


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.complex64], ids=str)
def test_dlpack_shares_device_memory(dtype):
    x = torch.arange(6, device="npu").to(dtype).view(2, 3).t()
    for y in (torch.from_dlpack(x), from_dlpack(to_dlpack(x)), torch.from_dlpack(x, device="npu:0")):
        assert (y.data_ptr(), y.stride(), y.dtype, y.device) == (x.data_ptr(), x.stride(), x.dtype, x.device)
    assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    x[0, 0] = 7
    assert y[0, 0].item() == 7


def test_dlpack_names_the_device():
    assert torch.ones(2, device="npu").__dlpack_device__() == (DLDeviceType.kDLExtDev, 0)
    assert torch.ones(2).__dlpack_device__() == torch.ones(2).pin_memory().__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


@two_devices
def test_dlpack_keeps_the_device_that_is_not_current():
    x = torch.arange(3.0, device="npu:1")
    assert torch.from_dlpack(x).device == x.device
    assert torch.from_dlpack(x).tolist() == [0, 1, 2]


def test_dlpack_copies_to_a_requested_device():
    x = torch.arange(3.0)
    assert torch.equal(torch.from_dlpack(x.npu(), device="cpu"), x)
    there = torch.from_dlpack(x.numpy(), device="npu")
    assert there.is_npu
    assert torch.equal(there.cpu(), x)
    pinned = x.pin_memory()
    assert torch.from_dlpack(pinned, device="cpu").data_ptr() == pinned.data_ptr()
    assert np.from_dlpack(pinned).tolist() == [0, 1, 2]
    assert np.from_dlpack(x.npu(), device="cpu").tolist() == [0, 1, 2]


def test_dlpack_refuses_what_it_cannot_carry():
    with pytest.raises(BufferError, match="detach"):
        torch.from_dlpack(torch.ones(2, device="npu", requires_grad=True))
    with pytest.raises(BufferError, match="conjugate"):
        torch.from_dlpack(torch.ones(2, device="npu", dtype=torch.complex64).conj())
    with pytest.raises((RuntimeError, BufferError), match=r"[Dd]evice"):
        np.from_dlpack(torch.ones(2, device="npu"))


def test_subclasses_report_their_dlpack_device():
    class Mine(torch.Tensor):
        pass

    assert torch.ones(2, device="npu").as_subclass(Mine).__dlpack_device__() == (DLDeviceType.kDLExtDev, 0)


@pytest.mark.filterwarnings("ignore:__array__")
@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x.numpy(),
        np.asarray,
        np.array,
        lambda x: x.__array__(),
        lambda x: np.add(np.ones(2), x),
        lambda x: x + np.ones(2),
    ],
)
def test_numpy_conversion_asks_for_cpu(convert):
    with pytest.raises(TypeError, match=r"npu:0 .*\.cpu\(\)"):
        convert(torch.ones(2, device="npu"))


def test_numpy_conversion_can_be_forced():
    x = torch.ones(2, device="npu", requires_grad=True)
    assert x.numpy(force=True).tolist() == [1, 1]


def test_a_tensor_is_no_buffer():
    with pytest.raises(TypeError):
        memoryview(torch.ones(2, device="npu"))


@pytest.mark.parametrize("make", [torch.as_tensor, torch.tensor, torch.asarray])
@pytest.mark.parametrize("data", [np.arange(6.0).reshape(2, 3).T, np.float32(3), [[1, 2], [3, 4]], bytearray(b"abcd"), 1 + 2j])
def test_data_of_python_and_numpy_arrives(make, data):
    npu, cpu = make(data, device="npu"), make(data)
    assert npu.is_npu
    assert (npu.dtype, npu.shape) == (cpu.dtype, cpu.shape)
    assert torch.equal(npu.cpu(), cpu)


def test_numbers_of_numpy_combine_with_tensors():
    x = torch.ones(2, device="npu")
    assert (np.float32(2) * x).tolist() == (x * np.float32(2)).tolist() == [2, 2]
    assert x[np.array([1, 0])].is_npu


def test_asarray_leaves_a_tensor_where_it_is():
    x = torch.ones(2, device="npu")
    assert torch.asarray(x).data_ptr() == torch.as_tensor(x).data_ptr() == x.data_ptr()
    assert torch.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert torch.asarray(x, device="cpu").device.type == "cpu"


def test_storages_are_read_as_bytes():
    storage = torch.tensor([1, 258], dtype=torch.int16, device="npu").untyped_storage()
    assert bytes(storage) == b"\x01\x00\x02\x01"
