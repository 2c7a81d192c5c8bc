"""The most memory of the host that a training needs on npu, as a ratio to the same training on the CPU.

    scripts/bench memory [--case ResNet-18]

Each training is a process of its own with ten steps. Memory is its largest resident set.
"""

import argparse
import subprocess
import sys

BAR = 1.15
NETWORKS = ("ResNet-18", "ResNet-50", "U-Net", "LSTM", "BERT", "GPT", "ViT-tiny")
PROGRAM = """
import resource, sys
import torch
from bench.models.__main__ import _training
step = _training(sys.argv[1])(sys.argv[2])
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def mebibytes(network, device):
    command = [sys.executable, "-c", PROGRAM, network, device]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="", help="beginning of the names of the networks")
    options = parser.parse_args()
    missed = False
    for network in (name for name in NETWORKS if name.startswith(options.case)):
        cpu, npu = mebibytes(network, "cpu"), mebibytes(network, "npu")
        missed |= npu > BAR * cpu
        print(
            f"{network:12} CPU {cpu:7.0f} MiB  npu {npu:7.0f} MiB  {npu / cpu:5.2f}{'  MISSED' if npu > BAR * cpu else ''}",
            flush=True,
        )
    sys.exit(missed)


if __name__ == "__main__":
    main()
