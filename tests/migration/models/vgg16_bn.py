"""VGG-16 with batch normalization on ImageNet-like data, in the manner of PyTorch's ImageNet example."""

import argparse
import os
import time

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.optim
import torch.utils.data
import torchvision.models as models

model_names = sorted(name for name in models.__dict__ if name.islower() and callable(models.__dict__[name]))

parser = argparse.ArgumentParser(description="PyTorch ImageNet Training")
parser.add_argument("-a", "--arch", default="vgg16_bn", choices=model_names)
parser.add_argument("-b", "--batch-size", default=4, type=int)
parser.add_argument("--lr", default=0.001, type=float)
parser.add_argument("--momentum", default=0.9, type=float)
parser.add_argument("--wd", default=1e-4, type=float, dest="weight_decay")
parser.add_argument("--dropout", default=0.0, type=float, help="0.5 in the paper")
parser.add_argument("--resume", default="", type=str)
parser.add_argument("--seed", default=124, type=int)
parser.add_argument("--gpu", default=None, type=int)


class AverageMeter:
    def __init__(self, name):
        self.name = name
        self.val = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n


def main():
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.cuda.manual_seed_all(args.seed)
    model = models.__dict__[args.arch](num_classes=10, dropout=args.dropout)
    if args.gpu is not None:
        torch.cuda.set_device(args.gpu)
        model = model.cuda(args.gpu)
    elif args.arch.startswith("alexnet") or args.arch.startswith("vgg"):
        model.features = torch.nn.DataParallel(model.features)
        model.cuda()
    else:
        model = torch.nn.DataParallel(model).cuda()
    criterion = nn.CrossEntropyLoss().cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay)
    if args.resume and os.path.isfile(args.resume):
        location = None if args.gpu is None else f"cuda:{args.gpu}"
        checkpoint = torch.load(args.resume, map_location=location)
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    cudnn.benchmark = True

    images = torch.randn(3 * args.batch_size, 3, 64, 64)
    labels = torch.randint(0, 10, (3 * args.batch_size,))
    dataset = torch.utils.data.TensorDataset(images, labels)
    loader = torch.utils.data.DataLoader(dataset, args.batch_size, shuffle=True, num_workers=0, pin_memory=True)
    train(loader, model, criterion, optimizer, args)


def train(loader, model, criterion, optimizer, args):
    batch_time, data_time = AverageMeter("Time"), AverageMeter("Data")
    losses, top1 = AverageMeter("Loss"), AverageMeter("Acc@1")
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(loader):
        data_time.update(time.time() - end)
        if args.gpu is not None:
            images = images.cuda(args.gpu, non_blocking=True)
        target = target.cuda(args.gpu, non_blocking=True)
        output = model(images.cuda())
        loss = criterion(output, target)
        top1.update((output.argmax(1) == target).float().mean().item(), images.size(0))
        losses.update(loss.item(), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        batch_time.update(time.time() - end)
        end = time.time()
        print(f"step {i} loss {losses.val:.6f}")


if __name__ == "__main__":
    main()
