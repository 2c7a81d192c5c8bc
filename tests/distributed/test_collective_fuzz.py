"""Random sequences of collectives on several groups and streams give what the model gives.

A failure names the command that repeats it.
"""

import os

import pytest

from tests.distributed.collective_fuzz import MODES, OPERATIONS, fuzz, program

PROGRAMS = int(os.environ.get("TORCH_NPU_COLLECTIVE_PROGRAMS", "300"))
RACES = (("SOFTNPU_RACE_CHECK", "fail"),)
VARIANTS = {
    "races": RACES,
    "queue": (("SOFTNPU_LAUNCH", "queue"),),
    "shuffle": (("SOFTNPU_LAUNCH", "shuffle"), *RACES),
    "poison": (("SOFTNPU_MEMORY_CHECK", "redzone,poison"),),
}


@pytest.mark.parametrize("world", [2, 4])
def test_programs_give_what_the_model_gives(rank_sets, world):
    fuzz(rank_sets, "hccl", world, range(8))


def test_freed_inputs_that_another_stream_waits_for(rank_sets):
    fuzz(rank_sets, "hccl", 2, range(16), elsewhere=True)


def test_programs_have_no_race(rank_sets):
    fuzz(rank_sets, "hccl", 2, range(100, 104), environment=RACES)


@pytest.mark.parametrize("mode", ["tcp", "gloo"])
def test_programs_of_other_modes(rank_sets, mode):
    fuzz(rank_sets, mode, 2, range(200, 204))


@pytest.mark.full
@pytest.mark.parametrize("world", [2, 3, 4, 8])
@pytest.mark.parametrize("mode", MODES)
def test_many_programs(rank_sets, mode, world):
    """The number of programs. Other modes and 8 ranks get a tenth, because their programs take ten times as long."""
    programs = PROGRAMS if mode == "hccl" and world < 8 else PROGRAMS // 10
    fuzz(rank_sets, mode, world, range(1000, 1000 + programs), length=40)


@pytest.mark.full
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("variant", VARIANTS)
def test_many_programs_with_checks_of_the_device(rank_sets, variant, world):
    fuzz(rank_sets, "hccl", world, range(5000, 5000 + PROGRAMS // 6), length=40, environment=VARIANTS[variant])


# The fuzzer itself.


def test_a_program_is_the_same_for_the_same_seed():
    assert program(7, 30, "hccl") == program(7, 30, "hccl") != program(8, 30, "hccl")


def test_all_operations_and_choices_occur():
    steps = [step for seed in range(40) for step in program(seed, 30, "hccl")]
    assert {step.operation for step in steps} == set(OPERATIONS)
    for name in ("late", "asynchronous", "frees"):
        assert {getattr(step, name) for step in steps} == {True, False}
