"""Random correct programs of memory, streams, graphs and threads agree with the model, without a race report."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from . import execute, printing, settings
from .generation import generate
from .graphs import Call
from .model import Model
from .program import STEPS, Step, lines_of
from .shrink import shrink

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = int(os.environ.get("TORCH_NPU_FUZZ_PROGRAMS", "10000"))


def fuzz(*options):
    command = [sys.executable, "-m", "tests.fuzz", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-20000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def test_programs_do_what_the_model_says(tmp_path):
    fuzz("--seeds", "0:2000", "--journal", tmp_path / "journal")


def test_an_interrupt_at_a_random_moment_changes_no_other_tensor(tmp_path):
    fuzz("--interrupts", "--seeds", "0:300", "--journal", tmp_path / "journal")


@pytest.mark.full
def test_many_programs_do_what_the_model_says(tmp_path):
    fuzz("--seeds", f"2000:{2000 + PROGRAMS}", "--journal", tmp_path / "journal")


@pytest.mark.full
def test_an_interrupt_at_many_random_moments_changes_no_other_tensor(tmp_path):
    fuzz("--interrupts", "--seeds", f"300:{300 + PROGRAMS // 10}", "--journal", tmp_path / "journal")


# The fuzzer itself.


def lines(*steps):
    model = Model()
    return [line for kind, *args in steps for line in lines_of(model, Step(kind, tuple(args), 1))]


def position(text, words):
    return next(number for number, line in enumerate(text) if words in line)


def test_a_program_is_the_same_for_the_same_seed():
    assert execute.program_of(7) == execute.program_of(7) != execute.program_of(8)


def test_a_use_on_a_second_stream_waits_for_the_first_and_a_write_for_its_readers():
    text = lines(
        ("new", 1, "t1", 125, 3, 0, None),
        ("new", 2, "t2", 125, 4, 0, None),
        ("result", 2, "t3", ("t1", "t2"), None, None),
        ("change", 1, "t1", None, 5, "fill"),
    )
    read, write = position(text, "t3 = t1 + t2"), position(text, "t1.fill_(5)")
    assert any("s2.wait" in line or "synchronize" in line for line in text[:read])
    assert any("s1.wait" in line or "synchronize" in line for line in text[read:write])


def test_a_use_on_a_second_stream_is_recorded_or_waited_for_before_the_memory_is_used_again():
    for salt in range(20):
        model = Model()
        steps = [
            Step("new", (1, "t1", 125, 3, 0, None), salt),
            Step("result", (2, "t2", ("t1",), None, None), salt),
            Step("delete", ("t1",), salt),
        ]
        text = [line for step in steps for line in lines_of(model, step)]
        used = position(text, "t2 = ")
        text += lines_of(model, Step("new", (1, "t3", 125, 4, 0, None), salt))
        assert any("record_stream(s2)" in line or "s1.wait" in line or "synchronize" in line for line in text[used:])


def capture(name, output, pool, synchronizes=True):
    call = Call(False, output, True, (), 5, 125, f"{output} = torch.full((1000,), 5, **INT32)")
    return Step("capture", (name, 1, 2, pool, (call,), synchronizes, "global"), 0)


def test_a_replay_destroys_what_later_graphs_of_its_pool_hold():
    model = Model()
    for step in (capture("g1", "t1", None), capture("g2", "t2", "g1")):
        assert lines_of(model, step)
    assert model.values() == {}
    lines_of(model, Step("replay", ("g1", 1), 0)), lines_of(model, Step("replay", ("g2", 1), 0))
    assert model.values() == {"t1": (5,) * 8, "t2": (5,) * 8}
    lines_of(model, Step("replay", ("g1", 1), 0))
    assert model.values() == {"t1": (5,) * 8}


def test_a_write_to_memory_of_a_shared_pool_waits_for_replays_of_earlier_graphs():
    model = Model()
    for step in (capture("g1", "t1", None), Step("replay", ("g1", 2), 0), capture("g2", "t2", "g1", synchronizes=False)):
        assert lines_of(model, step)
    text = lines_of(model, Step("change", (3, "t2", None, 7, "fill"), 0))
    assert any("s3.wait" in line or "synchronize" in line for line in text)


def test_a_program_stays_correct_without_any_of_its_steps():
    """A step looks up what it needs, so that no line names a missing object."""
    for seed in range(0, 800, 37):
        program = execute.program_of(seed)
        for number in range(len(program.steps)):
            shorter = replace(program, steps=program.steps[:number] + program.steps[number + 1 :])
            compile(printing.body(shorter, {}), "program", "exec")


def test_shrinking_keeps_the_steps_that_fail():
    program = generate(3, settings.GENERAL)
    needed = {program.steps[4], program.steps[20]}
    assert set(shrink(program, lambda shorter: needed <= set(shorter.steps), 200).steps) == needed


def test_all_kinds_of_steps_occur():
    kinds = set()
    for seed in range(0, 1000, 7):
        for step in execute.program_of(seed).steps:
            kinds.add(step.kind)
    assert kinds == set(STEPS)


def test_most_programs_compare_values():
    compare = ["expect(" in printing.body(execute.program_of(seed), {}) for seed in range(100)]
    assert sum(compare) > 95
