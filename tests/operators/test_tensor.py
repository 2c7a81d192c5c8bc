"""Tensors on npu: factories, properties, printing, and the methods that the device adds to torch."""

import copy
import os

import pytest
import torch
from torch import nn
from torch_npu.utils import get_cann_version

from tests.compare import assert_same
from tests.support import LAYOUTS, pair

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
    torch.bool, torch.complex64,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_factories_give_what_the_cpu_gives(dtype):
    for make in (
        lambda **to: torch.zeros(2, 3, **to),
        lambda **to: torch.ones(2, 3, **to),
        lambda **to: torch.full((2, 3), 1, **to),
        lambda **to: torch.tensor([[1, 0], [0, 1]], **to),
        lambda **to: torch.eye(3, **to),
        lambda **to: torch.zeros((), **to),
        lambda **to: torch.zeros(0, 4, **to),
    ):
        assert_same(make(dtype=dtype, device="npu"), make(dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32], ids=str)
def test_ranges(dtype):
    for make in (
        lambda **to: torch.arange(7, **to),
        lambda **to: torch.arange(2, 20, 3, **to),
        lambda **to: torch.arange(5, -5, -2, **to),
        lambda **to: torch.linspace(0, 10, 11, **to),
    ):
        assert_same(make(dtype=dtype, device="npu"), make(dtype=dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_like_factories_keep_the_layout(layout):
    cpu, npu = pair(layout)
    for make in (torch.zeros_like, torch.ones_like, lambda x: torch.full_like(x, 3), lambda x: x.clone()):
        assert_same(make(npu), make(cpu))
    assert torch.empty_like(npu).stride() == torch.empty_like(cpu).stride()
    assert npu.new_zeros(2).device == npu.device


def test_a_tensor_knows_its_device():
    x = torch.ones(2, device="npu")
    assert x.is_npu
    assert not torch.ones(2).is_npu
    assert x.get_device() == 0
    assert x.type() == "torch.npu.FloatTensor"
    assert x.untyped_storage().device.type == "npu"
    assert x.untyped_storage().nbytes() == 8


def test_npu_and_cpu_move_a_tensor():
    x = torch.arange(4.0)
    assert_same(x.npu(), x)
    assert x.npu().cpu().device.type == "cpu"
    assert x.npu().npu().is_npu
    there = x.npu()
    assert there.npu() is there
    assert x.untyped_storage().npu().is_npu
    for spelling in ("npu", "npu:0", torch.device("npu"), torch.device("npu", 0)):
        for moved in (x.to(spelling), x.to(spelling, non_blocking=True), x.npu(spelling), x.npu(spelling, non_blocking=True)):
            assert_same(moved, x)
    assert x.npu(1).device == x.to("npu:1").device == torch.device("npu:1")
    with pytest.raises(RuntimeError, match="must be npu device"):
        x.npu("cpu")


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("kind", ["untyped", "typed"])
def test_a_storage_moves(kind):
    storage = torch.arange(4.0).untyped_storage() if kind == "untyped" else torch.TypedStorage([0.0, 1.0], dtype=torch.float32)
    there = storage.npu()
    assert (there.is_npu, storage.is_npu, there.device) == (True, False, torch.device("npu:0"))
    assert there.npu(1).device == torch.device("npu:1")
    assert there.cpu().tolist() == storage.tolist()


def test_a_packed_sequence_moves():
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 2, 4), torch.tensor([3, 2]))
    there = packed.npu()
    assert there.is_npu and not packed.is_npu and there.npu() is there
    assert there.batch_sizes.device.type == "cpu" and packed.npu(1).data.device == torch.device("npu:1")
    expected, lengths = nn.utils.rnn.pad_packed_sequence(packed)
    padded, there_lengths = nn.utils.rnn.pad_packed_sequence(there)
    assert_same(padded, expected)
    assert torch.equal(there_lengths, lengths)
    for call in (lambda: packed.npu("cpu"), lambda: packed.npu(device=torch.device("cpu"))):
        with pytest.raises(ValueError, match="a device of type npu is needed, but got cpu"):
            call()


def test_torch_knows_the_version_of_cann():
    assert torch.version.cann == get_cann_version()
    assert not hasattr(torch.version, "cann_")


def test_a_module_moves_and_comes_back():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    reference = copy.deepcopy(net)
    assert net.npu() is net
    assert all(value.is_npu for value in net.state_dict().values())
    net.cpu()
    for value, expected in zip(net.state_dict().values(), reference.state_dict().values(), strict=True):
        assert torch.equal(value, expected)
    assert all(value.is_npu for value in copy.deepcopy(net.to("npu")).state_dict().values())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_item_tolist_and_numpy_read_values(dtype):
    cpu = torch.tensor([[1, 0, 1], [0, 1, 1]]).to(dtype)
    npu = cpu.npu()
    assert npu[1, 2].item() == cpu[1, 2].item()
    assert npu.tolist() == cpu.tolist()
    assert bool(npu[0, 0])
    if dtype != torch.bfloat16:
        assert (npu.cpu().numpy() == cpu.numpy()).all()


def test_python_reads_numbers_from_the_device():
    x = torch.tensor([3, 1, 2], device="npu")
    assert (float(x[0]), int(x[1]), len(x), [int(each) for each in x]) == (3.0, 1, 3, [3, 1, 2])
    assert [10, 20, 30, 40][x[2]] == 30
    assert f"{torch.tensor(1.5, device='npu'):.2f}" == "1.50"
    assert 2 in x
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(x)
    with pytest.raises(TypeError, match="can't convert npu:0 device type tensor to numpy"):
        x.numpy()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
def test_printing_differs_from_the_cpu_by_the_device_only(layout, dtype):
    cpu, npu = pair(layout, dtype)
    shown = repr(npu)
    assert "device='npu:0'" in shown
    assert repr(npu.cpu()) == repr(cpu)
    plain = "".join(shown.replace(", device='npu:0'", "").split())
    assert plain == "".join(repr(cpu).split())


def test_printing_a_large_tensor_leaves_the_middle_out():
    assert "..." in repr(torch.zeros(2000, device="npu"))
    assert "grad_fn" in repr(torch.ones(2, device="npu", requires_grad=True) * 2)


def test_resize_and_set_work_on_device_memory():
    x = torch.arange(6.0, device="npu")
    x.resize_(2, 2)
    assert x.tolist() == [[0, 1], [2, 3]]
    x.resize_(2, 5)
    assert x.flatten()[:6].tolist() == [0, 1, 2, 3, 4, 5]
    y = torch.empty(0, device="npu").set_(x.untyped_storage(), 1, (2,), (2,))
    assert y.tolist() == [1, 3]
    y[0] = 9
    assert x.flatten()[1].item() == 9
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0


def test_deepcopy_and_sharing():
    x = torch.arange(4.0, device="npu")
    twin = copy.deepcopy(x)
    alias = x.view(2, 2)
    x.add_(1)
    assert twin.tolist() == [0, 1, 2, 3]
    assert alias.tolist() == [[1, 2], [3, 4]]
    assert alias.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert torch.equal(x, x.clone())
    assert not torch.equal(x, twin)


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer ends the process in its own way")
def test_device_memory_is_not_host_memory(child):
    done = child(
        """
        import ctypes, torch
        ctypes.string_at(torch.ones(4, device="npu").data_ptr(), 4)
        """
    )
    assert done.returncode < 0


def test_every_nonzero_byte_is_true():
    bytes_, truth = torch.tensor([0, 1, 2, 246], dtype=torch.uint8), torch.tensor([False, True, True, True])
    flags = bytes_.npu().view(torch.bool)
    assert (flags == truth.npu()).all()
    assert not (flags > truth.npu()).any()
    assert flags.float().tolist() == [0, 1, 1, 1]
    assert flags.half().tolist() == [0, 1, 1, 1]
    assert flags.long()[::3].tolist() == [0, 1]
    assert flags[3].item() == True  # noqa: E712


def test_complex32_warns_that_it_is_experimental():
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="ComplexHalf support is experimental"):
            halves = torch.ones(3, dtype=torch.complex32, device="npu")
        with pytest.warns(UserWarning, match="ComplexHalf support is experimental"):
            _ = halves + 1
    finally:
        torch.set_warn_always(always)
