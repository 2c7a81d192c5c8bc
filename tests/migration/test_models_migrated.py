"""The 55 models that the guide's table promises: their CUDA training scripts train on npu as on the CPU.

Each script prints the losses of 3 training steps. It runs as it is with "cuda" meaning the CPU (the reference), as it is under
transfer_to_npu, and after conversion by the transplant tool. No operator falls back to the CPU.
"""

import importlib.util
import json
from pathlib import Path

import pytest

MODELS = Path(__file__).with_name("models")
RUNNER = Path(__file__).with_name("train_scripts.py")
TORCHVISION = importlib.util.find_spec("torchvision") is not None
TOLERANCE = 1e-4

# The names in the guide's table, in its order, with our scripts.
TABLE = {
    "3D AttentionNet": "attention_net_3d",
    "3D Nested_UNet": "nested_unet_3d",
    "Advanced East": "advanced_east",
    "AlexNet": "alexnet",
    "DeeplabV3+(Xception-JFT)": "deeplabv3_plus_xception",
    "DeepMar": "deepmar",
    "Densenet121": "densenet121",
    "DenseNet161": "densenet161",
    "DenseNet169": "densenet169",
    "DenseNet201": "densenet201",
    "EAST": "east",
    "FCN": "fcn",
    "FD-GAN": "fd_gan",
    "FOTS": "fots",
    "GENet": "genet",
    "GoogleNet": "googlenet",
    "GRU": "gru",
    "Inception V4": "inception_v4",
    "InceptionV2": "inception_v2",
    "LPRNet": "lprnet",
    "LSTM": "lstm",
    "MNASNet0_5": "mnasnet0_5",
    "MNASNet0_75": "mnasnet0_75",
    "MNASNet1_0": "mnasnet1_0",
    "MNASNet1_3": "mnasnet1_3",
    "MobileNetV1": "mobilenet_v1",
    "MobileNetV2": "mobilenet_v2",
    "PNet": "pnet",
    "PSENet": "psenet",
    "RAFT": "raft",
    "RecVAE": "recvae",
    "ResNet101": "resnet101",
    "ResNet152": "resnet152",
    "ResNet18": "resnet18",
    "ResNet34": "resnet34",
    "ResNet50": "resnet50",
    "Resnext101_32x8d": "resnext101_32x8d",
    "Resnext50": "resnext50_32x4d",
    "RNet": "rnet",
    "Shufflenetv2": "shufflenet_v2",
    "SqueezeNet1_0": "squeezenet1_0",
    "SqueezeNet1_1": "squeezenet1_1",
    "U-Net": "unet",
    "VAE+GAN": "vae_gan",
    "VGG11": "vgg11",
    "VGG11_BN": "vgg11_bn",
    "VGG13": "vgg13",
    "VGG13_BN": "vgg13_bn",
    "VGG16": "vgg16",
    "VGG16_BN": "vgg16_bn",
    "VGG19": "vgg19",
    "VGG19_BN": "vgg19_bn",
    "VIT-base": "vit_base",
    "Wide_ResNet101_2": "wide_resnet101_2",
    "Wide_ResNet50_2": "wide_resnet50_2",
}
QUICK = {"3D AttentionNet", "3D Nested_UNet", "EAST", "FOTS", "GRU", "LPRNet", "LSTM", "PNet", "RecVAE", "U-Net", "VAE+GAN"}

# The options of mixed precision.
MIXED = {
    "3D Nested_UNet": "--amp",
    "Densenet121": "--amp",
    "DenseNet201": "--amp",
    "FCN": "--amp",
    "Inception V4": "--amp",
    "MNASNet1_3": "--amp",
    "RAFT": "--mixed_precision",
    "Shufflenetv2": "--amp",
    "U-Net": "--amp",
    "VGG19_BN": "--amp",
    "VIT-base": "--fp16",
    "Wide_ResNet101_2": "--amp",
}
MIXED_TOLERANCE = 0.02

# One device, as the CPU is one: torch.nn.DataParallel splits batches, and batch normalization sees the parts.
ON_NPU = {"ASCEND_RT_VISIBLE_DEVICES": "0"}
WITHOUT_NPU = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}

TRAIN = """
import runpy, sys
sys.argv[:] = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PROGRAMS = {
    "cpu": TRAIN,
    "transfer": "import torch_npu.contrib.transfer_to_npu" + TRAIN,
    "converted": "import torch_npu" + TRAIN,
}


def needs_torchvision(name):
    return "torchvision" in (MODELS / f"{TABLE[name]}.py").read_text()


def cases(names):
    return [pytest.param(name, marks=[] if name in QUICK else pytest.mark.full, id=TABLE[name]) for name in names]


def batches():
    """The models that one process trains: all quick ones, and a few others."""
    others = [name for name in TABLE if name not in QUICK]
    return [[name for name in TABLE if name in QUICK], *(others[start : start + 4] for start in range(0, len(others), 4))]


@pytest.fixture(scope="session")
def train(child, tmp_path_factory):
    """Trains with scripts in one process. Returns their losses; fails if one fails."""

    def run(way, *scripts):
        place = "cpu" if way == "cpu" else "npu"
        commands = json.dumps([[str(word) for word in command] for command in scripts])
        environment = WITHOUT_NPU if way == "cpu" else ON_NPU
        done = child(PROGRAMS[way], RUNNER, place, tmp_path_factory.mktemp("train"), commands, **environment)
        results = [json.loads(line) for line in done.stdout.splitlines()]
        return [*results, *({"error": f"the process ended with {done.returncode}: {done.stderr}"} for _ in scripts)][
            : len(scripts)
        ]

    return run


@pytest.fixture(scope="session")
def losses(train):
    """The losses of a model by way "cpu", "transfer" or "converted"; the models of its batch run with it."""
    known = {}

    def get(way, name, folder=MODELS):
        if needs_torchvision(name) and not TORCHVISION:
            pytest.skip("torchvision is not installed")
        if (way, name) not in known:
            names = [
                one for one in next(batch for batch in batches() if name in batch) if TORCHVISION or not needs_torchvision(one)
            ]
            results = train(way, *([folder / f"{TABLE[one]}.py"] for one in names))
            known.update(((way, one), result) for one, result in zip(names, results, strict=True))
        assert "error" not in known[way, name], known[way, name]["error"]
        return known[way, name]["losses"]

    return get


@pytest.fixture(scope="session")
def converted(child, tmp_path_factory):
    """The folder of the scripts that the transplant tool has written."""
    for package in ("libcst", "openpyxl"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    folder = tmp_path_factory.mktemp("transplant")
    program = "import sys; from torch_npu.transplant import main; sys.exit(main(sys.argv[1:]))"
    done = child(program, "-i", MODELS, "-o", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "models_msft"


def test_the_folder_holds_the_55_models_of_the_table():
    assert len(TABLE) == 55
    assert {path.stem for path in MODELS.glob("*.py")} == set(TABLE.values())
    assert sum(not needs_torchvision(name) for name in QUICK) >= 10


@pytest.mark.parametrize("name", cases(TABLE))
def test_a_script_trains_under_transfer_to_npu(name, losses):
    assert losses("transfer", name) == pytest.approx(losses("cpu", name), rel=TOLERANCE)


@pytest.mark.parametrize("name", cases(TABLE))
def test_a_converted_script_trains(name, losses, converted):
    assert losses("converted", name, converted) == pytest.approx(losses("cpu", name), rel=TOLERANCE)


def test_conversion_leaves_nothing_to_do(converted):
    rows = (converted / "unsupported_op.csv").read_text().splitlines()
    assert len(rows) == 1, rows
    for script in MODELS.glob("*.py"):
        text = (converted / script.name).read_text()
        assert "import torch_npu" in text and ".cuda(" not in text and '"cuda' not in text, script.name


@pytest.mark.full
@pytest.mark.parametrize("name", cases(MIXED))
def test_a_script_trains_in_mixed_precision(name, losses, train):
    """The losses are those of single precision, but for the rounding of half precision."""
    expected = losses("cpu", name)
    (result,) = train("transfer", [MODELS / f"{TABLE[name]}.py", MIXED[name]])
    assert "error" not in result, result["error"]
    assert result["losses"] != expected
    assert result["losses"] == pytest.approx(expected, rel=MIXED_TOLERANCE)


def test_the_comparison_notices_an_optimizer_that_does_nothing(losses, train, tmp_path):
    script = tmp_path / "untrained.py"
    script.write_text((MODELS / "gru.py").read_text().replace("optimizer.step()", "pass"))
    (result,) = train("transfer", [script])
    assert result["losses"] != pytest.approx(losses("cpu", "GRU"), rel=TOLERANCE)


def test_an_operator_that_falls_back_is_an_error(train, tmp_path):
    script = tmp_path / "fallback.py"
    script.write_text("import torch\ntorch.ops.aten._foobar(torch.ones(2).cuda())\n")
    (result,) = train("transfer", [script])
    assert "_foobar" in result["error"]
