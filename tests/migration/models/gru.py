"""Sequence-to-sequence translation: bidirectional GRU encoder on packed sentences, GRU decoder with additive attention."""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

PAD, START = 0, 1


class Encoder(nn.Module):
    def __init__(self, vocabulary, embedding, hidden, dropout):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=PAD)
        self.rnn = nn.GRU(embedding, hidden, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, source, lengths):
        embedded = self.dropout(self.embedding(source))
        packed = pack_padded_sequence(embedded, lengths)
        outputs, hidden = self.rnn(packed)
        outputs, _ = pad_packed_sequence(outputs)
        return outputs, torch.tanh(self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1)))


class Attention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.attn = nn.Linear(3 * hidden, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, hidden, outputs, mask):
        hidden = hidden.unsqueeze(1).repeat(1, outputs.shape[0], 1)
        outputs = outputs.permute(1, 0, 2)
        energy = torch.tanh(self.attn(torch.cat((hidden, outputs), dim=2)))
        scores = self.v(energy).squeeze(2).masked_fill(mask == 0, -1e10)
        return F.softmax(scores, dim=1)


class Decoder(nn.Module):
    def __init__(self, vocabulary, embedding, hidden, dropout):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.attention = Attention(hidden)
        self.rnn = nn.GRU(2 * hidden + embedding, hidden)
        self.fc = nn.Linear(3 * hidden + embedding, vocabulary)
        self.dropout = nn.Dropout(dropout)

    def forward(self, token, hidden, outputs, mask):
        embedded = self.dropout(self.embedding(token.unsqueeze(0)))
        weights = self.attention(hidden, outputs, mask).unsqueeze(1)
        context = torch.bmm(weights, outputs.permute(1, 0, 2)).permute(1, 0, 2)
        output, hidden = self.rnn(torch.cat((embedded, context), dim=2), hidden.unsqueeze(0))
        prediction = self.fc(torch.cat((output.squeeze(0), context.squeeze(0), embedded.squeeze(0)), dim=1))
        return prediction, hidden.squeeze(0)


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder, device):
        super().__init__()
        self.encoder, self.decoder, self.device = encoder, decoder, device

    def forward(self, source, lengths, target, teacher_forcing=0.5):
        steps, batch = target.shape
        vocabulary = self.decoder.fc.out_features
        outputs = torch.zeros(steps, batch, vocabulary).to(self.device)
        encoded, hidden = self.encoder(source, lengths)
        mask = (source != PAD).permute(1, 0)
        token = target[0]
        for t in range(1, steps):
            outputs[t], hidden = self.decoder(token, hidden, encoded, mask)
            token = target[t] if random.random() < teacher_forcing else outputs[t].argmax(1)
        return outputs


def sentences(count, vocabulary, shortest=4, longest=9):
    lengths = torch.randint(shortest, longest, (count,)).sort(descending=True).values
    items = [torch.cat((torch.tensor([START]), torch.randint(2, vocabulary, (int(n),)))) for n in lengths]
    return pad_sequence(items, padding_value=PAD), lengths + 1


def init_weights(module):
    for name, parameter in module.named_parameters():
        if "weight" in name:
            nn.init.normal_(parameter.data, mean=0, std=0.1)
        else:
            nn.init.constant_(parameter.data, 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--embedding", type=int, default=24)
    parser.add_argument("--vocabulary", type=int, default=60)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1234)
    args = parser.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.cuda.manual_seed(args.seed)
    torch.backends.cudnn.deterministic = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    encoder = Encoder(args.vocabulary, args.embedding, args.hidden, args.dropout)
    decoder = Decoder(args.vocabulary, args.embedding, args.hidden, args.dropout)
    model = Seq2Seq(encoder, decoder, device)
    model.apply(init_weights)
    model = model.to(device)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    model.train()
    for step in range(3):
        source, lengths = sentences(args.batch_size, args.vocabulary)
        target, _ = sentences(args.batch_size, args.vocabulary)
        source, target = source.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(source, lengths, target)
        loss = criterion(output[1:].view(-1, output.shape[-1]), target[1:].view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
