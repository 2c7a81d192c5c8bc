"""Trains MNASNet 0.5 on random images."""

import argparse

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset
from torchvision import models

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class RandomImages(Dataset):
    def __init__(self, length, size, classes):
        generator = torch.Generator().manual_seed(105)
        self.images = torch.rand(length, 3, size, size, generator=generator)
        self.labels = torch.randint(0, classes, (length,), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return (self.images[index] - 0.5) / 0.25, self.labels[index]


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--image_size", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--learning_rate", type=float, default=0.0001)
    return parser.parse_args()


def train_one_epoch(model, loader, criterion, optimizer):
    model.train()
    for step, (inputs, labels) in enumerate(loader):
        inputs = inputs.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")


def main():
    args = get_args()
    torch.manual_seed(105)
    model = models.mnasnet0_5(num_classes=args.classes, dropout=0.0)
    model.to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.RMSprop(model.parameters(), lr=args.learning_rate, alpha=0.9, eps=1.0, momentum=0.9)
    dataset = RandomImages(3 * args.batch_size, args.image_size, args.classes)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=False, pin_memory=device.type == "cuda")
    train_one_epoch(model, loader, criterion, optimizer)
    model.eval()
    with torch.no_grad():
        predicted = model(dataset[0][0].unsqueeze(0).to(device)).argmax(1)
    assert predicted.device.type == device.type and 0 <= predicted.item() < args.classes


if __name__ == "__main__":
    main()
