"""Batches that are copied on a stream of their own while the device trains; channels last. Prints the losses."""

import json

import torch
from torch import nn

use_cuda = torch.cuda.is_available()
torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
generator = torch.Generator().manual_seed(1)
images = torch.randint(0, 256, (24, 3, 16, 16), generator=generator, dtype=torch.uint8)
data = torch.utils.data.TensorDataset(images, torch.arange(24) % 5)
loader = torch.utils.data.DataLoader(data, batch_size=8, pin_memory=use_cuda)


class Prefetcher:
    def __init__(self, loader):
        self.batches, self.stream = iter(loader), torch.cuda.Stream()
        self.mean = torch.tensor([123.0, 117.0, 104.0]).cuda().view(1, 3, 1, 1)
        self.load()

    def load(self):
        self.batch = next(self.batches, None)
        if self.batch is None:
            return
        with torch.cuda.stream(self.stream):
            images, labels = (part.cuda(non_blocking=True) for part in self.batch)
            self.batch = images.float().sub_(self.mean).div_(58.0), labels

    def __iter__(self):
        while self.batch is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            batch = self.batch
            for part in batch:
                part.record_stream(torch.cuda.current_stream())
            self.load()
            yield batch


def batches():
    if use_cuda:
        return Prefetcher(loader)
    mean = torch.tensor([123.0, 117.0, 104.0]).view(1, 3, 1, 1)
    return ((images.float().sub_(mean).div_(58.0), labels) for images, labels in loader)


model = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1))
model = nn.Sequential(model, nn.Flatten(), nn.Linear(8, 5)).to(memory_format=torch.channels_last)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
if use_cuda:
    torch.cuda.set_device(0)
    model, criterion = model.cuda(0), criterion.cuda(0)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, nesterov=True)
losses = []
for _ in range(2):
    for images, labels in batches():
        loss = criterion(model(images.contiguous(memory_format=torch.channels_last)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
if use_cuda:
    end.record()
    torch.cuda.synchronize()
    assert begin.elapsed_time(end) > 0
print(json.dumps(losses))
