"""The stages of examples/shufflenet in mixed precision equal the plain network of the same level."""

import dataclasses

import pytest
import torch
from apex import amp

from examples.shufflenet import joins
from examples.shufflenet.stages import FIRST, STAGES, Workload
from tests.examples.test_shufflenet import IMAGES, TARGETS

LEVELS = [name for name, stage in STAGES.items() if stage.level is not None]


def results(stage, steps=0):
    """Output, loss and gradients as float64, and the losses of further steps."""
    work = Workload(stage, IMAGES, TARGETS, num_classes=10)
    try:
        output, loss = work.backward()
        # gradients() are views that the next step overwrites
        first = [x.detach().cpu().double().clone() for x in (output, loss, *work.gradients().values())]
        return first, [work.step() for _ in range(steps)]
    finally:
        amp.uninitialize()


@pytest.mark.parametrize("name", LEVELS)
def test_the_fast_join_changes_no_bit(name):
    plain = dataclasses.replace(STAGES[name], join=joins.PlainShuffle)
    (mine, _), (theirs, _) = results(STAGES[name]), results(plain)
    assert all(map(torch.equal, mine, theirs))


def error(got, exact):
    """The norm of the difference, relative to the exact values."""
    assert torch.isfinite(got).all()
    return ((got - exact).norm() / exact.norm()).item()


@pytest.mark.parametrize("name", LEVELS)
def test_the_stage_rounds_as_the_plain_network_of_its_level(name):
    plain = dataclasses.replace(STAGES[FIRST], level=STAGES[name].level)
    runs = [results(stage)[0] for stage in (STAGES[name], plain, STAGES[FIRST])]
    outputs, losses = [run[0] for run in runs], [run[1].item() for run in runs]
    gradients = [torch.cat([gradient.flatten() for gradient in run[2:]]) for run in runs]
    assert losses[:2] == pytest.approx([losses[2]] * 2, rel=0.01)
    assert 0 < error(*outputs[::2]) < 0.05
    # Normalisation of four images multiplies rounding errors in the first layers, also in the plain network.
    assert 0 < error(*gradients[::2]) <= 1.5 * error(*gradients[1:])


def test_gradients_of_combine_grad_are_those_without_it():
    (combined, losses), (single, others) = results(STAGES["combine_grad"], steps=2), results(STAGES["O2"], steps=2)
    assert all(map(torch.equal, combined, single))
    assert losses == others
