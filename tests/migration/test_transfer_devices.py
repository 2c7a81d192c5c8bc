"""While transfer_to_npu is applied, the device cuda is npu, in every way to name a device."""

import io
import json

import pytest
import torch
from torch_npu.contrib import transfer_to_npu

transfer_to_npu.undo()


IMPORT = "import torch_npu.contrib.transfer_to_npu"


@pytest.fixture
def transferred():
    with transfer_to_npu.scope():
        yield


@pytest.mark.parametrize("device", ["cpu", "meta", "npu:0", "npu:1"])
def test_other_devices_are_not_touched(transferred, device):
    x = torch.ones(2, device=device)
    assert x.device == torch.device(device) and str(x.device) == device
    assert x.is_cuda == x.is_npu == device.startswith("npu")
    assert (x.device.type == "cuda") == device.startswith("npu")
    assert x.to(device) is x


@pytest.mark.usefixtures("transferred")
class TestDevices:
    def test_every_spelling_is_the_same_device(self):
        spellings = ["cuda:1", torch.device("cuda:1"), torch.device("cuda", 1), torch.device(type="cuda", index=1), 1, "npu:1"]
        for spelling in spellings:
            assert torch.ones(2, device=spelling).device == torch.device("npu:1")
            assert torch.ones(2).to(spelling).device == torch.ones(2).cuda(spelling).device == torch.device("cuda:1")

    def test_a_tensor_that_is_there_is_not_copied(self):
        x = torch.ones(2, device="cuda")
        assert x.cuda() is x.to("cuda") is x.to("cuda:0") is x.to(torch.device("cuda")) is x.to("cuda", torch.float32) is x
        assert x.to("cuda", copy=True) is not x
        module = torch.nn.Linear(2, 2).cuda()
        weight = module.weight
        assert module.to("cuda").cuda(0).weight is weight and weight.is_cuda

    def test_gradients_flow_from_npu_to_the_cpu(self):
        x = torch.ones(2, requires_grad=True)
        (x.to("cuda") * x.cuda()).sum().backward()
        assert x.grad.tolist() == [2, 2] and not x.grad.is_cuda

    @pytest.mark.parametrize(
        "make",
        [
            lambda device: torch.arange(3, device=device),
            lambda device: torch.eye(2, device=device),
            lambda device: torch.empty_strided((2, 2), (1, 2), device=device).fill_(1),
            lambda device: torch.linspace(0, 1, 3, device=device),
            lambda device: torch.tril_indices(3, 3, device=device),
            lambda device: torch.hann_window(4, device=device),
            lambda device: torch.tensor([[1.0]], device=device, requires_grad=True),
            lambda device: torch.as_tensor([1], device=device),
            lambda device: torch.zeros_like(torch.ones(2), device=device),
            lambda device: torch.ones(2).new_full((2,), 3.0, device=device),
            lambda device: torch.ones(2).new_tensor([1.0], device=device),
            lambda device: torch.fft.fftfreq(4, device=device),
            lambda device: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), device=device, check_invariants=True).to_dense(),
            lambda device: torch.nn.Embedding(3, 2, device=device, _weight=torch.ones(3, 2).to(device)).weight,
            lambda device: torch.nn.Conv2d(1, 1, 1, device=device).to(device).weight * 0,
        ],
    )
    def test_factories(self, make):
        made = make("cuda")
        assert made.is_cuda
        assert torch.equal(made.cpu(), make("cpu"))

    def test_a_device_prints_and_compares_as_cuda_and_npu(self):
        x = torch.ones(2, device="cuda:1")
        for name in (str(x.device), f"{x.device}", x.device.type, torch.device("cuda").type):
            assert "cuda" in name and name.startswith("cuda") and name.startswith(("xpu", "cuda"))
            assert "npu" in name and name.startswith("npu") and not name.startswith("cpu") and "xpu" not in name
        assert (
            str(x.device) == "cuda:1" == str(torch.device("cuda", 1)) and str(x.device) == "npu:1" and str(x.device) != "cuda:0"
        )
        assert repr(x.device) == "device(type='npu', index=1)" and f"on {x.device}" == "on npu:1"
        assert torch.device(str(x.device)) == x.device and json.loads(json.dumps(str(x.device))) == "npu:1"
        assert x.type() == "torch.cuda.FloatTensor" == x.cpu().type(x.type()).type() and x.type() != "torch.cuda.HalfTensor"
        assert x.type().startswith("torch.cuda") and not x.cpu().type().startswith("torch.cuda")
        assert not {"cuda" in str(torch.device("cpu")), str(torch.device("meta")) == "cuda"} & {True}
        file = io.BytesIO()
        torch.save({"device": str(x.device), "x": x}, file)
        file.seek(0)
        loaded = torch.load(file, map_location=x.device, weights_only=True)
        assert loaded["device"] == "npu:1" and type(loaded["device"]) is str and loaded["x"].device == x.device

    def test_classes_of_torch_keep_their_types(self):
        assert isinstance(torch.device("cuda"), torch.device) and type(torch.ones(1, device="cuda")) is torch.Tensor
        assert isinstance(torch.cuda.Stream(), torch.Stream) and isinstance(torch.Generator("cuda"), torch.Generator)
        assert isinstance(torch.nn.Parameter(torch.ones(1, device="cuda")), torch.nn.Parameter)

    def test_default_devices(self):
        with torch.device("cuda"):
            assert torch.ones(1).is_cuda
        torch.set_default_device("cuda:1")
        try:
            assert torch.ones(1).get_device() == 1
        finally:
            torch.set_default_device(None)

    def test_a_device_that_is_not_there_is_named(self):
        with pytest.raises(RuntimeError, match="77"):
            torch.ones(1, device="cuda:77")


def test_torch_script_reads_cuda_as_npu(transferred):
    @torch.jit.script
    def there(x: torch.Tensor, device: str):
        if x.to("cuda").device.type == "cuda":
            x = x.cuda() + torch.ones(2, device="cuda")
        return x, x.to(device), torch.device(device), x.to("cpu").device.type

    for _ in range(3):
        x, moved, device, of_cpu = there(torch.ones(2), "cuda:1")
        assert x.device == torch.device("npu:0") and x.tolist() == [2, 2]
        assert moved.device == device == torch.device("npu:1") and of_cpu == "cpu"


def test_torch_script_is_restored_by_undo():
    def kind(device: str):
        return torch.device(device).type

    with transfer_to_npu.scope():
        assert torch.jit.script(kind)("cuda:1") == "cuda"
    assert torch.jit.script(kind)("npu") == "npu"


@pytest.mark.parametrize(("devices", "of_ascend", "count"), [("1,2", None, 2), ("5", "0,1,2", 3)])
def test_devices_are_those_of_cuda_visible_devices(python, devices, of_ascend, count):
    """The variable is set after the import and before a device is used. ASCEND_RT_VISIBLE_DEVICES is unchanged."""
    done = python(
        f"""
        {IMPORT}
        import os, torch
        os.environ["CUDA_VISIBLE_DEVICES"] = {devices!r}
        print(torch.cuda.device_count(), torch.cuda.is_available())
        print(os.popen("echo $ASCEND_RT_VISIBLE_DEVICES").read().strip())
        """,
        **({} if of_ascend is None else {"ASCEND_RT_VISIBLE_DEVICES": of_ascend}),
        SOFTNPU_DEVICE_COUNT="8",
    )
    assert done.stdout == f"{count} {count > 0}\n{of_ascend or ''}\n", done.stderr


def test_cuda_visible_devices_has_no_effect_without_transfer(python):
    done = python("import torch; print(torch.npu.device_count())", CUDA_VISIBLE_DEVICES="1", SOFTNPU_DEVICE_COUNT="3")
    assert done.stdout == "3\n", done.stderr


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_the_default_type_may_be_one_of_cuda():
    try:
        with transfer_to_npu.scope():
            for kind in ("torch.cuda.FloatTensor", torch.cuda.FloatTensor):
                torch.set_default_tensor_type(kind)
                assert torch.Tensor([1]).is_cuda and torch.Tensor(2, 3).is_cuda and torch.zeros(1).is_cuda
                torch.set_default_tensor_type(torch.FloatTensor)
                assert not torch.Tensor([1]).is_cuda and not torch.zeros(1).is_cuda
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
