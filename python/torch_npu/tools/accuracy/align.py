"""Pairs the operators of two runs, by comparing the runs as graphs.

    pairs, only_mine, only_golden = align(mine.ops, golden.ops)

Both runs are the same computation, but an operator may be missing, come in another order, or have another name. The label of an
operator is made of its name, its shapes and the labels of the operators that made its inputs. The maker of an input is the newest
earlier operator with an equal output. Pairs are made in four rounds, from certain to uncertain. Rounds 1 and 2 run twice: first
with the numbers among the inputs, then without them.
 1. same name and bit-equal inputs;
 2. same label: the same place in the graph;
 3. same name and shapes, in the same order (the longest common sequence);
 4. same name, in the same order.
"""

from __future__ import annotations

import collections
import difflib
import hashlib
from collections.abc import Callable, Hashable, Sequence

from .names import IGNORED_ARGUMENTS, canonical, canonical_argument
from .runs import Op, Value

Pair = tuple[Op, Op]


def _tensors(values: Sequence[Value]) -> list[Value]:
    return [value for value in values if value.is_tensor and canonical_argument(value.name) not in IGNORED_ARGUMENTS]


def _shapes(op: Op) -> tuple[Hashable, ...]:
    values = _tensors(op.inputs) or _tensors(op.outputs)
    return (canonical(op.kind or op.name), *(value.shape for value in values))


def _numbers(op: Op) -> tuple[Hashable, ...]:
    """The arguments that are not tensors. They tell mul(x, 2) from mul(x, 3)."""
    known = [value for value in op.inputs if not value.is_tensor and canonical_argument(value.name) not in IGNORED_ARGUMENTS]
    return tuple(value.text for value in known)


def _contents(op: Op) -> Hashable:
    """A key made of the operator and the contents of its input tensors; None without input tensors."""
    known = [value for value in op.inputs if canonical_argument(value.name) not in IGNORED_ARGUMENTS]
    if not any(value.is_tensor for value in known):
        return None
    return (canonical(op.kind or op.name), *(value.digest for value in known if value.is_tensor))


def _with_numbers(op: Op) -> Hashable:
    contents = _contents(op)
    return None if contents is None else (contents, _numbers(op))


def _labels(ops: Sequence[Op], shared: set[str]) -> dict[int, Hashable]:
    """The label of each operator, by its index. `shared` are contents that both runs have from the start, such as weights."""
    made: dict[str, str] = {}
    labels: dict[int, Hashable] = {}
    for index, op in enumerate(ops):
        origins = []
        for value in _tensors(op.inputs):
            leaf = value.digest if value.digest in shared else f"leaf {value.shape}"
            origins.append(made.get(value.digest, leaf))
        label = hashlib.blake2b(repr((_shapes(op), origins)).encode(), digest_size=16).hexdigest()
        labels[index] = label
        for place, value in enumerate(_tensors(op.outputs)):
            made[value.digest] = f"{label}:{place}"
    return labels


def _leaves(ops: Sequence[Op]) -> set[str]:
    made: set[str] = set()
    found: set[str] = set()
    for op in ops:
        found |= {value.digest for value in _tensors(op.inputs)} - made
        made |= {value.digest for value in _tensors(op.outputs)}
    return found


class _Rest:
    """The indices of the operators of both runs that have no partner yet."""

    def __init__(self, mine: Sequence[Op], golden: Sequence[Op]) -> None:
        self.mine, self.golden = list(range(len(mine))), list(range(len(golden)))
        self.pairs: list[tuple[int, int]] = []

    def take(self, pairs: list[tuple[int, int]]) -> None:
        left, right = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
        self.mine = [index for index in self.mine if index not in left]
        self.golden = [index for index in self.golden if index not in right]
        self.pairs += pairs

    def by_key(self, mine: Callable[[int], Hashable], golden: Callable[[int], Hashable]) -> None:
        """Pairs operators with equal keys, in their order. Operators with the key None get no partner."""
        waiting: dict[Hashable, collections.deque[int]] = collections.defaultdict(collections.deque)
        for index in self.golden:
            waiting[golden(index)].append(index)
        pairs = []
        for index in self.mine:
            key = mine(index)
            if key is not None and waiting.get(key):
                pairs.append((index, waiting[key].popleft()))
        self.take(pairs)

    def by_order(self, mine: Callable[[int], Hashable], golden: Callable[[int], Hashable]) -> None:
        left, right = [mine(index) for index in self.mine], [golden(index) for index in self.golden]
        blocks = difflib.SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
        self.take([(self.mine[block.a + i], self.golden[block.b + i]) for block in blocks for i in range(block.size)])


def align(mine: Sequence[Op], golden: Sequence[Op]) -> tuple[list[Pair], list[Op], list[Op]]:
    """Returns the pairs in the order of `mine`, and the operators that only one run has."""
    rest = _Rest(mine, golden)
    rest.by_key(lambda i: _with_numbers(mine[i]), lambda i: _with_numbers(golden[i]))
    rest.by_key(lambda i: _contents(mine[i]), lambda i: _contents(golden[i]))
    if rest.mine and rest.golden:
        shared = _leaves(mine) & _leaves(golden)
        left, right = _labels(mine, shared), _labels(golden, shared)
        rest.by_key(lambda i: (left[i], _numbers(mine[i])), lambda i: (right[i], _numbers(golden[i])))
        rest.by_key(lambda i: left[i], lambda i: right[i])
        rest.by_order(lambda i: _shapes(mine[i]), lambda i: _shapes(golden[i]))
        rest.by_key(lambda i: canonical(mine[i].name), lambda i: canonical(golden[i].name))
    pairs = [(mine[left], golden[right]) for left, right in sorted(rest.pairs)]
    return pairs, [mine[index] for index in rest.mine], [golden[index] for index in rest.golden]
