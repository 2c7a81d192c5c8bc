"""Loops around a network: training from a DataLoader, and a GPT that writes one word after the other.

train_from_loader, generate and generate_by_graph take a device and return a function that runs the loop once. The loops of both
devices differ in two points. On npu the loader pins its batches, and the copies to the device do not block. The graph of
generate_by_graph exists on npu only.
"""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from bench.models.networks import Transformer, resnet18

IMAGES, BATCH = 64, 16
WORDS, WRITTEN = 1000, 32


def train_from_loader(device):
    """An epoch of ResNet-18 over 64 images of 64x64."""
    on_npu = device == "npu"
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(IMAGES, 3, 64, 64), torch.arange(IMAGES) % 10)
    loader = DataLoader(data, BATCH, shuffle=True, pin_memory=on_npu)
    model = resnet18().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def epoch():
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=on_npu), labels.to(device, non_blocking=on_npu)
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        return loss.item()

    return epoch


class Writer(nn.Module):
    """Writes one word per call: it keeps the keys and values of all words so far, each at its position."""

    def __init__(self, model, length=64):
        super().__init__()
        self.model = model
        heads, width = model.blocks[0].heads, model.words.embedding_dim
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(len(model.blocks), 1, heads, length, width // heads))
        self.register_buffer("word", torch.zeros(1, 1, dtype=torch.long))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.register_buffer("places", torch.arange(length))

    def forward(self):
        model = self.model
        seen = (self.places <= self.position).view(1, 1, 1, -1)
        x = model.words(self.word) + model.positions(self.position)
        for block, keys, values in zip(model.blocks, self.keys, self.values, strict=True):
            width = x.shape[-1]
            q, k, v = block.qkv(block.norms[0](x)).view(1, 1, 3, block.heads, width // block.heads).permute(2, 0, 3, 1, 4)
            keys.index_copy_(2, self.position, k)
            values.index_copy_(2, self.position, v)
            attended = functional.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
            x = x + block.project(attended.reshape(1, 1, width))
            x = x + block.mlp(block.norms[1](x))
        self.word.copy_(model.head(model.norm(x)).argmax(-1))
        self.position.add_(1)

    def begin(self):
        self.word.zero_()
        self.position.zero_()


def _writer(device):
    torch.manual_seed(0)
    return Writer(Transformer(causal=True, words=WORDS).eval()).to(device)


def _writing(writer, write_word):
    """Each word is read on the host, as programs that print it do."""

    @torch.no_grad()
    def write():
        writer.begin()
        words = []
        for _ in range(WRITTEN):
            write_word()
            words.append(writer.word.item())
        return words

    return write


def generate(device):
    writer = _writer(device)
    return _writing(writer, writer)


def generate_by_graph(device):
    """On npu the step is captured once and replayed; on the CPU it is `generate`."""
    writer = _writer(device)
    if device == "cpu":
        return _writing(writer, writer)
    graph = torch.npu.NPUGraph()
    with torch.no_grad():
        writer()
        torch.npu.synchronize()
        with torch.npu.graph(graph):
            writer()
    return _writing(writer, graph.replay)
