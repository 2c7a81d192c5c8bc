"""Trains a small convolutional net on npu and on the CPU, step by step, and compares the two.

    python examples/quickstart.py [--device npu] [--epochs 10] [--batch-size 64]

The data are the 1,797 handwritten digits of scikit-learn. The exit status is 1 if the losses differ, an operator ran on the CPU
instead of the device, the checkpoint cannot be read on the CPU, or the net does not learn.
"""

import argparse
import copy
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch_npu  # noqa: F401  (beside a CUDA device `import torch` alone does not register npu)
from sklearn.datasets import load_digits
from torch import nn
from tqdm import tqdm

EPOCHS = 10
ACCURACY = 0.97
TOLERANCE = 1e-4


def make_net():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 2 * 2, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def load_data():
    """Images and labels of the training set, then of the test set."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels))
    train, test = order[360:], order[:360]
    return images[train], labels[train], images[test], labels[test]


class Runner:
    """A net on one device, with its optimizer and the time of its steps."""

    def __init__(self, net, device):
        self.device = device
        self.net = copy.deepcopy(net).to(device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=2e-3)
        self.seconds = 0.0

    def step(self, images, labels):
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.net(images.to(self.device)), labels.to(self.device))
        loss.backward()
        self.optimizer.step()
        loss = loss.item()
        self.seconds += time.perf_counter() - begin
        return loss

    @torch.no_grad()
    def accuracy(self, images, labels):
        self.net.eval()
        right = self.net(images.to(self.device)).argmax(1) == labels.to(self.device)
        self.net.train()
        return right.float().mean().item()


def warm_up(net, devices, images, labels):
    """Runs one step of a copy of the net on each device: the first step imports modules of torch and starts threads."""
    for device in devices:
        Runner(net, device).step(images, labels)


def train(runner, reference, data, epochs, batch_size):
    """Trains both on the same batches. Returns the largest difference of the losses, relative for losses above 1."""
    images, labels, test_images, test_labels = data
    difference = 0.0
    for epoch in range(1, epochs + 1):
        total = 0.0
        batches = torch.randperm(len(labels)).split(batch_size)
        for batch in tqdm(batches, desc=f"epoch {epoch:2d}/{epochs}", unit="step", leave=False, disable=None):
            loss = runner.step(images[batch], labels[batch])
            expected = reference.step(images[batch], labels[batch])
            difference = max(difference, abs(loss - expected) / max(1.0, abs(expected)))
            total += loss * len(batch)
        accuracy = runner.accuracy(test_images, test_labels)
        print(f"epoch {epoch:2d}/{epochs}  loss {total / len(labels):.4f}  test accuracy {accuracy:.2%}", flush=True)
    return difference


def checkpoint_agrees(runner, images):
    """Saves the net from its device, loads it on the CPU, and compares the outputs of both."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "digits.pt")
        torch.save(runner.net.state_dict(), file)
        net = make_net().eval()
        net.load_state_dict(torch.load(file, map_location="cpu"))
    runner.net.eval()
    with torch.no_grad():
        return torch.allclose(runner.net(images.to(runner.device)).cpu(), net(images), rtol=TOLERANCE, atol=TOLERANCE)


def describe(device):
    if device.type != "npu":
        return str(device)
    library = torch.npu.library_info()
    return f"{device}, {torch.npu.get_device_name(device)}, by {library['path']} ({library['origin']} {library['version']})"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=device, default="npu", help="npu, npu:1, cpu (default: npu)")
    parser.add_argument("--epochs", type=positive, default=EPOCHS, help=f"default: {EPOCHS}")
    parser.add_argument("--batch-size", type=positive, default=64, help="default: 64")
    return parser.parse_args()


def device(text):
    try:
        return torch.device(text)
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(error) from error


def positive(text):
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def main():
    arguments = parse_arguments()
    torch.manual_seed(0)
    data = load_data()
    net = make_net()
    runner, reference = Runner(net, arguments.device), Runner(net, torch.device("cpu"))
    print(f"device: {describe(arguments.device)}")
    warm_up(net, (reference.device, runner.device), data[0][: arguments.batch_size], data[1][: arguments.batch_size])

    difference = train(runner, reference, data, arguments.epochs, arguments.batch_size)
    accuracy = runner.accuracy(data[2], data[3])
    agrees = checkpoint_agrees(runner, data[2])
    fallbacks = torch.npu.fallback_stats() if arguments.device.type == "npu" else {}

    checks = {
        f"largest difference of losses from the CPU's {difference:.1e}": difference <= TOLERANCE,
        f"CPU fallbacks {sum(fallbacks.values())} {fallbacks or ''}".strip(): not fallbacks,
        "checkpoint read back on the CPU": agrees,
    }
    if arguments.epochs >= EPOCHS:  # with fewer epochs the accuracy is not checked
        checks[f"test accuracy {accuracy:.2%}"] = accuracy >= ACCURACY
    for text, good in checks.items():
        print(f"{'ok    ' if good else 'FAILED'} {text}")
    ratio, threads = runner.seconds / reference.seconds, f"{torch.get_num_threads()} threads on {os.cpu_count()} cores"
    print(f"time: {ratio:.2f} of the CPU's ({runner.seconds:.2f} s, CPU {reference.seconds:.2f} s), {threads}")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
