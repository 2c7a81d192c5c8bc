"""ResNet-50 on one GPU or, with --multiprocessing-distributed, on all GPUs by one process each."""

import argparse
import os
import random
import time
import warnings

import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.parallel
import torch.optim
import torch.utils.data
import torch.utils.data.distributed
from torchvision import models

parser = argparse.ArgumentParser(description="PyTorch ImageNet Training")
parser.add_argument("-a", "--arch", default="resnet50")
parser.add_argument("-j", "--workers", default=0, type=int)
parser.add_argument("-b", "--batch-size", default=4, type=int)
parser.add_argument("--lr", "--learning-rate", default=0.001, type=float, dest="lr")
parser.add_argument("--world-size", default=-1, type=int)
parser.add_argument("--rank", default=-1, type=int)
parser.add_argument("--dist-url", default="tcp://127.0.0.1:23456", type=str)
parser.add_argument("--dist-backend", default="nccl", type=str)
parser.add_argument("--seed", default=49, type=int)
parser.add_argument("--gpu", default=0, type=int)
parser.add_argument("--multiprocessing-distributed", action="store_true")


def main():
    args = parser.parse_args()
    if args.seed is not None:
        random.seed(args.seed)
        torch.manual_seed(args.seed)
        cudnn.deterministic = True
    if args.dist_url == "env://" and args.world_size == -1:
        args.world_size = int(os.environ["WORLD_SIZE"])
    args.distributed = args.world_size > 1 or args.multiprocessing_distributed
    ngpus_per_node = torch.cuda.device_count()
    if args.multiprocessing_distributed:
        args.world_size = ngpus_per_node * max(args.world_size, 1)
        mp.spawn(main_worker, nprocs=ngpus_per_node, args=(ngpus_per_node, args))
    else:
        main_worker(args.gpu, ngpus_per_node, args)


def main_worker(gpu, ngpus_per_node, args):
    args.gpu = gpu
    if args.distributed:
        args.rank = max(args.rank, 0) * ngpus_per_node + gpu
        dist.init_process_group(args.dist_backend, init_method=args.dist_url, world_size=args.world_size, rank=args.rank)
        torch.manual_seed(args.seed)
    model = models.__dict__[args.arch](num_classes=10, zero_init_residual=True)
    if args.gpu is None:
        warnings.warn("no GPU was chosen", stacklevel=2)
        model = torch.nn.DataParallel(model).cuda()
    else:
        torch.cuda.set_device(args.gpu)
        model.cuda(args.gpu)
    if args.distributed:
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[args.gpu])
    criterion = nn.CrossEntropyLoss().cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)

    count = 3 * args.batch_size
    dataset = torch.utils.data.TensorDataset(torch.randn(count, 3, 64, 64), torch.randint(0, 10, (count,)))
    sampler = torch.utils.data.distributed.DistributedSampler(dataset) if args.distributed else None
    loader = torch.utils.data.DataLoader(
        dataset, args.batch_size, shuffle=sampler is None, num_workers=args.workers, pin_memory=True, sampler=sampler
    )
    train(loader, model, criterion, optimizer, args)
    torch.save({"arch": args.arch, "state_dict": model.state_dict()}, "checkpoint.pth.tar")
    checkpoint = torch.load("checkpoint.pth.tar", map_location=f"cuda:{args.gpu}")
    model.load_state_dict(checkpoint["state_dict"])


def train(loader, model, criterion, optimizer, args):
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(loader):
        images = images.cuda(args.gpu, non_blocking=True)
        target = target.cuda(args.gpu, non_blocking=True)
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {i} loss {loss.item():.6f} time {time.time() - end:.3f}")
        end = time.time()


if __name__ == "__main__":
    main()
