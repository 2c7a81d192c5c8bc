"""Models for the tests of FSDP and the like. They train with the whole batch in one process on the CPU, and with its parts on
ranks."""

import torch
from torch import nn

STEPS, ROWS, WIDTH = 3, 8, 12


class Block(nn.Module):
    """A feed-forward block with a residual connection."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def blocks(depth=3, seed=0):
    """The same blocks, with the same numbers, in every process."""
    torch.manual_seed(seed)
    return nn.Sequential(*(Block() for _ in range(depth)))


def batch(step, rows=ROWS):
    """Inputs and targets of a step."""
    generator = torch.Generator().manual_seed(100 + step)
    return torch.randn(rows, WIDTH, generator=generator), torch.randn(rows, WIDTH, generator=generator)


def part(tensor, rank):
    """The part of the rows that belongs to a rank, on its device."""
    return tensor.chunk(rank.world)[rank.rank].to(rank.device)


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def reference(depth=3, steps=STEPS, optimizer=adam, clip=None):
    """Trains the blocks with whole batches on the CPU. Returns the losses and the model."""
    model = blocks(depth)
    chosen, losses = optimizer(model.parameters()), []
    for step in range(steps):
        x, y = batch(step)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        chosen.step()
        chosen.zero_grad()
        losses.append(loss.item())
    return losses, model


def mean_over_ranks(loss, world):
    """The loss of the whole batch, computed from equal parts."""
    total = loss.detach().clone()
    torch.distributed.all_reduce(total)
    return total.item() / world


def same_parameters(found, expected, **tolerance):
    """Compares tensors with the parameters of a model. found: tensors by name, on the CPU."""
    wanted = dict(expected.named_parameters())
    assert set(found) == set(wanted), set(found) ^ set(wanted)
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, wanted[name].detach(), msg=lambda text, name=name: f"{name}: {text}", **tolerance)
