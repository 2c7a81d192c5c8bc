"""The model: which memory there is, what it must hold, and which waits a correct program needs.

Memory is eight cells of equal size, each with one number in all its elements, so that the model of a tensor is a list of numbers.
A tensor is a range of cells. A method stands for a step. It raises Impossible, before any change, if the program cannot do the
step. Otherwise it returns the step's lines of Python: the call, and only those waits that the rules of streams require.

The rules, which are those of torch.cuda:
- A task that touches memory is ordered behind those that wrote it and, if it writes, behind those that read it.
- Freed memory goes to the next allocation of the stream for which it was allocated. A program that used it on another stream
  calls record_stream() before, or makes the first stream wait for the other one before the next allocation.
- Releasing memory to the device, by any call, needs no wait of the program.
- A replay is one task that touches everything that was captured, and all memory that was free in its pool at the capture.
  Graphs of one pool are not replayed at the same time; a replay destroys what later graphs of that pool hold.
"""

import random

from .graphs import Pool, Recording
from .memory import CELLS, Impossible, Memory, Op, Tensor
from .order import Order, merge

STREAMS = 6
DEVICES = (0,) * STREAMS + (1,) * 2  # of the streams, of which the last two are not always there


class Model:
    def __init__(self, most_live=14, devices=1):
        count = STREAMS if devices == 1 else len(DEVICES)
        self.order = Order(DEVICES[:count])
        self.tensors, self.hosts, self.graphs, self.pools, self.mem_pools = {}, {}, {}, {}, set()
        self.debts = [{} for _ in range(count)]  # by stream: tasks that must come before its next allocation
        self.most_live = most_live
        self.rng = random.Random(0)
        self.may_wait = True  # host waits may replace stream waits
        self._next = 0

    def name(self, letter):
        self._next += 1
        return f"{letter}{self._next}"

    def tensor(self, name):
        if name not in self.tensors or not self.is_mine(self.tensors[name].memory):
            raise Impossible(name)
        return self.tensors[name]

    def is_mine(self, memory):
        """In a section, memory belongs to the thread of the stream for which it was allocated."""
        return memory.stream in self.order.streams

    def live(self):
        return len({tensor.memory for tensor in self.tensors.values()})

    # Tasks.

    def touch(self, stream, reads, writes):
        """The lines that order a new task of `stream`."""
        points = {}
        for memory, is_written in [(memory, False) for memory in reads] + [(memory, True) for memory in writes]:
            for other, number in memory.before(is_written).items():
                points[other] = max(points.get(other, 0), number)
        lines = self.order.order(stream, points, self.rng, self.may_wait)
        number = self.order.launch(stream)
        for memory in reads:
            memory.use(stream, number, False)
        for memory in writes:
            memory.use(stream, number, True)
        return lines

    def pay(self, stream):
        """Before an allocation."""
        lines = self.order.order(stream, self.debts[stream], self.rng, self.may_wait)
        self.debts[stream] = {}
        return lines

    def check_stream(self, stream):
        if stream not in self.order.streams:
            raise Impossible(stream)

    def check_device(self, stream, memory):
        """Operators work on memory of the stream's device."""
        if any(DEVICES[each.stream] != DEVICES[stream] for each in memory):
            raise Impossible("another device")

    def new(self, stream, name, cell, op, text, pool=None):
        """The line `name = text` on `stream`. It allocates memory; op(tensor) sets its model."""
        self.check_stream(stream)
        if name in self.tensors or self.live() >= self.most_live or (pool is not None and pool not in self.mem_pools):
            raise Impossible(name)
        memory = Memory(stream, cell)
        op = op(Tensor(memory))
        self.check_device(stream, [source.memory for source in op.sources])
        if any(not source.is_defined() for source in op.sources):
            raise Impossible("undefined")
        lines = self.pay(stream)
        lines += self.touch(stream, {source.memory for source in op.sources}, [memory])
        op.run()
        self.tensors[name] = op.target
        context = f"on(s{stream})" if pool is None else f"on(s{stream}), use({pool})"
        return [*lines, f"with {context}: {name} = {text}"]

    def write(self, stream, op, text):
        """The line `text`, which writes an existing tensor; `op` sets its model."""
        self.check_stream(stream)
        self.check_device(stream, [tensor.memory for tensor in (op.target, *op.sources)])
        if any(not source.is_defined() for source in op.sources):
            raise Impossible("undefined")
        lines = self.touch(stream, {source.memory for source in op.sources} - {op.target.memory}, [op.target.memory])
        op.run()
        return [*lines, f"with on(s{stream}): {text}"]

    def peer(self, name, source, stream, other):
        """A copy on the device of the stream `other`. `stream` makes it; the two streams wait for each other by themselves."""
        tensor = self.tensor(source)
        self.check_stream(stream)
        self.check_stream(other)
        self.check_device(stream, [tensor.memory])
        if DEVICES[stream] == DEVICES[other] or tensor.shape[0] != CELLS or not tensor.is_defined():
            raise Impossible(source)
        if name in self.tensors or self.live() >= self.most_live:
            raise Impossible(name)
        memory = Memory(other, tensor.memory.cell)
        lines = self.pay(other)
        merge(self.order.clocks[stream], self.order.clocks[other])
        lines += self.touch(stream, [tensor.memory], [memory])
        merge(self.order.clocks[other], self.order.clocks[stream])
        self.tensors[name] = Tensor(memory)
        Op(self.tensors[name], None, tensor).run()
        call = f'{source}.to("npu:{DEVICES[other]}", non_blocking=True)'
        return [*lines, f"with on(s{other}), on(s{stream}): {name} = {call}"]

    def churn(self, stream, cell, count):
        """Memory that is overwritten and freed at once."""
        self.check_stream(stream)
        if self.live() >= self.most_live:
            raise Impossible("full")
        lines = self.pay(stream)
        self.order.launch(stream)
        return [*lines, f"with on(s{stream}): [torch.full(({CELLS * cell},), -1, **INT32) for _ in range({count})]"]

    def view(self, name, source, begin, end):
        tensor = self.tensor(source)
        if name in self.tensors or end > tensor.end - tensor.begin:
            raise Impossible(name)
        self.tensors[name] = Tensor(tensor.memory, tensor.begin + begin, tensor.begin + end)
        tensor.memory.tensors += 1
        return [f"{name} = {source}[{begin * tensor.memory.cell}:{end * tensor.memory.cell}]"]

    # Frees.

    def delete(self, name):
        tensor = self.tensor(name)
        memory = tensor.memory
        if memory.tensors == 1 and memory.users:
            raise Impossible("a graph needs it")
        lines = self._end_of_uses(name, memory) if memory.tensors == 1 and not memory.is_of_graph else []
        del self.tensors[name]
        memory.tensors -= 1
        return [*lines, f"del {name}"]

    def _end_of_uses(self, name, memory):
        lines = []
        missing = self.order.missing(memory.stream, memory.uses)
        for stream, number in sorted(missing.items()):
            if stream in memory.recorded or not self.order.missing(memory.stream, {stream: number}):
                continue
            way = self.rng.random()
            if way < 0.4:
                lines.append(f"{name}.record_stream(s{stream})")
            elif way < 0.85:
                debt = self.debts[memory.stream]
                debt[stream] = max(debt.get(stream, 0), number)
            else:
                lines += self.order.order(memory.stream, {stream: number}, self.rng, self.may_wait)
        return lines

    def record_stream(self, name, stream):
        self.check_stream(stream)
        self.check_device(stream, [self.tensor(name).memory])
        self.tensor(name).memory.recorded.add(stream)
        return [f"{name}.record_stream(s{stream})"]

    # Checks.

    def expect(self, name, stream):
        tensor = self.tensor(name)
        self.check_stream(stream)
        self.check_device(stream, [tensor.memory])
        if not tensor.is_defined():
            raise Impossible("undefined")
        lines = self.touch(stream, [tensor.memory], [])
        self.order.wait_for_stream(stream)
        return [*lines, f'with on(s{stream}): expect("{name}", {name}, {tensor.cells})']

    # Pinned memory of the host.

    def host_new(self, name, stream, cell, number):
        self.check_stream(stream)
        if name in self.hosts:
            raise Impossible(name)
        memory = Memory(stream, cell)
        memory.cells = [number] * CELLS
        self.hosts[name] = memory
        return [f"{name} = torch.full(({CELLS * cell},), {number}, dtype=torch.int32, pin_memory=True)"]

    def host(self, name):
        if name not in self.hosts or not self.is_mine(self.hosts[name]):
            raise Impossible(name)
        return self.hosts[name]

    def host_fill(self, name, number):
        memory = self.host(name)
        lines = self.order.wait(memory.before(True), self.rng)
        memory.cells = [number] * CELLS
        return [*lines, f"{name}.fill_({number})"]

    def host_expect(self, name):
        memory = self.host(name)
        if None in memory.cells:
            raise Impossible("undefined")
        lines = self.order.wait(memory.before(False), self.rng)
        return [*lines, f'expect("{name}", {name}, {memory.cells})']

    def host_delete(self, name):
        self.host(name)
        del self.hosts[name]
        return [f"del {name}"]

    def copy_host(self, stream, name, host, to_host):
        """A copy between a whole tensor and a pinned one."""
        tensor, memory = self.tensor(name), self.host(host)
        self.check_stream(stream)
        self.check_device(stream, [tensor.memory])
        if tensor.shape != (CELLS, memory.cell):
            raise Impossible("shapes")
        source, target = (tensor.memory, memory) if to_host else (memory, tensor.memory)
        if None in source.cells:
            raise Impossible("undefined")
        lines = self.touch(stream, [source], [target])
        target.cells = list(source.cells)
        call = f"{host}.copy_({name}, non_blocking=True)" if to_host else f"{name}.copy_({host}, non_blocking=True)"
        return [*lines, f"with on(s{stream}): {call}"]

    # Pools of the user.

    def mem_pool_new(self, name):
        if name in self.mem_pools or self.order.in_section:
            raise Impossible(name)
        self.mem_pools.add(name)
        return [f"{name} = torch.npu.MemPool()"]

    def mem_pool_delete(self, name):
        if name not in self.mem_pools or self.order.in_section:
            raise Impossible(name)
        self.mem_pools.remove(name)
        return [f"del {name}"]

    # Graphs.

    def capture(self, name, stream, lane, pool, calls, synchronizes, mode):
        """Captures `calls` of program.py on `stream` and on a second one that is forked from it.

        pool: of which graph, or None. synchronizes: by torch.npu.graph(), which waits for the device."""
        self.check_stream(stream)
        self.check_stream(lane)
        if DEVICES[stream] or DEVICES[lane]:
            raise Impossible("graphs are of the first device")
        if name in self.graphs or 0 in (stream, lane) or stream == lane or self.live() >= self.most_live:
            raise Impossible(name)
        if synchronizes and self.order.in_section:
            raise Impossible("other threads may capture")
        shared = self.graph(pool).pool if pool else Pool()
        recording = Recording(shared, stream, lane, self.tensor)
        for call in calls:
            if call.is_new and call.target in self.tensors:
                raise Impossible(call.target)
            recording.add(call)
        self.check_device(stream, recording.graph.used())
        recording.finish()
        return self._captured_lines(name, stream, recording, pool, synchronizes, mode)

    def _captured_lines(self, name, stream, recording, pool, synchronizes, mode):
        graph, body = recording.graph, ["    " + line for line in recording.lines]
        lines = [f"{name} = torch.npu.NPUGraph()"]
        options = f', capture_error_mode="{mode}"'
        handle = f"{pool}.pool()" if pool else self.rng.choice(("None", "torch.npu.graph_pool_handle()"))
        if synchronizes:
            self.order.wait_for_device()
            lines += [f"with torch.npu.graph({name}, stream=s{stream}, pool={handle}{options}):", *body]
        else:
            begin, end = f"    {name}.capture_begin(pool={handle}{options})", f"    {name}.capture_end()"
            lines += [f"with on(s{stream}):", begin, *body, end]
        self.tensors |= recording.made
        graph.pool.memory += graph.own
        graph.pool.captures += 1
        graph.pool.graphs.add(name)
        # A tensor of the capture may be freed before the graph; replays still write its memory.
        for memory in graph.used() - set(graph.own):
            memory.users.add(name)
        self.graphs[name] = graph
        return lines

    def graph(self, name):
        if name not in self.graphs or not all(map(self.is_mine, self._memory_of_pool(self.graphs[name].pool))):
            raise Impossible(name)
        return self.graphs[name]

    def _memory_of_pool(self, pool):
        """All memory of the pool, and the memory that its graphs use."""
        return set(pool.memory).union(*(self.graphs[name].used() for name in pool.graphs))

    def replay(self, name, stream):
        graph = self.graph(name)
        self.check_stream(stream)
        if DEVICES[stream]:
            raise Impossible("another device")
        read, written = graph.memory()
        lines = self.touch(stream, read, written)
        graph.replay()
        return [*lines, f"with on(s{stream}): {name}.replay()"]

    def graph_delete(self, name, how):
        graph = self.graph(name)
        del self.graphs[name]
        graph.pool.graphs.discard(name)
        for memory in graph.used():
            memory.users.discard(name)
        return {"del": [f"del {name}"], "reset": [f"{name}.reset()"], "both": [f"{name}.reset()", f"del {name}"]}[how]

    # Values, for the comparison after an interrupt.

    def values(self):
        return {name: tuple(tensor.cells) for name, tensor in self.tensors.items() if tensor.is_defined()}
