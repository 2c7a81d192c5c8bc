"""RNet, the refinement network of MTCNN, with online hard example mining."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Flatten(nn.Module):
    def forward(self, x):
        # The weights of the original are laid out by columns.
        x = x.transpose(3, 2).contiguous()
        return x.view(x.size(0), -1)


class RNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 28, 3, 1),
            nn.PReLU(28),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            nn.Conv2d(28, 48, 3, 1),
            nn.PReLU(48),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            nn.Conv2d(48, 64, 2, 1),
            nn.PReLU(64),
            Flatten(),
            nn.Linear(576, 128),
            nn.PReLU(128),
        )
        self.face = nn.Linear(128, 2)
        self.box = nn.Linear(128, 4)
        self.landmark = nn.Linear(128, 10)

    def forward(self, x):
        x = self.features(x)
        return self.face(x), self.box(x), self.landmark(x)


class FaceLoss(nn.Module):
    def __init__(self, keep=0.7):
        super().__init__()
        self.keep = keep
        self.ce = nn.CrossEntropyLoss(ignore_index=-1, reduction="none")
        self.l1 = nn.SmoothL1Loss(reduction="none")

    def forward(self, outputs, label, box, landmark):
        face, box_out, landmark_out = outputs
        target = label.clone()
        target[label < 0] = -1
        each = self.ce(face, target)
        count = int(self.keep * (label >= 0).sum().item())
        hard, _ = each.topk(count)
        with_box = (label == 1) | (label == -1)
        box_loss = self.l1(box_out, box).mean(1)[with_box].mean()
        landmark_loss = self.l1(landmark_out, landmark).mean(1)[label == -2].mean()
        return hard.mean() + 0.5 * box_loss + 0.5 * landmark_loss


def make_loader(batch):
    total = 3 * batch
    label = torch.multinomial(torch.tensor([0.2, 0.2, 0.3, 0.3]), total, replacement=True) - 2
    tensors = torch.randn(total, 3, 24, 24), label, torch.randn(total, 4) * 0.2, torch.rand(total, 10)
    return DataLoader(TensorDataset(*tensors), batch, shuffle=True, pin_memory=True, num_workers=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--resume", default="", help="checkpoint to start from")
    args = parser.parse_args()
    assert torch.backends.cudnn.enabled
    torch.manual_seed(24)
    device = torch.device("cuda")
    net = RNet()
    if args.resume:
        net.load_state_dict(torch.load(args.resume, map_location=lambda storage, loc: storage))
    net = net.to(device)
    criterion = FaceLoss().to(device)
    optimizer = torch.optim.Adadelta(net.parameters(), lr=1.0)
    for step, batch in enumerate(make_loader(args.batch)):
        image, label, box, landmark = [item.to(device, non_blocking=True) for item in batch]
        optimizer.zero_grad()
        loss = criterion(net(image), label, box, landmark)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
    torch.save(net.state_dict(), "rnet.pth")
    state = torch.load("rnet.pth", map_location=lambda storage, loc: storage.cuda(0))
    net.load_state_dict(state)


if __name__ == "__main__":
    main()
