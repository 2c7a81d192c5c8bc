"""Acoustic model: a bidirectional LSTM stack over filter banks, trained with CTC on phonemes of different lengths."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Utterances(Dataset):
    def __init__(self, count, features, phonemes):
        self.inputs = [torch.randn(int(n), features) for n in torch.randint(20, 30, (count,))]
        self.labels = [torch.randint(1, phonemes, (int(n),)) for n in torch.randint(3, 8, (count,))]

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.labels[index]


def collate(batch):
    batch = sorted(batch, key=lambda item: len(item[0]), reverse=True)
    sizes = torch.tensor([len(x) for x, _ in batch], dtype=torch.int32)
    lengths = torch.tensor([len(y) for _, y in batch], dtype=torch.int32)
    inputs = nn.utils.rnn.pad_sequence([x for x, _ in batch])
    return inputs, sizes, torch.cat([y for _, y in batch]), lengths


class BatchRNN(nn.Module):
    def __init__(self, inputs, hidden, normalize=True):
        super().__init__()
        self.bn = nn.BatchNorm1d(inputs) if normalize else None
        self.rnn = nn.LSTM(inputs, hidden, bidirectional=True, bias=False)

    def forward(self, x):
        if self.bn is not None:
            t, n, c = x.shape
            x = self.bn(x.reshape(t * n, c)).view(t, n, c)
        x, _ = self.rnn(x)
        return x


class AcousticModel(nn.Module):
    def __init__(self, features, hidden, layers, phonemes, dropout):
        super().__init__()
        stack = [BatchRNN(features, hidden, normalize=False)]
        for _ in range(layers - 1):
            stack += [nn.Dropout(dropout), BatchRNN(2 * hidden, hidden)]
        self.rnns = nn.Sequential(*stack)
        self.fc = nn.Sequential(nn.BatchNorm1d(2 * hidden), nn.Linear(2 * hidden, phonemes, bias=False))

    def forward(self, x):
        x = self.rnns(x)
        t, n, _ = x.shape
        return nn.functional.log_softmax(self.fc(x.reshape(t * n, -1)).view(t, n, -1), dim=-1)


def run_epoch(model, loader, criterion, optimizer, device):
    model.train()
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    for step, (inputs, sizes, targets, lengths) in enumerate(loader):
        start.record()
        out = model(inputs.to(device))
        loss = criterion(out, targets.to(device), sizes, lengths) / out.size(1)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()
        end.record()
        end.synchronize()
        assert start.elapsed_time(end) >= 0
        print(f"step {step} loss {loss.item():.6f}")


def main():
    parser = argparse.ArgumentParser(description="lstm_ctc")
    parser.add_argument("--features", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=20)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--phonemes", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=7)
    opts = parser.parse_args()

    use_cuda = torch.cuda.is_available()
    device = torch.device("cuda") if use_cuda else torch.device("cpu")
    torch.manual_seed(opts.seed)
    if use_cuda:
        torch.cuda.manual_seed_all(opts.seed)
    model = AcousticModel(opts.features, opts.hidden, opts.layers, opts.phonemes, opts.dropout)
    dataset = Utterances(3 * opts.batch_size, opts.features, opts.phonemes)
    loader = DataLoader(dataset, opts.batch_size, shuffle=True, collate_fn=collate, pin_memory=True)
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=opts.lr, weight_decay=5e-4)
    run_epoch(model, loader, nn.CTCLoss(blank=0, reduction="sum"), optimizer, device)


if __name__ == "__main__":
    main()
