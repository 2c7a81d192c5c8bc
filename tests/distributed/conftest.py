"""The sets of rank processes of the session."""

import pytest

from tests.distributed.rank_processes import RankSets, shared_memory


@pytest.fixture(scope="session")
def rank_sets():
    """RankSets. After the last test no shared memory is left."""
    before = shared_memory()
    sets = RankSets()
    yield sets
    sets.close()
    left = shared_memory() - before
    assert not left, f"left in /dev/shm: {sorted(left)}"
