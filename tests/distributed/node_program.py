"""A process of a node: sums a tensor over the nodes and prints the sum. Run by test_two_nodes.py."""

import datetime
import os

import torch
import torch_npu  # noqa: F401
from torch import distributed as dist


def main():
    torch.npu.set_device(int(os.environ["RANK"]))  # the nodes of the test share the devices of one machine
    dist.init_process_group("hccl", timeout=datetime.timedelta(seconds=20))
    x = torch.full((100_000,), dist.get_rank() + 1.0, device="npu")
    dist.all_reduce(x)
    print("sum", x[-1].item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
