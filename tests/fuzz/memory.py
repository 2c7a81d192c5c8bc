"""Memory of the model, tensors, and operators on them."""

from dataclasses import dataclass, field

CELLS = 8


class Impossible(Exception):
    """The step cannot be part of this program."""


@dataclass(eq=False)
class Memory:
    """One allocation and its values. Undefined cells are None."""

    stream: int  # the stream it was allocated for
    cell: int  # elements
    cells: list = field(default_factory=lambda: [None] * CELLS)
    is_of_graph: bool = False
    captures: int = 0  # of its pool, if it is of a graph: how many came before its own
    tensors: int = 1  # tensors that share it
    users: set = field(default_factory=set)  # graphs that need it
    write: dict = field(default_factory=dict)  # the last write, {stream: number}
    reads: dict = field(default_factory=dict)  # later reads
    uses: dict = field(default_factory=dict)  # the last use of each stream
    recorded: set = field(default_factory=set)  # streams named by record_stream()

    def before(self, writes):
        """The tasks that must come before a new one."""
        return {**self.write, **self.reads} if writes else self.write  # reads of the same stream are later than the write

    def use(self, stream, number, writes):
        self.uses[stream] = number
        if writes:
            self.write, self.reads = {stream: number}, {}
        else:
            self.reads[stream] = number


@dataclass(eq=False)
class Tensor:
    memory: Memory
    begin: int = 0
    end: int = CELLS

    @property
    def cells(self):
        return self.memory.cells[self.begin : self.end]

    @cells.setter
    def cells(self, numbers):
        self.memory.cells[self.begin : self.end] = numbers

    @property
    def shape(self):
        return self.end - self.begin, self.memory.cell

    def is_defined(self):
        return None not in self.cells


@dataclass(frozen=True)
class Op:
    """target = value, where value is a number, a, a + number, or a + b."""

    target: Tensor
    number: int | None = None
    a: Tensor | None = None
    b: Tensor | None = None

    @property
    def sources(self):
        return [tensor for tensor in (self.a, self.b) if tensor is not None]

    def run(self):
        count = self.target.end - self.target.begin
        result = list(self.a.cells) if self.a else [self.number] * count
        others = self.b.cells if self.b else [self.number if self.a and self.number else 0] * count
        self.target.cells = [None if None in pair else _int32(sum(pair)) for pair in zip(result, others, strict=True)]


def _int32(number):
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)
