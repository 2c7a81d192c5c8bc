"""The trainer of examples/imagenet: networks, images, one process, checkpoints, and what it refuses."""

import pytest
import torch

from examples.imagenet import main as program
from examples.imagenet import networks
from examples.imagenet.data import ImageFolder, SyntheticImages
from examples.imagenet.options import BadOption, parse
from tests.compare import assert_close
from tests.examples.imagenet_folder import make_folder
from tests.models.training import check_training, needs

SMALL = ["--arch", "shufflenet_v2_x0_5", "--image-size", "32", "--batch-size", "8", "--workers", "0", "--synthetic-images", "16",
         "--lr", "0.01", "--print-freq", "1", "--seed", "3"]  # fmt: skip
PARAMETERS = {
    "alexnet": 61_100_840, "resnet18": 11_689_512, "resnet34": 21_797_672, "resnet50": 25_557_032, "resnet101": 44_549_160,
    "resnet152": 60_192_808, "shufflenet_v2_x1_0": 2_278_604, "vgg11": 132_863_336, "vgg16_bn": 138_365_992,
}  # fmt: skip


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the trainer in this process, in an empty folder. Returns what it printed."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        program.main([*SMALL, *map(str, arguments)])
        return capsys.readouterr().out

    return call


@pytest.fixture
def amp():
    """apex.amp, undone after the test."""
    from apex import amp

    yield amp
    amp.uninitialize()


def checkpoint(path="checkpoint.pth.tar"):
    return torch.load(path, map_location="cpu", weights_only=True)


def losses(text):
    return [float(line.split("Loss ")[1].split()[0]) for line in text.splitlines() if "Loss " in line]


@pytest.mark.parametrize("arch", PARAMETERS)
def test_networks_have_the_number_of_parameters_of_the_papers(arch):
    with torch.device("meta"):
        net = networks.create(arch)
    assert sum(parameter.numel() for parameter in net.parameters()) == PARAMETERS[arch]


@pytest.mark.parametrize("arch", [name for name in networks.NETWORKS if not name.endswith("_tuned")])
def test_networks_have_the_names_of_torchvision(arch):
    models = needs("torchvision").models
    with torch.device("meta"):
        mine, theirs = networks.create(arch).state_dict(), getattr(models, arch)(weights=None).state_dict()
    assert {name: value.shape for name, value in mine.items()} == {name: value.shape for name, value in theirs.items()}
    assert networks.WEIGHTS[arch] in models.get_model_weights(arch).IMAGENET1K_V1.url


@pytest.mark.parametrize("arch", ["resnet18", "resnet50"])
def test_resnets_compute_what_those_of_torchvision_compute(arch):
    theirs, mine = getattr(needs("torchvision").models, arch)(weights=None, num_classes=7), networks.create(arch, num_classes=7)
    mine.load_state_dict(theirs.state_dict())
    images = torch.randn(2, 3, 32, 32)
    assert torch.equal(mine(images), theirs(images))


def test_resnet18_trains_on_npu_as_on_the_cpu():
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    loss = lambda net, x, y: torch.nn.functional.cross_entropy(net(x), y)  # noqa: E731
    check_training(lambda: networks.create("resnet18", num_classes=10), (images, torch.tensor([1, 7])), loss)


def test_synthetic_images_are_the_same_in_every_process():
    first, again, other = SyntheticImages(12, 8), SyntheticImages(12, 8), SyntheticImages(12, 8, seed=1)
    assert len(first) == 12 and first[3][0].shape == (3, 8, 8)
    assert [label for _, label in first] == [*range(10), 0, 1]
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(first, again, strict=True))
    assert not torch.equal(first[3][0], other[3][0])


def test_a_folder_of_images_has_one_class_per_folder(tmp_path):
    folder = make_folder(tmp_path, train=8, val=4)
    (folder / "train" / "n0001" / "notes.txt").write_text("no image")
    train, val = (ImageFolder(folder / part, 32, augment=part == "train") for part in ("train", "val"))
    assert (train.classes, len(train), len(val)) == (4, 8, 4)
    image, label = val[2]
    colour = torch.tensor([120, 135, 128]).float() / 255
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    assert (label, image.shape, image.dtype) == (2, (3, 32, 32), torch.float32)
    assert_close(image, ((colour - mean) / deviation).view(3, 1, 1).expand(3, 32, 32))
    assert all(train[number][0].shape == (3, 32, 32) for number in range(8))


def test_one_process_trains_to_a_checkpoint(run):
    printed = run("--epochs", 2)
    steps = [line for line in printed.splitlines() if line.startswith("Epoch:")]
    assert [line.split("\t")[0] for line in steps] == ["Epoch: [0][0/2]", "Epoch: [0][1/2]", "Epoch: [1][0/2]", "Epoch: [1][1/2]"]
    state = checkpoint()
    assert set(state) == {"epoch", "arch", "state_dict", "best_acc1", "optimizer"}
    assert (state["epoch"], state["arch"]) == (2, "shufflenet_v2_x0_5")
    assert list(state["state_dict"]) == list(networks.create("shufflenet_v2_x0_5").state_dict())


def test_npu_and_cpu_train_alike(run):
    npu, cpu = run("--epochs", 1), run("--epochs", 1, "--device", "cpu")
    assert losses(npu)[:2] == pytest.approx(losses(cpu)[:2], rel=1e-3)


def test_a_folder_is_trained_and_evaluated(run, tmp_path):
    folder = make_folder(tmp_path / "data", train=16, val=3)
    run(folder, "--epochs", 1)
    assert " * Loss" in run(folder, "--evaluate", "--resume", "checkpoint.pth.tar")
    assert checkpoint()["epoch"] == 1


def same(first, second):
    leaves = zip(*(torch.utils._pytree.tree_leaves(tree) for tree in (first, second)), strict=True)
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in leaves)


def test_resumed_training_equals_training_without_a_break(run):
    run("--epochs", 2)
    unbroken = checkpoint()
    run("--epochs", 1)
    assert "loaded checkpoint checkpoint.pth.tar (epoch 1)" in run("--epochs", 2, "--resume", "checkpoint.pth.tar")
    assert same(checkpoint(), unbroken)
    assert "nothing is left to train" in run("--epochs", 2, "--resume", "checkpoint.pth.tar")


@pytest.mark.parametrize(("level", "scale"), [("O1", "-1"), ("O2", "1024"), ("O2", "-1")])
def test_resumed_mixed_precision_equals_training_without_a_break(run, amp, level, scale):
    options = ["--amp", "--opt-level", level, "--loss-scale", scale]
    run("--epochs", 2, *options)
    unbroken = checkpoint()
    amp.uninitialize()
    run("--epochs", 1, *options)
    amp.uninitialize()
    run("--epochs", 2, *options, "--resume", "checkpoint.pth.tar")
    resumed = checkpoint()
    assert resumed["amp"] == unbroken["amp"]
    assert {value.dtype for value in resumed["state_dict"].values()} == {torch.float32, torch.int64}
    assert same(resumed, unbroken)


def test_checkpoints_of_the_documents_scripts_and_of_the_tuned_network_are_resumed(run):
    run("--epochs", 1)
    state = checkpoint()
    state["state_dict"] = {f"module.{name}": value for name, value in state["state_dict"].items()}
    state["best_acc1"] = torch.tensor([12.5])
    torch.save(state, "documents.pth.tar")
    assert "(epoch 1)" in run("--resume", "documents.pth.tar", "--evaluate")
    state["arch"] += "_tuned"
    torch.save(state, "tuned.pth.tar")
    assert "(epoch 1)" in run("--resume", "tuned.pth.tar", "--evaluate")


def test_pretrained_weights_come_from_the_cache_of_torch_hub(run, tmp_path, monkeypatch):
    net = networks.create("shufflenet_v2_x0_5")
    torch.nn.init.constant_(net.fc.bias, 7.0)
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(net.state_dict(), folder / networks.WEIGHTS["shufflenet_v2_x0_5"])
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    run("--epochs", 1, "--pretrained", "--lr", "0")
    assert torch.equal(checkpoint()["state_dict"]["fc.bias"], net.fc.bias.detach())


SINGLE = (
    "DATA --batch-size 128 --lr 0.1 --epochs 90 --arch resnet50 --world-size 1 --rank 0 --workers 40 --momentum 0.9 "
    "--weight-decay 1e-4"
)
SEVERAL = (
    "DATA --addr=1.1.1.1 --seed 49 --workers 160 --lr 0.8 --print-freq 1 --arch resnet50 --dist-url tcp://127.0.0.1:50000 "
    "--dist-backend hccl --multiprocessing-distributed --world-size 1 --batch-size 2048 --epochs 90 --rank 0 "
    "--device-list 0,1,2,3,4,5,6,7 --amp"
)


def test_the_commands_of_the_documents_mean_what_they_say(monkeypatch):
    one = parse(SINGLE.split())
    assert (one.distributed, one.devices, one.batch, one.workers, one.lr, one.weight_decay) == (False, [0], 128, 40, 0.1, 1e-4)
    monkeypatch.setenv("MASTER_PORT", "29999")
    monkeypatch.setenv("MASTER_ADDR", "unset")
    several = parse(SEVERAL.split())
    assert (several.distributed, several.world_size, several.batch, several.workers) == (True, 8, 256, 20)
    assert (several.devices, several.dist_backend, several.dist_url) == (list(range(8)), "hccl", "env://")
    assert (several.amp, several.opt_level, several.loss_scale) == (True, "O2", 1024.0)
    assert program.os.environ["MASTER_ADDR"] == "1.1.1.1"


def test_ranks_of_a_second_node_follow_those_of_the_first():
    node = ["--world-size", "2", "--rank", "1", "--device-list", "5,3,4", "--dist-url", "tcp://10.0.0.1:7", "--batch-size", "9"]
    second = parse(["--multiprocessing-distributed", *node])
    assert (second.world_size, second.first_rank, second.devices, second.batch) == (6, 3, [3, 4, 5], 3)


REFUSED = {
    "--arch resnet51": "--arch: resnet51 is not known; choose one of alexnet,",
    "missing-folder": "there is no folder missing-folder/train; the data path needs the folders train and val",
    "--resume missing.pth.tar": "--resume: there is no file missing.pth.tar",
    "--device-list 0,8 --multiprocessing-distributed": "names device 8, but this machine has 8 devices of type npu: 0 to 7",
    "--device-list 0,0": "--device-list names a device twice: 0,0",
    "--device-list 0;1": "--device-list is '0;1'; give numbers with commas",
    "--gpu 11": "--gpu names device 11, but this machine has 8 devices",
    "--gpu 1 --multiprocessing-distributed": "with --multiprocessing-distributed use --device-list",
    "--batch-size 4 --multiprocessing-distributed": "--batch-size is 4, but 8 processes share it: give 8 or more",
    "--batch-size 0": "--batch-size is 0; it must be at least 1",
    "--opt-level O4": "--opt-level: O4 is not known; choose O0, O1, O2 or O3",
    "--loss-scale 0": "--loss-scale is 0.0; give a positive number, or -1",
    "--loss-scale nan": "--loss-scale is nan; give a positive number, or -1",
    "--rank 2 --world-size 2": "--rank is 2, but --world-size is 2; ranks count from 0",
    "--rank 1 --world-size 2": "several nodes need the address of node 0: give --addr or --dist-url",
    "--synthetic-images 5 --batch-size 8": "there are 5 training images, but a step takes 8 on each of 1 devices",
    "--epochs 0": "--epochs is 0; it must be at least 1",
}


@pytest.mark.parametrize("line", REFUSED)
def test_wrong_options_are_refused_in_one_sentence(line, run):
    with pytest.raises(SystemExit) as refused:
        run(*line.split())
    message = refused.value.code
    assert message.startswith("main.py: error: ") and "\n" not in message
    assert REFUSED[line] in message


def test_wrong_checkpoints_are_refused_in_one_sentence(run, tmp_path):
    good = {"epoch": 1, "arch": "resnet18", "state_dict": {}, "best_acc1": 0.0, "optimizer": {}}
    wrong = {
        "other arch": (good, "holds a resnet18, but --arch is shufflenet_v2_x0_5"),
        "no weights": (good | {"arch": "shufflenet_v2_x0_5"}, "does not fit shufflenet_v2_x0_5"),
        "no epoch": ({"arch": "resnet18"}, "it has no best_acc1, epoch, optimizer, state_dict"),
        "no dictionary": (torch.ones(2), "is no checkpoint of this trainer"),
    }
    for name, (content, message) in wrong.items():
        torch.save(content, name)
        with pytest.raises(SystemExit) as refused:
            run("--resume", name)
        assert message in refused.value.code and "\n" not in refused.value.code
    (tmp_path / "text").write_text("no checkpoint")
    with pytest.raises(SystemExit, match="text is no checkpoint of this trainer"):
        run("--resume", "text")
    assert not (tmp_path / "checkpoint.pth.tar").exists()


def test_folders_without_images_and_broken_images_are_refused(run, tmp_path):
    (tmp_path / "data" / "train" / "n0000").mkdir(parents=True)
    with pytest.raises(SystemExit, match="data/train has no images; it needs one folder per class"):
        run(tmp_path / "data")
    folder = make_folder(tmp_path / "other", train=8, val=1)
    (folder / "val" / "n0000" / "broken.png").write_bytes(b"no image")
    with pytest.raises(SystemExit, match=r"broken\.png cannot be read as an image"):
        run(folder, "--epochs", 1)


def test_a_launcher_that_starts_more_processes_than_devices_is_refused(monkeypatch):
    for name, value in {"LOCAL_RANK": "8", "RANK": "8", "WORLD_SIZE": "9", "LOCAL_WORLD_SIZE": "9"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadOption, match="this is process 8 of the node, but there are 8 devices"):
        parse(["--batch-size", "18"])
