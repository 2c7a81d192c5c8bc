"""RAFT (the small network): optical flow by recurrent look-ups in a pyramid of correlations."""

import argparse

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset
from torchvision.models.optical_flow import raft_small

MAX_FLOW = 400


class Shifts(Dataset):
    """Pairs of smooth images; the second is the first, moved by whole pixels."""

    def __init__(self, count, size):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(1000 + index)
        coarse = torch.rand(1, 3, 16, 16, generator=generator)
        image = nn.functional.interpolate(coarse, size=self.size, mode="bicubic", align_corners=False)[0]
        dy, dx = torch.randint(-4, 5, (2,), generator=generator).tolist()
        moved = torch.roll(image, (dy, dx), (1, 2))
        flow = torch.tensor([dx, dy], dtype=torch.float32).view(2, 1, 1).expand(2, *self.size)
        return image * 2 - 1, moved * 2 - 1, flow.contiguous(), torch.ones(self.size)


def sequence_loss(flow_preds, flow_gt, valid, gamma):
    magnitude = torch.sum(flow_gt**2, dim=1).sqrt()
    valid = (valid >= 0.5) & (magnitude < MAX_FLOW)
    loss = 0.0
    for i, prediction in enumerate(flow_preds):
        weight = gamma ** (len(flow_preds) - i - 1)
        loss += weight * (valid[:, None] * (prediction - flow_gt).abs()).mean()
    epe = torch.sum((flow_preds[-1] - flow_gt) ** 2, dim=1).sqrt().view(-1)[valid.view(-1)]
    return loss, {"epe": epe.mean().item(), "1px": (epe < 1).float().mean().item()}


def train(args):
    torch.manual_seed(args.seed)
    model = nn.DataParallel(raft_small(weights=None), device_ids=args.gpus if torch.cuda.is_available() else None)
    model.cuda()
    model.train()
    loader = DataLoader(Shifts(3 * args.batch_size, tuple(args.image_size)), args.batch_size, pin_memory=False, drop_last=True)
    optimizer = optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.wdecay, eps=args.epsilon)
    scheduler = optim.lr_scheduler.OneCycleLR(
        optimizer, args.lr, 100, pct_start=0.05, cycle_momentum=False, anneal_strategy="linear"
    )
    scaler = torch.cuda.amp.GradScaler(init_scale=args.init_scale, enabled=args.mixed_precision)
    for step, data_blob in enumerate(loader):
        optimizer.zero_grad()
        image1, image2, flow, valid = [x.cuda() for x in data_blob]
        with torch.cuda.amp.autocast(enabled=args.mixed_precision):
            flow_predictions = model(image1, image2, num_flow_updates=args.iters)
        loss, metrics = sequence_loss(flow_predictions, flow, valid, args.gamma)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scheduler.step()
        scaler.update()
        print(f"step {step} loss {loss.item():.6f} epe {metrics['epe']:.4f}")
    torch.save(model.state_dict(), f"{args.name}.pth")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="raft")
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--batch_size", type=int, default=1)
    parser.add_argument("--image_size", type=int, nargs="+", default=[128, 128])
    parser.add_argument("--gpus", type=int, nargs="+", default=[0])
    parser.add_argument("--mixed_precision", action="store_true")
    parser.add_argument("--init_scale", type=float, default=1024.0, help="larger ones overflow in the first steps")
    parser.add_argument("--iters", type=int, default=3)
    parser.add_argument("--wdecay", type=float, default=5e-5)
    parser.add_argument("--epsilon", type=float, default=1e-4)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=1234)
    train(parser.parse_args())
