"""The model of the cost of an all-reduce: the table of docs/distributed.md, and properties that hold for any machine."""

import pytest

from bench.hccl import model
from tests.conftest import ROOT

NAMES = {64 << 10: "64 KiB", 1 << 20: "1 MiB", 32 << 20: "32 MiB", 1 << 30: "1 GiB"}


def test_the_document_shows_the_table():
    text = (ROOT / "docs" / "distributed.md").read_text()
    rows = model.table(model.Machine(), (64, 1024), 8)[1:]
    assert len(rows) == 8
    for ranks, hosts, size, *times in rows:
        assert f"| {ranks:,} | {hosts} | {NAMES[size]} | " + " | ".join(f"{time} ms" for time in times) + " |" in text


@pytest.mark.parametrize("way", [model.hccl, model.ring])
def test_cost_grows_with_ranks_and_bytes(way):
    machine = model.Machine()
    for ranks in (8, 64, 1024):
        costs = [way(machine, ranks, 8, size) for size in (1 << 20, 1 << 24, 1 << 28)]
        assert costs == sorted(costs)
    for size in (1 << 10, 1 << 20, 1 << 28):
        costs = [way(machine, ranks, 8, size) for ranks in (8, 16, 64, 1024)]
        assert costs == sorted(costs)


def test_a_single_host_uses_no_network():
    slow = model.Machine(network=1.0, step=1000.0)
    for way in (model.hccl, model.ring):
        assert way(slow, 8, 8, 1 << 20) < 1
