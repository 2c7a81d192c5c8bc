"""PSENet: text detection by kernels of growing scale. ResNet with a feature pyramid; dice losses with hard negative mining."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class BasicBlock(nn.Module):
    def __init__(self, inputs, planes, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = None
        if stride != 1 or inputs != planes:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu(out + (x if self.shortcut is None else self.shortcut(x)), inplace=True)


class PSENet(nn.Module):
    def __init__(self, width, kernel_num, scale=1):
        super().__init__()
        self.scale = scale
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        widths = [width, 2 * width, 4 * width, 8 * width]
        inputs = [width, *widths[:-1]]
        self.stages = nn.ModuleList(BasicBlock(i, o, 1 if o == width else 2) for i, o in zip(inputs, widths, strict=True))
        self.lateral = nn.ModuleList(nn.Sequential(nn.Conv2d(w, 2 * width, 1), nn.BatchNorm2d(2 * width)) for w in widths)
        self.smooth = nn.ModuleList(
            nn.Sequential(nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width)) for _ in widths[:-1]
        )
        self.conv2 = nn.Sequential(
            nn.Conv2d(8 * width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(inplace=True)
        )
        self.conv3 = nn.Conv2d(2 * width, kernel_num, 1)

    @staticmethod
    def _upsample(x, like):
        return F.interpolate(x, size=like.shape[2:], mode="bilinear", align_corners=False)

    def forward(self, image):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(image))), 3, 2, 1)
        stages = []
        for stage in self.stages:
            x = stage(x)
            stages.append(x)
        p = F.relu(self.lateral[3](stages[3]))
        levels = [p]
        for i in (2, 1, 0):
            side = F.relu(self.lateral[i](stages[i]))
            p = F.relu(self.smooth[i](self._upsample(p, side) + side))
            levels.append(p)
        merged = torch.cat([self._upsample(level, levels[-1]) for level in levels], dim=1)
        return self._upsample(self.conv3(self.conv2(merged)), image)


def ohem_single(score, gt_text, training_mask):
    pos_num = int((gt_text > 0.5).sum() - ((gt_text > 0.5) & (training_mask <= 0.5)).sum())
    neg_num = min(pos_num * 3, int((gt_text <= 0.5).sum()))
    if pos_num == 0 or neg_num == 0:
        return training_mask.unsqueeze(0)
    neg_score, _ = torch.sort(-score[gt_text <= 0.5])
    threshold = -neg_score[neg_num - 1]
    chosen = ((score >= threshold) | (gt_text > 0.5)) & (training_mask > 0.5)
    return chosen.unsqueeze(0).float()


def dice_loss(prediction, target, mask):
    prediction = torch.sigmoid(prediction)
    prediction = prediction.contiguous().view(prediction.size(0), -1) * mask.view(mask.size(0), -1)
    target = target.contiguous().view(target.size(0), -1) * mask.view(mask.size(0), -1)
    a = torch.sum(prediction * target, 1)
    b = torch.sum(prediction * prediction, 1) + 0.001
    c = torch.sum(target * target, 1) + 0.001
    return torch.mean(1 - 2 * a / (b + c))


def psenet_loss(outputs, gt_text, gt_kernels, training_masks):
    texts, kernels = outputs[:, 0], outputs[:, 1:]
    selected = torch.cat([ohem_single(*item) for item in zip(texts.detach(), gt_text, training_masks, strict=True)], 0)
    loss_text = dice_loss(texts, gt_text, selected)
    mask = ((torch.sigmoid(texts.detach()) > 0.5) & (training_masks > 0.5)).float()
    losses = [dice_loss(kernels[:, i], gt_kernels[:, i], mask) for i in range(kernels.shape[1])]
    return 0.7 * loss_text + 0.3 * sum(losses) / len(losses)


class TextLines(Dataset):
    def __init__(self, count, size, kernel_num):
        self.count, self.size, self.kernel_num = count, size, kernel_num

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        image = torch.randn(3, self.size, self.size, generator=generator)
        maps = torch.zeros(self.kernel_num, self.size, self.size)
        top, left = torch.randint(4, self.size // 3, (2,), generator=generator).tolist()
        for i in range(self.kernel_num):
            maps[i, top + i : top + self.size // 3 - i, left + 2 * i : left + self.size // 2 - 2 * i] = 1
        mask = (torch.rand(self.size, self.size, generator=generator) > 0.02).float()
        return image, maps[0], maps[1:], mask


def main(args):
    torch.manual_seed(args.seed)
    model = PSENet(args.width, args.kernel_num)
    model = torch.nn.DataParallel(model).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.99, weight_decay=5e-4)
    loader = DataLoader(
        TextLines(3 * args.batch_size, args.size, args.kernel_num), args.batch_size, drop_last=True, pin_memory=True
    )
    model.train()
    for step, (imgs, gt_texts, gt_kernels, training_masks) in enumerate(loader):
        imgs = imgs.cuda(non_blocking=True)
        gt_texts, gt_kernels, training_masks = gt_texts.cuda(), gt_kernels.cuda(), training_masks.cuda()
        loss = psenet_loss(model(imgs), gt_texts, gt_kernels, training_masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Hyperparams")
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--kernel_num", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=2)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=6)
    main(parser.parse_args())
