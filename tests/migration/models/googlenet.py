"""GoogLeNet with both auxiliary classifiers, and an evaluation after training."""

import argparse

import torch
import torch.nn as nn
import torch.utils.data as data
from torchvision.models import GoogLeNet


def get_loader(count, batch_size, generator):
    images = torch.randn(count, 3, 64, 64, generator=generator)
    labels = torch.randint(0, 10, (count,), generator=generator)
    return data.DataLoader(data.TensorDataset(images, labels), batch_size=batch_size, pin_memory=True)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    correct = torch.zeros(1).cuda()
    for images, labels in loader:
        logits = model(images.cuda())
        correct += (logits.max(1)[1] == labels.cuda()).sum()
    return correct.item() / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description="GoogLeNet")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=3e-5)
    parser.add_argument("--aux-weight", type=float, default=0.3)
    parser.add_argument("--dropout", type=float, default=0.0, help="0.2 in the paper, 0.7 for the auxiliary classifiers")
    args = parser.parse_args()

    if not torch.cuda.is_available():
        print("no GPU: this will be slow")
    torch.manual_seed(22)
    torch.cuda.manual_seed(22)
    generator = torch.Generator().manual_seed(22)
    model = GoogLeNet(10, aux_logits=True, init_weights=False, dropout=args.dropout, dropout_aux=args.dropout)
    model.cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=2e-4)
    model.train()
    for step, (images, labels) in enumerate(get_loader(3 * args.batch_size, args.batch_size, generator)):
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        logits, aux2, aux1 = model(images)
        loss = criterion(logits, labels) + args.aux_weight * (criterion(aux1, labels) + criterion(aux2, labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
    print(f"accuracy {validate(model, get_loader(args.batch_size, args.batch_size, generator)):.3f}")


if __name__ == "__main__":
    main()
