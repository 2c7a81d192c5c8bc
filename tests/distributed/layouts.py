"""Process groups by layout. All ranks of a set ask for the same layouts in the same order."""

from torch import distributed as dist
from torch.distributed import distributed_c10d as c10d

from tests.distributed.rank_processes import GROUP_TIMEOUT

LAYOUTS = ("world", "halves", "stripes", "ends", "alone", "reversed")


def members(layout, world):
    """The groups of a layout as lists of ranks of the world, in the order of the ranks of the group."""
    ranks = list(range(world))
    if layout == "world":
        return [ranks]
    if layout == "halves":
        return [ranks[: world // 2], ranks[world // 2 :]]
    if layout == "stripes":
        return [ranks[0::2], ranks[1::2]]
    if layout == "ends":
        return [[0, world - 1]]
    if layout == "alone":
        return [[rank] for rank in ranks]
    if layout == "reversed":
        return [ranks[::-1]]
    raise ValueError(f"no layout {layout}; there are {', '.join(LAYOUTS)}")


def _unsorted_group(rank, ranks):
    """new_group sorts its ranks, so this one is made by the function behind it."""
    backend = c10d.Backend(rank.setting.backend)
    store, name = rank.store("reversed"), "reversed"
    own, size = ranks.index(rank.rank), len(ranks)
    made, _ = c10d._new_process_group_helper(size, own, ranks, backend, store, name, timeout=GROUP_TIMEOUT)
    c10d._world.pg_group_ranks[made] = {each: number for number, each in enumerate(ranks)}
    return made


def _make(rank, layout, ranks):
    if layout == "world":
        return dist.group.WORLD
    return _unsorted_group(rank, ranks) if layout == "reversed" else dist.new_group(ranks)


def group(rank, layout):
    """(process group, own rank in it, its size), or None if this rank is in no group of the layout."""
    if layout not in rank.groups:
        mine = None
        for ranks in members(layout, rank.world):
            made = _make(rank, layout, ranks)
            if rank.rank in ranks:
                mine = (made, ranks.index(rank.rank), len(ranks))
        rank.groups[layout] = mine
    return rank.groups[layout]
