"""U-Net for the segmentation of images, with transposed convolutions."""

import argparse
import logging
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, TensorDataset, random_split


class DoubleConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, kernel_size=2, stride=2)
        self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        dy, dx = x2.size(2) - x1.size(2), x2.size(3) - x1.size(3)
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, n_channels, n_classes, width=64, depth=4):
        super().__init__()
        self.n_classes = n_classes
        self.inc = DoubleConv(n_channels, width)
        self.downs = nn.ModuleList(
            nn.Sequential(nn.MaxPool2d(2), DoubleConv(width * 2**i, width * 2 ** (i + 1))) for i in range(depth)
        )
        self.ups = nn.ModuleList(Up(width * 2 ** (i + 1), width * 2**i) for i in reversed(range(depth)))
        self.outc = nn.Conv2d(width, n_classes, kernel_size=1)

    def forward(self, x):
        skips = [self.inc(x)]
        for down in self.downs:
            skips.append(down(skips[-1]))
        x = skips.pop()
        for up in self.ups:
            x = up(x, skips.pop())
        return self.outc(x)


def dice_coeff(prediction, target, epsilon=1e-6):
    axes = (-1, -2)
    inter = 2 * (prediction * target).sum(dim=axes)
    sets = prediction.sum(dim=axes) + target.sum(dim=axes)
    sets = torch.where(sets == 0, inter, sets)
    return ((inter + epsilon) / (sets + epsilon)).mean()


@torch.inference_mode()
def evaluate(net, dataloader, device, amp):
    net.eval()
    score = 0
    with torch.autocast(device.type if device.type != "mps" else "cpu", enabled=amp):
        for image, mask in dataloader:
            image, mask = image.to(device=device, dtype=torch.float32), mask.to(device=device, dtype=torch.long)
            prediction = net(image).argmax(dim=1)
            prediction = F.one_hot(prediction, net.n_classes).permute(0, 3, 1, 2).float()
            truth = F.one_hot(mask, net.n_classes).permute(0, 3, 1, 2).float()
            score += dice_coeff(prediction[:, 1:], truth[:, 1:])
    net.train()
    return score / max(len(dataloader), 1)


def train_model(model, device, args):
    dataset = TensorDataset(torch.rand(10, 3, 36, 44), torch.randint(0, args.classes, (10, 36, 44)))
    train_set, val_set = random_split(dataset, [9, 1], generator=torch.Generator().manual_seed(0))
    loader_args = {"batch_size": 3, "num_workers": 0, "pin_memory": True}
    train_loader = DataLoader(train_set, shuffle=True, **loader_args)
    val_loader = DataLoader(val_set, shuffle=False, **loader_args)
    optimizer = optim.RMSprop(model.parameters(), lr=args.lr, weight_decay=1e-8, momentum=0.9, foreach=True)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=5)
    grad_scaler = torch.cuda.amp.GradScaler(enabled=args.amp)
    criterion = nn.CrossEntropyLoss()
    model.train()
    for step, (images, true_masks) in enumerate(train_loader):
        images = images.to(device=device, dtype=torch.float32, memory_format=torch.channels_last)
        true_masks = true_masks.to(device=device, dtype=torch.long)
        with torch.autocast(device.type if device.type != "mps" else "cpu", enabled=args.amp):
            masks_pred = model(images)
            loss = criterion(masks_pred, true_masks)
            truth = F.one_hot(true_masks, model.n_classes).permute(0, 3, 1, 2).float()
            loss += 1 - dice_coeff(F.softmax(masks_pred, dim=1).float(), truth)
        optimizer.zero_grad(set_to_none=True)
        grad_scaler.scale(loss).backward()
        grad_scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        grad_scaler.step(optimizer)
        grad_scaler.update()
        print(f"step {step} loss {loss.item():.6f}")
    scheduler.step(evaluate(model, val_loader, device, args.amp))
    Path(args.checkpoints).mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), str(Path(args.checkpoints) / "checkpoint_epoch1.pth"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train the UNet on images and target masks")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--load", type=str, default=False, help="Load model from a .pth file")
    parser.add_argument("--amp", action="store_true", default=False)
    parser.add_argument("--classes", type=int, default=3)
    parser.add_argument("--checkpoints", default="checkpoints")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    logging.info(f"Using device {device}")
    model = UNet(n_channels=3, n_classes=args.classes, width=args.width)
    model = model.to(memory_format=torch.channels_last)
    if args.load:
        model.load_state_dict(torch.load(args.load, map_location=device))
    model.to(device=device)
    try:
        train_model(model, device, args)
    except torch.cuda.OutOfMemoryError:
        logging.error("Detected OutOfMemoryError! Enabling checkpointing to reduce memory usage.")
        torch.cuda.empty_cache()
        raise
