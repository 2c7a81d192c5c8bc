"""Finds the operator of a training step that is wrong on npu: dumps a step on the CPU, replays its inputs on npu, compares.

    python examples/accuracy/dump_and_compare.py [--device npu] [--out accuracy_result]

In your program, put the two `with` blocks around the forward and the backward pass of one step, and run

    msaccucmp compare -m mine.h5 -g golden.h5 -out accuracy_result

The exit status is that of msaccucmp: 0 if the runs agree, 1 if an operator differs. The page result_*.html shows the operator.
"""

import argparse
import sys
from pathlib import Path

import torch
import torch_npu  # noqa: F401
from torch import nn
from torch_npu.tools.accuracy.cli import main as msaccucmp


def step(device):
    """One step, with a small batch; without the optimizer."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10))
    x, target = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
    network = network.to(device)
    nn.functional.cross_entropy(network(x.to(device)), target.to(device)).backward()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu")
    parser.add_argument("--out", type=Path, default=Path("accuracy_result"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    golden, mine = str(options.out / "golden.h5"), str(options.out / "mine.h5")

    with torch.utils.dumper(use_dump=True, dump_path=golden):
        step("cpu")
    with torch.utils.dumper(use_dump=True, load_file_path=golden, dump_path=mine):
        step(options.device)

    sys.exit(msaccucmp(["compare", "-m", mine, "-g", golden, "-out", str(options.out)]))


if __name__ == "__main__":
    main()
