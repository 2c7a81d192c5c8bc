"""ResNet-152: a trainer with checkpoints that are loaded on any device."""

import argparse
import logging
import os

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger(__name__)


class Trainer:
    def __init__(self, model, args):
        self.args = args
        self.use_gpu = torch.cuda.is_available()
        self.device = torch.device("cuda", args.device_id) if self.use_gpu else torch.device("cpu")
        self.model = model.to(self.device)
        self.criterion = nn.CrossEntropyLoss().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr)
        self.step = 0

    def fit(self, loader):
        self.model.train()
        for batch in loader:
            images, labels = [t.to(self.device, non_blocking=True) for t in batch]
            loss = self.criterion(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(f"step {self.step} loss {loss.item():.6f}")
            self.step += 1
            if self.step == self.args.save_at:
                self.save()
                self.load()

    def save(self):
        state = {"step": self.step, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state, self.args.checkpoint)
        log.info("saved %s", self.args.checkpoint)

    def load(self):
        if self.use_gpu:
            state = torch.load(self.args.checkpoint, map_location=lambda storage, loc: storage.cuda(self.args.device_id))
        else:
            state = torch.load(self.args.checkpoint, map_location="cpu")
        self.step = state["step"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        os.remove(self.args.checkpoint)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--device-id", type=int, default=0)
    parser.add_argument("--save-at", type=int, default=2, help="the step after which a checkpoint is written and read")
    parser.add_argument("--checkpoint", default="resnet152.pt")
    args = parser.parse_args()
    torch.manual_seed(113)
    model = torchvision.models.resnet152(num_classes=10, zero_init_residual=True)
    count = 3 * args.batch_size
    dataset = TensorDataset(torch.rand(count, 3, 64, 64) * 2 - 1, torch.randint(0, 10, (count,)))
    Trainer(model, args).fit(DataLoader(dataset, args.batch_size, shuffle=True, pin_memory=True))


if __name__ == "__main__":
    main()
