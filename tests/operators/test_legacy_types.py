"""torch.npu.FloatTensor and the other legacy types: constructors, queries and conversions, compared with the CPU's types."""

import pytest
import torch

KINDS = ["BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short"]
STORAGES = [
    "BFloat16Storage",
    "BoolStorage",
    "ByteStorage",
    "CharStorage",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "DoubleStorage",
    "FloatStorage",
    "HalfStorage",
    "IntStorage",
    "LongStorage",
    "ShortStorage",
]


def both(kind):
    return getattr(torch, f"{kind}Tensor"), getattr(torch.npu, f"{kind}Tensor")


@pytest.mark.parametrize("kind", KINDS)
def test_a_type_makes_tensors_as_the_cpus_does(kind):
    cpu, npu = both(kind)
    for args in ([[1, 0, 1]], [[[1, 2], [3, 4]]], [(0, 1)], [[]]):
        made = npu(*args)
        assert made.device.type == "npu"
        assert type(made) is torch.Tensor
        assert torch.equal(made.cpu(), cpu(*args))
        assert made.dtype == cpu(*args).dtype
    assert npu().shape == cpu().shape
    assert npu(2, 3).shape == npu(torch.Size([2, 3])).shape == (2, 3)
    with pytest.raises(TypeError):
        npu("text")


@pytest.mark.parametrize("kind", KINDS)
def test_a_type_is_the_type_of_its_tensors(kind):
    cpu, npu = both(kind)
    tensor = npu([1, 0])
    assert tensor.type() == f"torch.npu.{kind}Tensor"
    assert isinstance(tensor, npu)
    assert not isinstance(tensor, cpu)
    assert not isinstance(cpu([1, 0]), npu)
    assert not isinstance(3, npu)
    assert sum(isinstance(tensor, both(other)[1]) for other in KINDS) == 1
    assert npu.dtype == tensor.dtype
    assert repr(npu) == f"<class 'torch.npu.{kind}Tensor'>"


@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_is_converted_by_a_type_or_its_name(kind):
    cpu, npu = both(kind)
    source = torch.tensor([0.0, 1.0, 3.0])
    for tensor in (source, source.npu()):
        for target in (npu, f"torch.npu.{kind}Tensor"):
            made = tensor.type(target)
            assert made.type() == f"torch.npu.{kind}Tensor"
            assert torch.equal(made.cpu(), source.type(cpu))
    assert source.npu().type(cpu).type() == f"torch.{kind}Tensor"


@pytest.mark.parametrize("name", STORAGES)
def test_a_storage_is_made_by_the_name_of_its_type(name):
    cpu, npu = getattr(torch, name), getattr(torch.npu, name)
    storage = npu(4)
    assert storage.device.type == "npu"
    assert (storage.size(), storage.dtype) == (4, cpu(4).dtype)
    assert npu([1, 0]).tolist() == cpu([1, 0]).tolist()
    assert isinstance(torch.ones(2, dtype=storage.dtype, device="npu").storage(), npu)
    with pytest.raises(RuntimeError, match="memory of the host"):
        npu.from_buffer(b"1234", "native")


def test_a_tensor_is_saved_and_loaded_with_its_type(tmp_path):
    tensor = torch.npu.HalfTensor([1, 2])
    torch.save(tensor, tmp_path / "t.pt")
    loaded = torch.load(tmp_path / "t.pt")
    assert loaded.type() == "torch.npu.HalfTensor"
    assert torch.equal(loaded.cpu(), tensor.cpu())


def test_legacy_types_are_imported_on_first_use(child):
    done = child(
        """
        import sys, torch
        print("torch_npu.npu._legacy" in sys.modules)
        torch.npu.FloatTensor
        print("torch_npu.npu._legacy" in sys.modules, torch.npu.is_initialized())
        """
    )
    assert done.stdout == "False\nTrue False\n", done.stderr


@pytest.fixture
def cpu_again():
    yield
    torch.set_default_tensor_type(torch.FloatTensor)


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_a_type_can_be_the_default(cpu_again, by_name):
    torch.set_default_tensor_type("torch.npu.DoubleTensor" if by_name else torch.npu.DoubleTensor)
    made = [
        torch.zeros(2),
        torch.tensor([0.5]),
        torch.Tensor([1]),
        torch.Tensor(2, 3),
        torch.Tensor(),
        torch.nn.Linear(2, 2).weight,
    ]
    assert [(tensor.device.type, tensor.dtype) for tensor in made] == [("npu", torch.float64)] * len(made)
    assert torch.Tensor([1, 2]).tolist() == [1, 2]
    assert torch.Tensor(2, 3).shape == (2, 3)
    host = torch.ones(2, device="cpu")
    assert torch.Tensor(host).data_ptr() == host.data_ptr()
    assert isinstance(torch.nn.Parameter(host), torch.Tensor)
    torch.set_default_tensor_type(torch.FloatTensor)
    assert [(tensor.device.type, tensor.dtype) for tensor in (torch.zeros(2), torch.Tensor([1]))] == [("cpu", torch.float32)] * 2


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_an_integer_type_cannot_be_the_default(cpu_again):
    for kind in (torch.npu.LongTensor, torch.LongTensor):
        with pytest.raises(TypeError, match="only floating-point types"):
            torch.set_default_tensor_type(kind)
    assert torch.Tensor([1]).device.type == "cpu"
