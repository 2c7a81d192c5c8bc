"""Checkpoints: every form of map_location, every file format, and errors for missing devices."""

import io
import zipfile

import pytest
import torch
from torch import nn

from tests.support import two_devices
from tests.torch_features.map_locations import MAPS


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


def saved_on(location, tensor):
    """A file of torch.save whose tensor is on a device that this machine lacks."""
    source, target = zipfile.ZipFile(saved(tensor)), io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("data.pkl"):
                data = data.replace(b"X\x03\x00\x00\x00cpu", b"X" + len(location).to_bytes(4, "little") + location.encode())
            archive.writestr(name, data)
    target.seek(0)
    return target


@two_devices
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_map_location(name, weights_only, zipped):
    location, expected = MAPS[name]
    x = torch.arange(6.0, device="npu:1").view(2, 3).t()
    file = saved({"x": x}, _use_new_zipfile_serialization=zipped)
    y = torch.load(file, map_location=location, weights_only=weights_only)["x"]
    assert str(y.device) == expected
    assert y.stride() == x.stride()
    assert torch.equal(y.cpu(), x.cpu())


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("location", [None, "cpu", "npu"])
def test_views_share_memory_after_loading(zipped, location):
    x = torch.arange(6.0, device="npu")
    whole, part, column = torch.load(saved((x, x[2:], x.view(2, 3)[:, 1]), _use_new_zipfile_serialization=zipped), location)
    whole[4] = 100
    assert part[2].item() == column[1].item() == 100
    assert whole.untyped_storage().data_ptr() == part.untyped_storage().data_ptr()


def test_a_file_is_mapped_into_memory(tmp_path):
    x = torch.arange(1000.0, device="npu")
    torch.save({"x": x, "y": x[500:]}, tmp_path / "x.pt")
    for location in (None, "cpu", "npu"):
        back = torch.load(tmp_path / "x.pt", mmap=True, map_location=location)
        assert back["x"].device.type == (location or "npu")
        assert torch.equal(back["x"].cpu(), x.cpu())
        assert torch.equal(back["y"].cpu(), x[500:].cpu())


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_storages_go_where_they_were():
    storage = torch.arange(4.0, device="npu").untyped_storage()
    back = torch.load(saved(storage), weights_only=False)
    assert back.untyped().device.type == "npu"
    assert bytes(back.untyped()) == bytes(storage)


def test_a_training_state_is_saved_and_restored():
    """Parameters, buffers, step tensors, generators' states, numbers and the best metric, which is a tensor on npu."""

    def training():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1)).npu()
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        return net, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2), torch.amp.GradScaler("npu", init_scale=8.0)

    def epoch(net, optimizer, scheduler, scaler):
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(net(torch.rand(5, 4, device="npu")).pow(2).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        scheduler.step()
        return next(net.parameters()).detach().clone()

    parts = training()
    epoch(*parts)
    checkpoint = {"state": [part.state_dict() for part in parts], "rng": torch.npu.get_rng_state(), "epoch": 1}
    checkpoint["best_acc1"] = torch.tensor(0.5, device="npu")
    file = saved(checkpoint)
    expected = epoch(*parts)

    again = training()
    back = torch.load(file, map_location="npu")
    for part, state in zip(again, back["state"], strict=True):
        part.load_state_dict(state)
    torch.npu.set_rng_state(back["rng"].cpu())
    assert torch.equal(epoch(*again), expected)
    assert back["best_acc1"].is_npu
    assert back["best_acc1"].item() == 0.5


def test_module_objects_are_loaded_where_the_file_is_trusted():
    net = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 2)).npu()
    with pytest.raises(Exception, match="weights_only"):
        torch.load(saved({"embedding": net}))
    back = torch.load(saved({"embedding": net}), weights_only=False)["embedding"]
    words = torch.tensor([0, 4], device="npu")
    assert torch.equal(back(words), net(words))
    assert torch.load(saved(net), weights_only=False, map_location="cpu")[0].weight.device.type == "cpu"


def test_a_process_without_the_plugin_reads_it_on_the_cpu(child, tmp_path):
    net = nn.Linear(3, 2).npu()
    torch.save({"state_dict": net.state_dict(), "acc": torch.tensor(2.0, device="npu")}, tmp_path / "x.pt")
    torch.save(net.state_dict(), tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    program = """
        import sys, torch
        assert not hasattr(torch, "npu")
        state = torch.load(sys.argv[1] + "/x.pt", map_location="cpu")
        torch.nn.Linear(3, 2).load_state_dict(state["state_dict"])
        torch.nn.Linear(3, 2).load_state_dict(torch.load(sys.argv[1] + "/legacy.pt", map_location=torch.device("cpu")))
        print(state["acc"].item())
        torch.load(sys.argv[1] + "/x.pt")
    """
    done = child(program, tmp_path, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout == "2.0\n", done.stderr
    assert "npu:0" in done.stderr.splitlines()[-1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA to load it")
@pytest.mark.parametrize("location", ["cuda:0", "cuda:3"])
def test_a_cuda_checkpoint_names_the_map_location_to_use(location):
    x = torch.arange(6.0)
    with pytest.raises(RuntimeError, match=f"{location}.*map_location='npu'"):
        torch.load(saved_on(location, x))
    for there in ("npu", {location: "npu:0"}, lambda storage, location: storage.npu()):
        back = torch.load(saved_on(location, x), map_location=there)
        assert back.is_npu
        assert torch.equal(back.cpu(), x)
    assert torch.equal(torch.load(saved_on(location, x), map_location="cpu"), x)


def test_a_device_that_is_not_there_is_named():
    x = torch.ones(2, device="npu")
    for load in (lambda: torch.load(saved_on("npu:63", x.cpu())), lambda: torch.load(saved(x), map_location="npu:63")):
        with pytest.raises(RuntimeError, match=r"NPU device 63 but .*device_count.* map_location"):
            load()


@pytest.mark.parametrize("device", ["npu", "npu:0", "cpu"])
def test_safetensors(tmp_path, device):
    safetensors = pytest.importorskip("safetensors.torch")
    net = nn.Linear(3, 2, dtype=torch.bfloat16).npu()
    safetensors.save_file(net.state_dict(), tmp_path / "x.safetensors")
    back = safetensors.load_file(tmp_path / "x.safetensors", device=device)
    for name, value in net.state_dict().items():
        assert back[name].device.type == torch.device(device).type
        assert torch.equal(back[name].cpu(), value.cpu())
    twin = nn.Linear(3, 2, dtype=torch.bfloat16, device=device)
    safetensors.save_model(net, tmp_path / "model.safetensors")
    safetensors.load_model(twin, tmp_path / "model.safetensors", device=device)
    assert torch.equal(twin.weight.cpu(), net.weight.cpu())
    assert torch.equal(safetensors.load(safetensors.save(net.state_dict()))["bias"], net.bias.cpu())
