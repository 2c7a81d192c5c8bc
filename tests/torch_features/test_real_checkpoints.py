"""Checkpoints are exchanged with the real package in both directions."""

import collections
import io
import pickle
import pickletools
import zipfile

import pytest
import torch
import torch_npu
from torch import nn
from torch_npu.npu._format import Format
from torch_npu.utils.storage import _rebuild_npu_tensor

from tests.support import two_devices
from tests.torch_features.map_locations import MAPS


class OfRealPackage:
    """Pickles a tensor on the CPU as the real package pickles one on npu."""

    def __init__(self, tensor, info=2):
        self.tensor, self.info = tensor, info

    def __reduce__(self):
        x = self.tensor
        place = x.storage_offset(), tuple(x.size()), x.stride()
        return _rebuild_npu_tensor, (x._typed_storage(), *place, x.requires_grad, collections.OrderedDict(), self.info)


class ParameterOfRealPackage(OfRealPackage):
    def __reduce__(self):
        return torch._utils._rebuild_parameter, (OfRealPackage(self.tensor, self.info), True, collections.OrderedDict())


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


# A storage in such a file is on the CPU; map_location treats it as one of the current NPU.
MAPS = {
    **MAPS,
    "meta": ("meta", "meta"),
    "npu": ("npu", "npu:1"),
    "dict of all": ({"npu": "cpu"}, "cpu"),
    "dict of cpu": ({"cpu": "npu:0"}, "npu:0"),
    "dict of cpu to cpu": ({"cpu": "cpu"}, "cpu"),
}


@two_devices
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_map_location(name, weights_only, zipped):
    location, expected = MAPS[name]
    x = torch.arange(6.0).view(2, 3).t()
    file = saved({"x": OfRealPackage(x), "plain": x.clone()}, _use_new_zipfile_serialization=zipped)
    if location == "meta" and not zipped:
        pytest.skip("torch offers it for zip files only")
    with torch.npu.device(1):
        back = torch.load(file, map_location=location, weights_only=weights_only)
    y, plain = back["x"], back["plain"]
    assert str(y.device) == expected
    assert y.stride() == x.stride() and y.dtype == x.dtype
    assert expected == "meta" or torch.equal(y.cpu(), x)
    if name in ("none", "dict", "dict to cpu", "dict of others", "function without answer"):
        assert plain.device.type == "cpu"  # the file says that it was on the CPU


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
def test_dtypes_views_and_empty_tensors(dtype, weights_only):
    whole = torch.arange(12).to(dtype).view(3, 4)
    tensors = [whole, whole[1:], whole[:, 1], whole[:0], torch.tensor(3).to(dtype)]
    back = torch.load(saved([OfRealPackage(x) for x in tensors]), weights_only=weights_only)
    for one, other in zip(back, tensors, strict=True):
        assert one.is_npu and one.dtype == dtype and one.stride() == other.stride()
        assert torch.equal(one.cpu(), other)
    back[0][1, 0] = 0
    assert back[1][0, 0].item() == 0  # one storage of the file is one storage


@pytest.mark.parametrize("weights_only", [True, False])
def test_the_npu_format_is_restored(weights_only):
    x = torch.arange(12.0).view(3, 4)
    infos = [29, Format.FRACTAL_NZ, 2, Format.ND, True, False, 3, 12345]
    back = torch.load(saved([OfRealPackage(x.clone(), info) for info in infos]), weights_only=weights_only)
    found = [torch_npu.get_npu_format(y) for y in back]
    assert found == [Format.FRACTAL_NZ] * 2 + [Format.ND] * 6  # format 3, NC1HWC0, needs four dimensions
    assert all(torch.equal(y.cpu(), x) for y in back)
    on_cpu = torch.load(saved(OfRealPackage(x, 29)), map_location="cpu", weights_only=weights_only)
    assert torch.equal(on_cpu, x)


def as_real_package(value):
    """A state_dict with every tensor as the real package writes it."""
    if isinstance(value, nn.Parameter):
        return ParameterOfRealPackage(value.detach().cpu())
    if isinstance(value, torch.Tensor):
        return OfRealPackage(value.cpu()) if value.is_npu else value
    if isinstance(value, dict):
        return type(value)((key, as_real_package(each)) for key, each in value.items())
    return [as_real_package(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", ["real", "ours"])
@pytest.mark.parametrize("location", [None, "cpu", "npu"])
def test_a_training_goes_on(kind, location):
    def training(device):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).to(device, torch.float64)
        return net, torch.optim.AdamW(net.parameters(), lr=0.1)

    def step(net, optimizer):
        optimizer.zero_grad()
        x = torch.linspace(-1, 1, 20, dtype=torch.float64, device=next(net.parameters()).device)
        net(x.view(5, 4)).pow(2).sum().backward()
        optimizer.step()

    net, optimizer = training("npu")
    step(net, optimizer)
    state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    file = saved(as_real_package(state) if kind == "real" else state)
    step(net, optimizer)

    twin, twin_optimizer = training("cpu" if location == "cpu" else "npu")
    back = torch.load(file, map_location=location)
    assert back["net"]["0.weight"].device.type == (location or "npu")
    twin.load_state_dict(back["net"])
    twin_optimizer.load_state_dict(back["optimizer"])
    step(twin, twin_optimizer)
    assert back["epoch"] == 3
    for name, value in net.state_dict().items():
        torch.testing.assert_close(twin.state_dict()[name].cpu(), value.cpu(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("weights_only", [True, False])
def test_parameters_stay_parameters(weights_only):
    back = torch.load(saved(ParameterOfRealPackage(torch.ones(2))), weights_only=weights_only)
    assert isinstance(back, nn.Parameter) and back.is_npu and back.requires_grad and back.is_leaf
    back = torch.load(
        saved(OfRealPackage(torch.ones(2, requires_grad=True).detach().requires_grad_())), weights_only=weights_only
    )
    assert back.requires_grad and back.is_leaf


def test_a_plain_pickle_is_read():
    back = pickle.loads(pickle.dumps(OfRealPackage(torch.arange(3.0))))
    assert back.is_npu and back.tolist() == [0, 1, 2]


def test_a_file_is_read_without_data():
    from torch._subclasses.fake_tensor import FakeTensorMode

    file = saved(OfRealPackage(torch.arange(6.0).view(2, 3)))
    for location, expected in ((None, "npu"), ("cpu", "cpu"), ("npu:0", "npu")):
        file.seek(0)
        with FakeTensorMode():
            back = torch.load(file, map_location=location)
        assert back.shape == (2, 3) and back.device.type == expected


def globals_of(file):
    """The names of classes and functions in a zip file of torch.save."""
    archive = zipfile.ZipFile(file)
    data = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
    return {argument for code, argument, _ in pickletools.genops(data) if code.name == "GLOBAL"}


def test_files_name_only_functions_of_the_real_package():
    x = torch.arange(12.0, device="npu").view(3, 4)
    ours = [x, nn.Parameter(x.clone()), torch_npu.npu_format_cast(x, Format.ND), x.bfloat16()]
    plain = {"torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter", "collections OrderedDict"}
    assert globals_of(saved(ours)) <= plain | {"torch FloatStorage", "torch BFloat16Storage"}
    private = torch_npu.npu_format_cast(x, Format.FRACTAL_NZ)
    found = globals_of(saved([private, nn.Parameter(private)]))
    assert found <= plain | {"torch FloatStorage", "torch_npu.utils.storage _rebuild_npu_tensor"}
    assert "torch_npu.utils.storage _rebuild_npu_tensor" in found


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_private_format_is_written_and_read(weights_only):
    x = torch_npu.npu_format_cast(torch.arange(12.0, device="npu").view(3, 4), Format.FRACTAL_NZ)
    tensor, parameter, row = torch.load(saved([x, nn.Parameter(x), x[1]]), weights_only=weights_only)
    assert torch_npu.get_npu_format(tensor) == torch_npu.get_npu_format(parameter) == Format.FRACTAL_NZ
    assert isinstance(parameter, nn.Parameter) and parameter.requires_grad
    assert torch.equal(tensor, x) and torch.equal(parameter, x) and torch.equal(row, x[1])
    assert torch.load(saved(x), map_location="cpu").tolist() == x.tolist()
    assert torch_npu.get_npu_format(pickle.loads(pickle.dumps(x))) == Format.FRACTAL_NZ


def test_without_a_device_the_file_asks_for_map_location(child, tmp_path):
    torch.save(OfRealPackage(torch.ones(2)), tmp_path / "x.pt")
    done = child("import sys, torch; torch.load(sys.argv[1])", tmp_path / "x.pt", ASCEND_RT_VISIBLE_DEVICES="")
    assert "map_location" in done.stderr
    program = "import sys, torch; print(torch.load(sys.argv[1], map_location='cpu').tolist())"
    done = child(program, tmp_path / "x.pt", ASCEND_RT_VISIBLE_DEVICES="")
    assert done.stdout == "[1.0, 1.0]\n", done.stderr


def test_a_file_of_the_cpu_starts_no_device(child, tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "x.pt")
    program = """
        import sys, torch
        for location in (None, "cpu", {"cuda:0": "npu:0"}, {"npu:0": "npu:1"}, lambda storage, location: storage):
            assert torch.load(sys.argv[1], map_location=location)["x"].device.type == "cpu"
        print(torch.npu.is_initialized())
    """
    done = child(program, tmp_path / "x.pt")
    assert done.stdout == "False\n", done.stderr


def test_tensor_subclasses_are_written_as_torch_does():
    from torch.testing._internal.two_tensor import TwoTensor

    x = TwoTensor(torch.ones(2, device="npu"), torch.zeros(2, device="npu"))
    back = torch.load(saved(x), weights_only=False)
    assert isinstance(back, TwoTensor) and back.a.is_npu and back.b.tolist() == [0, 0]


def test_a_program_without_import_torch_npu_reads_the_file(child, tmp_path):
    torch.save(OfRealPackage(torch.ones(2), Format.FRACTAL_NZ), tmp_path / "x.pt")
    for weights_only in (True, False):
        program = f"import sys, torch; print(torch.load(sys.argv[1], weights_only={weights_only}))"
        done = child(program, tmp_path / "x.pt")
        assert done.stdout == "tensor([1., 1.], device='npu:0')\n", done.stderr
