"""ViT-Base (width 768, 12 heads, patches of 16), by default with fewer layers: AdamW, warm-up, a cosine schedule."""

import argparse
import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models.vision_transformer import VisionTransformer


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=2, help="12 in the paper")
    parser.add_argument("--img_size", type=int, default=64)
    parser.add_argument("--train_batch_size", type=int, default=4)
    parser.add_argument("--learning_rate", type=float, default=3e-4)
    parser.add_argument("--weight_decay", type=float, default=0.05)
    parser.add_argument("--max_grad_norm", type=float, default=1.0)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--fp16", action="store_true", help="mixed precision")
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def warmup_cosine(warmup, total):
    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))

    return factor


def setup(args):
    args.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    args.n_gpu = torch.cuda.device_count()
    torch.manual_seed(args.seed)
    if args.n_gpu > 0:
        torch.cuda.manual_seed_all(args.seed)
    model = VisionTransformer(
        args.img_size, 16, args.layers, 12, 768, 3072, dropout=args.dropout, attention_dropout=args.dropout, num_classes=10
    )
    nn.init.trunc_normal_(model.heads.head.weight, std=0.02)
    return model.to(args.device)


def train(args, model):
    decay = [p for p in model.parameters() if p.dim() > 1]
    no_decay = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": args.weight_decay}, {"params": no_decay, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.learning_rate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, warmup_cosine(2, 10))
    scaler = torch.cuda.amp.GradScaler(enabled=args.fp16)
    count = 3 * args.train_batch_size
    dataset = TensorDataset(torch.randn(count, 3, args.img_size, args.img_size), torch.randint(0, 10, (count,)))
    loader = DataLoader(dataset, batch_size=args.train_batch_size, shuffle=True, pin_memory=True)
    model.train()
    for step, batch in enumerate(loader):
        x, y = tuple(t.to(args.device) for t in batch)
        with torch.cuda.amp.autocast(enabled=args.fp16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    arguments = parse_args()
    train(arguments, setup(arguments))
