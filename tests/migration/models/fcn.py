"""FCN with a ResNet-50 backbone and an auxiliary head; the confusion matrix is kept on the GPU."""

import argparse

import torch
import torch.nn as nn
import torch.utils.data
import torchvision


class ConfusionMatrix:
    def __init__(self, num_classes):
        self.num_classes = num_classes
        self.mat = None

    def update(self, a, b):
        n = self.num_classes
        if self.mat is None:
            self.mat = torch.zeros((n, n), dtype=torch.int64, device=a.device)
        with torch.no_grad():
            k = (a >= 0) & (a < n)
            inds = n * a[k].to(torch.int64) + b[k]
            self.mat += torch.bincount(inds, minlength=n**2).reshape(n, n)

    def compute(self):
        h = self.mat.float()
        return torch.diag(h) / (h.sum(1) + h.sum(0) - torch.diag(h)).clamp(min=1)


def criterion(inputs, target):
    losses = {name: nn.functional.cross_entropy(x, target, ignore_index=255) for name, x in inputs.items()}
    return losses["out"] + 0.5 * losses["aux"]


def collate_fn(batch):
    images, targets = zip(*batch, strict=True)
    size = tuple(max(s) for s in zip(*(image.shape for image in images), strict=True))
    batched = images[0].new_zeros((len(images), *size))
    masks = targets[0].new_full((len(targets), *size[1:]), 255)
    for image, target, out, mask in zip(images, targets, batched, masks, strict=True):
        out[..., : image.shape[-2], : image.shape[-1]].copy_(image)
        mask[..., : target.shape[-2], : target.shape[-1]].copy_(target)
    return batched, masks


def make_dataset(count, classes):
    sizes = [(64, 56), (60, 64), (64, 64)]
    return [(torch.randn(3, *sizes[i % 3]), torch.randint(0, classes, sizes[i % 3])) for i in range(count)]


def main(args):
    device = torch.device(args.device)
    torch.manual_seed(args.seed)
    loader = torch.utils.data.DataLoader(
        make_dataset(3 * args.batch_size, args.classes), args.batch_size, collate_fn=collate_fn, pin_memory=True
    )
    model = torchvision.models.segmentation.fcn_resnet50(
        weights=None, weights_backbone=None, num_classes=args.classes, aux_loss=True
    )
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = args.dropout
    model.to(device)
    params_to_optimize = [
        {"params": [p for p in model.backbone.parameters() if p.requires_grad]},
        {"params": [p for p in model.classifier.parameters() if p.requires_grad]},
        {"params": [p for p in model.aux_classifier.parameters() if p.requires_grad], "lr": args.lr * 10},
    ]
    optimizer = torch.optim.SGD(params_to_optimize, lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=30, power=0.9)
    scaler = torch.cuda.amp.GradScaler() if args.amp else None
    confusion = ConfusionMatrix(args.classes)
    model.train()
    for step, (image, target) in enumerate(loader):
        image, target = image.to(device), target.to(device)
        with torch.cuda.amp.autocast(enabled=scaler is not None):
            output = model(image)
            loss = criterion(output, target)
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        scheduler.step()
        confusion.update(target.flatten(), output["out"].argmax(1).flatten())
        print(f"step {step} loss {loss.item():.6f}")
    print("mean IoU", f"{confusion.compute().mean().item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="PyTorch Segmentation Training")
    parser.add_argument("--device", default="cuda", type=str)
    parser.add_argument("-b", "--batch-size", default=2, type=int)
    parser.add_argument("--classes", default=5, type=int)
    parser.add_argument("--lr", default=0.00003, type=float)
    parser.add_argument("--dropout", default=0.0, type=float, help="0.1 in the paper")
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--seed", default=15, type=int)
    main(parser.parse_args())
