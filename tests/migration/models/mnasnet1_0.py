"""MNASNet 1.0 with a prefetcher that copies and normalizes the next batch on a side stream."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
import torchvision.models as models


def fast_collate(batch):
    images = np.stack([item[0] for item in batch])
    return torch.from_numpy(images).pin_memory(), torch.tensor([item[1] for item in batch], dtype=torch.int64)


class Prefetcher:
    def __init__(self, loader, half=False):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.mean = torch.tensor([0.485 * 255, 0.456 * 255, 0.406 * 255]).cuda().view(1, 3, 1, 1)
        self.std = torch.tensor([0.229 * 255, 0.224 * 255, 0.225 * 255]).cuda().view(1, 3, 1, 1)
        self.half = half

    def __iter__(self):
        self.fetch()
        while self.images is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            images, target = self.images, self.target
            images.record_stream(torch.cuda.current_stream())
            target.record_stream(torch.cuda.current_stream())
            self.fetch()
            yield images, target

    def fetch(self):
        batch = next(self.loader, None)
        if batch is None:
            self.images = self.target = None
            return
        with torch.cuda.stream(self.stream):
            self.images = batch[0].cuda(non_blocking=True)
            self.target = batch[1].cuda(non_blocking=True)
            self.images = self.images.half() if self.half else self.images.float()
            self.images = self.images.sub_(self.mean).div_(self.std)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", default=8, type=int)
    parser.add_argument("--size", default=64, type=int)
    parser.add_argument("--lr", default=0.00005, type=float)
    parser.add_argument("--print-freq", default=1, type=int)
    args = parser.parse_args()

    torch.backends.cudnn.benchmark = True
    torch.manual_seed(107)
    rng = np.random.default_rng(107)
    pixels = rng.integers(0, 256, (3 * args.batch_size, 3, args.size, args.size), dtype=np.uint8)
    samples = [(pixels[i], int(rng.integers(10))) for i in range(len(pixels))]
    loader = torch.utils.data.DataLoader(samples, batch_size=args.batch_size, collate_fn=fast_collate)

    model = models.mnasnet1_0(num_classes=10, dropout=0.0)
    model = model.cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = optim.RMSprop(model.parameters(), lr=args.lr, alpha=0.9, eps=1.0, momentum=0.9, weight_decay=1e-5)
    model.train()
    for i, (images, target) in enumerate(Prefetcher(loader)):
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if i % args.print_freq == 0:
            torch.cuda.synchronize()
            print("step", i, "loss", f"{loss.item():.6f}")


if __name__ == "__main__":
    main()
