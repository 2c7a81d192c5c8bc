"""A training program moved to one NPU by hand, as the classic one for ImageNet is: arguments, meters, a checkpoint, `--resume`,
`--evaluate`. Two epochs give what they give on the CPU, and also when the second one resumes from the checkpoint of the first."""

import argparse
import os

import torch
import torch.backends.cudnn as cudnn
import torch.npu
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="npu:0")
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("--lr", default=0.1, type=float)
parser.add_argument("--resume", default="")
parser.add_argument("-e", "--evaluate", action="store_true")


class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, value, count):
        self.sum += value * count
        self.count += count

    @property
    def average(self):
        return self.sum / self.count


def images(seed):
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, 6, (48,), generator=generator)
    pixels = torch.randn(48, 3, 8, 8, generator=generator) * 0.3 + target[:, None, None, None] * 0.4
    return torch.utils.data.TensorDataset(pixels, target)


def accuracy(output, target, topk):
    _, best = output.topk(max(topk), 1, True, True)
    correct = best.t().eq(target.view(1, -1).expand_as(best.t()))
    return [correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / target.size(0)) for k in topk]


def run_epoch(loader, model, criterion, optimizer, device):
    losses, top1, top5 = AverageMeter(), AverageMeter(), AverageMeter()
    for pixels, target in loader:
        if "npu" in device:
            target = target.to(torch.int32)
        pixels, target = pixels.to(device, non_blocking=True), target.to(device, non_blocking=True)
        output = model(pixels)
        loss = criterion(output, target)
        acc1, acc5 = accuracy(output.detach(), target, (1, 5))
        losses.update(loss.item(), pixels.size(0))
        top1.update(acc1[0], pixels.size(0))
        top5.update(acc5[0], pixels.size(0))
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return losses.average, top1.average, top5.average


def main(*arguments):
    args = parser.parse_args(arguments)
    torch.manual_seed(1)
    if "npu" in args.device:
        torch.npu.set_device(args.device)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 6)
    )
    model = model.to(args.device)
    criterion = nn.CrossEntropyLoss().to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    start, best = 0, 0
    if args.resume:
        checkpoint = torch.load(args.resume)
        start, best = checkpoint["epoch"], checkpoint["best_acc1"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    cudnn.benchmark = True
    loading = {"batch_size": 16, "pin_memory": True, "drop_last": True}
    training = torch.utils.data.DataLoader(images(2), **loading)
    validation = torch.utils.data.DataLoader(images(3), **loading)

    def validate():
        model.eval()
        with torch.no_grad():
            return run_epoch(validation, model, criterion, None, args.device)

    if args.evaluate:
        return validate()
    for epoch in range(start, args.epochs):
        for group in optimizer.param_groups:
            group["lr"] = args.lr * 0.1 ** (epoch // 30)
        model.train()
        run_epoch(training, model, criterion, optimizer, args.device)
        result = validate()
        best = max(result[1], best)
        state = {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({"epoch": epoch + 1, "best_acc1": best, **state}, f"{args.device[:3]}{epoch + 1}.pth.tar")
    return result


def assert_same(found, expected):
    torch.testing.assert_close(
        *(torch.tensor([float(each) for each in result]) for result in (found, expected)), rtol=1e-4, atol=1e-4
    )


on_cpu = main("--device", "cpu")
assert_same(main(), on_cpu)
os.rename("npu2.pth.tar", "straight.pth.tar")
assert_same(main("--resume", "npu1.pth.tar"), on_cpu)
assert_same(main("--resume", "npu2.pth.tar", "--evaluate"), on_cpu)
resumed, straight = torch.load("npu2.pth.tar"), torch.load("straight.pth.tar")
assert resumed["best_acc1"].is_npu and resumed["epoch"] == straight["epoch"] == 2
for name, value in straight["state_dict"].items():
    assert value.is_npu and torch.equal(resumed["state_dict"][name], value)
