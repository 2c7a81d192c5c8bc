"""Wide ResNet-101-2 on one GPU of a shared machine (--gpu), channels last, with torch.amp on request."""

import argparse
import sys

import torch
import torch.nn as nn
import torchvision


def build(args):
    model = torchvision.models.get_model("wide_resnet101_2", num_classes=10, zero_init_residual=True)
    return model.to(memory_format=torch.channels_last)


def batches(args):
    generator = torch.Generator(device="cpu")
    generator.manual_seed(args.seed)
    for _ in range(3):
        image = torch.randn(args.batch, 3, args.size, args.size, generator=generator)
        yield image, torch.randint(10, (args.batch,), generator=generator)


def train(args):
    torch.manual_seed(args.seed)
    torch.cuda.set_device(args.gpu)
    model = build(args).cuda(args.gpu)
    loss_fn = nn.CrossEntropyLoss().cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    model.train()
    for step, (image, label) in enumerate(batches(args)):
        image = image.cuda(args.gpu, non_blocking=True).contiguous(memory_format=torch.channels_last)
        label = label.cuda(args.gpu, non_blocking=True)
        with torch.autocast(device_type="cuda", dtype=torch.float16, enabled=args.amp):
            loss = loss_fn(model(image), label)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        sys.stdout.write(f"step {step} loss {loss.item():.6f}\n")
    torch.cuda.empty_cache()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--seed", type=int, default=128)
    train(parser.parse_args())
