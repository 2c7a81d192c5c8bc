"""Sequence to sequence with recurrent networks, over packed sequences of several lengths."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.models.training import adamw, check_evaluation, check_training

pytestmark = pytest.mark.full

WORDS, WIDTH = 40, 24


class Translator(nn.Module):
    """A bidirectional encoder over packed sequences, and a decoder with attention to the encoded sequence."""

    def __init__(self, kind):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, WIDTH, padding_idx=0), nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.encoder = kind(WIDTH, WIDTH, num_layers=2, bidirectional=True, batch_first=True, dropout=0.0)
        self.bridge = nn.Linear(2 * WIDTH, WIDTH)
        self.decoder = kind(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.head = nn.Linear(2 * WIDTH, WORDS)

    def state(self, given):
        """Joins the states of both directions of each layer."""
        if isinstance(given, tuple):
            return tuple(self.state(each) for each in given)
        both = given.view(2, 2, *given.shape[1:])
        return torch.tanh(self.bridge(torch.cat([both[:, 0], both[:, 1]], dim=-1)))

    def forward(self, source, lengths, target):
        packed = pack_padded_sequence(self.source(source), lengths, batch_first=True, enforce_sorted=False)
        encoded, last = self.encoder(packed)
        memory, _ = pad_packed_sequence(encoded, batch_first=True, total_length=source.shape[1])
        memory = self.bridge(memory)
        decoded, _ = self.decoder(self.target(target), self.state(last))
        scores = (decoded @ memory.mT).masked_fill((source == 0).unsqueeze(1), float("-inf"))
        return self.head(torch.cat([decoded, scores.softmax(-1) @ memory], dim=-1))


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM], ids=["gru", "lstm"])
def test_sequence_to_sequence(kind):
    lengths = [7, 3, 9, 1]
    generator = torch.Generator().manual_seed(1)
    source, target = (torch.randint(1, WORDS, (len(lengths), 9), generator=generator) for _ in range(2))
    source = source * (torch.arange(9) < torch.tensor(lengths).unsqueeze(1))

    def loss(net, source, lengths, target):
        output = net(source, lengths, target[:, :-1])
        return F.cross_entropy(output.flatten(0, 1), target[:, 1:].flatten()), output

    cpu, npu = check_training(lambda: Translator(kind), (source, lengths, target), loss, adamw)
    check_evaluation(cpu, npu, (source, lengths, target))
