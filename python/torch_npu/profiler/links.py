"""Relations between records: operators that launched tasks, self times, and times when devices compute or communicate."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .records import COLLECTIVE, Operator, Records, Task

Interval = tuple[int, int]


@dataclass(slots=True, eq=False)
class Node:
    """An operator with its place in the calls of its thread."""

    operator: Operator
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    device_total: int = 0  # time on the device of this operator and of all operators inside of it
    forward: Node | None = None  # for an operator of the backward pass: the operator that it differentiates

    @property
    def host_total(self) -> int:
        return self.operator.end_ns - self.operator.start_ns

    @property
    def host_self(self) -> int:
        return self.host_total - sum(child.host_total for child in self.children)

    def above(self) -> Iterator[Node]:
        """What called it, the nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def frames(self) -> list[str]:
        """The Python lines that called the operator, innermost first. Torch records lines of function calls only. An operator
        that is written as a symbol, such as +, has the first line of its function."""
        if self.operator.stack and self.operator.kind != "python":
            return list(self.operator.stack)
        found: list[str] = []
        node: Node | None = self
        while node is not None:
            if node.operator.kind == "python":
                if not found and not node.operator.name.startswith("<"):
                    found.append(node.operator.name)
                found += node.operator.stack
            node = node.parent
        return found

    @property
    def device_self(self) -> int:
        return sum(task.end_ns - task.start_ns for task in self.tasks)


class Calls:
    """The operators of all threads as trees."""

    def __init__(self, operators: Iterable[Operator]) -> None:
        self.nodes: list[Node] = []
        self._roots: dict[int, list[Node]] = defaultdict(list)
        threads: dict[int, list[Operator]] = defaultdict(list)
        for operator in operators:
            threads[operator.thread].append(operator)
        for thread, row in threads.items():
            row.sort(key=lambda operator: (operator.start_ns, -operator.end_ns))
            self._nest(thread, row)

    def _nest(self, thread: int, row: Sequence[Operator]) -> None:
        open_nodes: list[Node] = []
        for operator in row:
            while open_nodes and open_nodes[-1].operator.end_ns < operator.end_ns:
                open_nodes.pop()
            parent = open_nodes[-1] if open_nodes else None
            node = Node(operator, parent)
            (parent.children if parent else self._roots[thread]).append(node)
            self.nodes.append(node)
            open_nodes.append(node)

    def at(self, thread: int, time_ns: int) -> Node | None:
        """The innermost operator of a thread at a time."""
        found, row = None, self._roots.get(thread, [])
        while row:
            index = bisect_right(row, time_ns, key=lambda node: node.operator.start_ns) - 1
            if index < 0 or row[index].operator.end_ns < time_ns:
                break
            found = row[index]
            row = found.children
        return found


_BACKWARD = "autograd::engine::evaluate_function"


def _find_forward(nodes: Iterable[Node]) -> None:
    """Sets Node.forward. Torch gives an operator and its backward operator the same sequence number. An operator that is not
    differentiated has the number of the next operator that is."""
    by_number: dict[int, Node] = {}
    backward: list[Node] = []
    inside: set[int] = set()
    for node in nodes:
        if (node.parent is not None and id(node.parent) in inside) or node.operator.name.startswith(_BACKWARD):
            inside.add(id(node))
            backward.append(node)
        elif node.operator.sequence >= 0 and node.operator.kind == "operator":
            by_number[node.operator.sequence] = node
    for node in backward:
        number = node.operator.sequence
        node.forward = by_number.get(number) if number >= 0 else node.parent.forward if node.parent is not None else None


def link(records: Records) -> Calls:
    """The operators of the records as trees. Each task is added to the operator that launched it."""
    calls = Calls(records.operators)
    _find_forward(calls.nodes)
    by_id = {node.operator.id: node for node in calls.nodes if node.operator.id}
    for task in records.tasks:
        node = by_id.get(task.external) if task.external else None
        if node is None:
            node = calls.at(task.thread, task.enqueue_ns)
        if node is not None:
            node.tasks.append(task)
            while node is not None:
                node.device_total += task.end_ns - task.start_ns
                node = node.parent
    return calls


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The union of the intervals, ascending."""
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        elif end > start:
            result.append((start, end))
    return result


def length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in intervals)


def minus(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """The parts of `one` outside of `other`. Both are results of merged()."""
    result, index = [], 0
    for start, end in one:
        while index and other[index - 1][1] > start:
            index -= 1
        while index < len(other) and other[index][1] <= start:
            index += 1
        while index < len(other) and other[index][0] < end:
            if other[index][0] > start:
                result.append((start, other[index][0]))
            start = max(start, other[index][1])
            index += 1
        if start < end:
            result.append((start, end))
    return result


def is_work(task: Task) -> bool:
    """Kernels and collectives, without copies, fills and waits of streams."""
    return task.kind in ("kernel", COLLECTIVE)


@dataclass(frozen=True)
class Busy:
    """Times of a device: computing, communicating, communicating without computing, and idle."""

    computing: list[Interval]
    communication: list[Interval]
    not_overlapped: list[Interval]
    free: list[Interval]


def busy(tasks: Iterable[Task], start: int, end: int) -> Busy:
    """The times within start and end."""
    computing: list[Interval] = []
    communication: list[Interval] = []
    for task in tasks:
        piece = (max(task.start_ns, start), min(task.end_ns, end))
        if piece[1] > piece[0] and is_work(task):
            (communication if task.kind == COLLECTIVE else computing).append(piece)
    computing, communication = merged(computing), merged(communication)
    free = minus([(start, end)], merged(computing + communication))
    return Busy(computing, communication, minus(communication, computing), free)
