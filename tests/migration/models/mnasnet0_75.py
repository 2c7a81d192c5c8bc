"""Benchmark of MNASNet 0.75: every training step is timed with CUDA events."""

import argparse

import torch
import torch.nn.functional as F
import torchvision

parser = argparse.ArgumentParser(description="throughput of MNASNet 0.75")
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--image-size", type=int, default=64)
parser.add_argument("--lr", type=float, default=0.00005)
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args()
args.cuda = not args.no_cuda

torch.manual_seed(106)
net = torchvision.models.mnasnet0_75(num_classes=10, dropout=0.0)
data = [
    (torch.randn(args.batch_size, 3, args.image_size, args.image_size), torch.randint(0, 10, (args.batch_size,)))
    for _ in range(3)
]
if args.cuda:
    torch.cuda.manual_seed(106)
    print("device:", torch.cuda.get_device_name(0))
    net.cuda()
optimizer = torch.optim.RMSprop(net.parameters(), lr=args.lr, alpha=0.9, eps=1.0, momentum=0.9, weight_decay=1e-5)


def benchmark_step(images, labels):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(images), labels)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    return loss


times = []
for step, (images, labels) in enumerate(data):
    if args.cuda:
        images, labels = images.cuda(), labels.cuda()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    loss = benchmark_step(images, labels)
    end.record()
    torch.cuda.synchronize()
    times.append(start.elapsed_time(end))
    print(f"step {step} loss {loss.item():.6f}")
print(f"{args.batch_size * len(times) / sum(times) * 1000:.1f} images per second")
