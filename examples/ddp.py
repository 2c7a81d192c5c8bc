"""Trains a small network on several NPUs, one process per NPU.

    torchrun --nproc-per-node 2 examples/ddp.py

Without a launcher it starts two processes itself. The loss must fall, and all ranks must end with the same weights.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def data():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(256, 8, generator=generator)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True).tanh())


def train(epochs):
    rank = int(os.environ["LOCAL_RANK"])
    torch.npu.set_device(rank)
    dist.init_process_group(device_id=torch.device("npu", rank))  # hccl: the tensors are on npu
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).npu()
    model = DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    dataset = data()
    sampler = DistributedSampler(dataset)
    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros((), device="npu")
        for inputs, targets in DataLoader(dataset, batch_size=16, sampler=sampler):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs.npu()), targets.npu())
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        losses.append(total.item())
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {losses[-1]:.4f}")
    for weight in model.parameters():
        largest = weight.detach().clone()
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        assert torch.equal(largest, weight.detach()), "the ranks have different weights"
    dist.destroy_process_group()
    assert losses[-1] < losses[0], "the loss did not fall"


def start(rank, processes, epochs):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes))
    train(epochs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2, help="without torchrun")
    arguments = parser.parse_args()
    if "LOCAL_RANK" in os.environ:
        train(arguments.epochs)
        return
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29688")
    torch.multiprocessing.spawn(start, (arguments.processes, arguments.epochs), nprocs=arguments.processes)


if __name__ == "__main__":
    main()
