"""Graphs of the model: what a capture records, and which memory a replay touches."""

from dataclasses import dataclass, field

from .memory import CELLS, Impossible, Memory, Op, Tensor


@dataclass(frozen=True)
class Call:
    """An operator of a capture. target = sources + number; without sources, the number alone."""

    on_lane: bool  # on the second stream
    target: str
    is_new: bool
    sources: tuple
    number: int | None
    cell: int  # elements per cell, if the target is new and there are no sources
    text: str
    drops: tuple = ()  # tensors of this capture that are deleted behind it


@dataclass(eq=False)
class Pool:
    """Memory that graphs share."""

    captures: int = 0
    memory: list = field(default_factory=list)  # all its memory, used or free
    graphs: set = field(default_factory=set)  # live graphs
    turn: Memory = field(default_factory=lambda: Memory(0, 0))  # every replay writes it, so that replays are ordered


@dataclass(eq=False)
class Graph:
    pool: Pool
    captures: int  # of the pool, before this one
    ops: list = field(default_factory=list)
    reused: list = field(default_factory=list)  # memory of the pool that was free at the capture
    own: list = field(default_factory=list)

    def memory(self):
        """(memory that a replay reads, memory that it may write)."""
        written = {op.target.memory for op in self.ops} | {self.pool.turn, *self.reused, *self.own}
        written |= {memory for memory in self.pool.memory if memory.captures > self.captures}
        return self.used() - written, written

    def used(self):
        """The memory that its operators read or write."""
        return {tensor.memory for op in self.ops for tensor in (op.target, *op.sources)}

    def replay(self):
        for memory in self.pool.memory:
            if memory.captures > self.captures:
                memory.cells = [None] * CELLS
        for op in self.ops:
            op.run()


class Recording:
    """A capture under way, on a stream and on a lane: a second one that is forked from it and joined again."""

    def __init__(self, pool, stream, lane, find):
        """find: gives a tensor of the program by its name, or raises Impossible."""
        self.graph = Graph(pool, pool.captures, reused=[memory for memory in pool.memory if memory.tensors == 0])
        self.made, self.lines = {}, []
        self._stream, self._lane, self._find = stream, lane, find
        # Memory that either stream touched since the other one last waited for it. None: the lane is not captured yet.
        self._touched, self._touched_on_lane = None, set()
        self._streams = {}  # by memory: those that used it

    def add(self, call):
        stream = self._lane if call.on_lane else self._stream
        sources = [self._tensor(name) for name in call.sources]
        target = self._new(call, sources, stream) if call.is_new else self._tensor(call.target)
        if len({tensor.shape for tensor in (target, *sources)}) > 1:
            raise Impossible("shapes")
        self.graph.ops.append(Op(target, call.number, *sources))
        memory = {tensor.memory for tensor in (target, *sources)}
        self._order(call, memory)
        for each in memory:
            self._streams.setdefault(each, set()).add(stream)
        self.lines.append(f"with on(s{stream}): {call.text}" if call.on_lane else call.text)
        for name in call.drops:
            self._drop(name)

    def finish(self):
        if self._touched_on_lane:
            self.lines.append(f"s{self._stream}.wait_stream(s{self._lane})")

    def _tensor(self, name):
        return self.made[name] if name in self.made else self._find(name)

    def _new(self, call, sources, stream):
        cell = sources[0].memory.cell if sources else call.cell
        memory = Memory(stream, cell, is_of_graph=True, captures=self.graph.captures, write=self._earlier_uses())
        self.graph.own.append(memory)
        self.made[call.target] = Tensor(memory)
        return self.made[call.target]

    def _earlier_uses(self):
        """The last tasks that used what was free in the pool: replays write it, and freed tensors were read there."""
        points = {}
        for memory in (self.graph.pool.turn, *self.graph.reused):
            for stream, number in memory.before(True).items():
                points[stream] = max(points.get(stream, 0), number)
        return points

    def _order(self, call, memory):
        """The two streams wait for each other only where they touch the same memory."""
        if call.on_lane:
            if self._touched is None or self._touched & memory:
                self.lines.append(f"s{self._lane}.wait_stream(s{self._stream})")
                self._touched = set()
            self._touched_on_lane |= memory
            return
        if self._touched_on_lane & memory:
            self.lines.append(f"s{self._stream}.wait_stream(s{self._lane})")
            self._touched_on_lane = set()
        if self._touched is not None:
            self._touched |= memory

    def _drop(self, name):
        """The next allocation of its stream gets the memory: not if the other stream used it, too."""
        if name not in self.made or self._streams[self.made[name].memory] != {self.made[name].memory.stream}:
            return
        self.made.pop(name).memory.tensors = 0
        self.lines.append(f"del {name}")
