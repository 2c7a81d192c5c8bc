"""Trains with a checkpoint after each step. Rank 1 has one fault. test_rank_faults.py starts it by torchrun.

torchrun --nproc_per_node 2 --max_restarts 2 restart_program.py FOLDER none|kill|exception
"""

import os
import signal
import sys
from pathlib import Path

import torch
import torch_npu  # noqa: F401
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, HARMED = 8, 5


def harm(folder, fault):
    mark = folder / "harmed"
    if fault == "none" or mark.exists():
        return
    mark.touch()
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise RuntimeError("an exception of the program")


def main(folder, fault):
    rank = int(os.environ["RANK"])
    torch.npu.set_device(rank)
    dist.init_process_group("hccl")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    checkpoint, first = folder / "checkpoint.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location="npu")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    parallel = DistributedDataParallel(model, device_ids=[rank])
    for step in range(first, STEPS):
        if step == HARMED and rank == 1:
            harm(folder, fault)
        images = torch.randn(6, 8, generator=torch.Generator().manual_seed(100 * step + rank)).npu()
        optimizer.zero_grad()
        parallel(images).square().mean().backward()
        optimizer.step()
        if rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, folder / "new.pt")
            os.replace(folder / "new.pt", checkpoint)
        dist.barrier()
    if rank == 0:
        torch.save({name: value.cpu() for name, value in model.state_dict().items()}, folder / "final.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
