"""Draws random programs: seed and profile determine all steps."""

import random

from .graphs import Call
from .memory import CELLS, Impossible
from .model import STREAMS, Model
from .program import FULL, STEPS, Program, Step, full, result_text

CELL_SIZES = {"small": 125, "medium": 5000, "most of a small segment": 32768, "large": 40000, "own segment": 400_000}

WEIGHTS = {
    "new": 10,
    "result": 10,
    "change": 10,
    "peer": 3,
    "view": 3,
    "delete": 9,
    "record_stream": 1,
    "churn": 6,
    "expect": 3,
    "sleep": 6,
    "record": 3,
    "query": 1,
    "synchronize": 1,
    "empty_cache": 4,
    "new_after_refusal": 2,
    "host_new": 1.5,
    "host_fill": 1,
    "host_expect": 1,
    "host_delete": 1,
    "copy_host": 6,
    "mem_pool_new": 1,
    "mem_pool_delete": 2,
    "capture": 3,
    "replay": 8,
    "graph_delete": 3,
    "together": 1.2,
}
# Kind -> likely next steps (kind, probability). They allocate and overwrite released memory at once.
FOLLOWED = {
    "capture": ("replay", 0.7),
    "sleep": ("result", 0.4),
    "replay": ("result", 0.4),
    "graph_delete": ("churn", 0.5),
    "mem_pool_delete": ("churn", 0.5),
    "empty_cache": ("churn", 0.5),
}
NEED_GRAPHS, NEED_POOLS = ("capture", "replay", "graph_delete"), ("mem_pool_new", "mem_pool_delete")
NOT_IN_SECTIONS = ("together", "new_after_refusal", "mem_pool_new", "mem_pool_delete")


class Generator:
    def __init__(self, seed, profile):
        self.rng, self.profile, self.model = random.Random(seed), profile, Model(profile.most_live, profile.devices)
        self.streams = range(self.model.order.count)
        self.captures = True  # whether the thread may capture; then no thread waits for the device
        self.weights = dict(WEIGHTS)
        self.last = None  # kind of the last step
        unwanted = () if profile.graphs else NEED_GRAPHS
        unwanted += () if profile.pools else NEED_POOLS
        unwanted += () if profile.devices > 1 else ("peer",)
        unwanted += () if profile.threads else ("together",)
        # With a limit, the limit refuses the first allocation and the device the second.
        unwanted += () if profile.limit is None else ("new_after_refusal",)
        for kind in unwanted:
            del self.weights[kind]
        # Each program uses a few streams and prefers some kinds of steps.
        self.few = self.rng.sample(self.streams, self.rng.randrange(2, STREAMS + 1))
        for kind in (*self.rng.sample(sorted(self.weights), 5), *profile.likes):
            self.weights[kind] *= 4

    def program(self, seed):
        steps = []
        while len(steps) < self.profile.steps:
            if step := self.step():
                steps.append(step)
        return Program(seed, self.profile, tuple(steps))

    def step(self):
        kind = self._kind()
        if self.model.order.in_section and kind in NOT_IN_SECTIONS:
            return None
        salt = self.rng.randrange(1 << 30)
        try:
            proposed = getattr(self, kind)()
            if proposed is None:
                return None
            step = Step(kind, proposed, salt)
            self.last = kind
            if kind != "together":  # these steps have run already, thread by thread
                self.model.rng = random.Random(salt)
                STEPS[kind](self.model, *proposed)
            return step
        except Impossible:
            return None

    def _kind(self):
        kind, probability = FOLLOWED.get(self.last, (None, 0))
        if self.rng.random() < probability:
            self.last = None
            return kind
        return self.rng.choices(list(self.weights), self.weights.values())[0]

    def stream(self):
        few = [stream for stream in self.streams if stream in self.few]
        return self.rng.choice(few or list(self.streams))

    def number(self):
        return self.rng.randrange(1, 10)

    def cell(self):
        return CELL_SIZES[self.rng.choice(self.profile.cells)]

    def pick(self, names):
        if not names:
            raise Impossible("none")
        return self.rng.choice(sorted(names))

    def tensors(self, whole=False, like=None, defined=True):
        return [
            name
            for name, tensor in self.model.tensors.items()
            if self.model.is_mine(tensor.memory)
            and (tensor.is_defined() or not defined)
            and (not whole or tensor.shape[0] == CELLS)
            and (like is None or (tensor.shape == like.shape and tensor.memory is not like.memory))
        ]

    def hosts(self):
        return [name for name, memory in self.model.hosts.items() if self.model.is_mine(memory)]

    def pool(self):
        if self.model.mem_pools and self.rng.random() < 0.3:
            return self.pick(self.model.mem_pools)
        return None

    # The arguments of each kind of step.

    def new(self):
        return self.stream(), self.model.name("t"), self.cell(), self.number(), self.rng.choice((0, 0, 0, 1, 2, 3)), self.pool()

    def new_after_refusal(self):
        return self.stream(), self.model.name("t"), self.cell(), self.number()

    def result(self):
        first = self.pick(self.tensors(whole=True))
        others = self.tensors(whole=True, like=self.model.tensors[first])
        sources, number = (first,), self.rng.choice((None, self.number()))
        if others and self.rng.random() < 0.4:
            sources, number = (first, self.rng.choice(others)), None
        return self.stream(), self.model.name("t"), sources, number, self.pool()

    def change(self):
        name = self.pick(self.tensors(defined=False))
        target = self.model.tensors[name]
        others = self.tensors(like=target)
        way = self.rng.choice(["fill"] + ["add number"] * target.is_defined() + ["copy"] * bool(others))
        if others and target.is_defined() and self.rng.random() < 0.3:
            way = "add"
        return self.stream(), name, self.rng.choice(others) if others else None, self.number(), way

    def peer(self):
        return self.model.name("t"), self.pick(self.tensors(whole=True)), self.stream(), self.stream()

    def view(self):
        source = self.pick(self.tensors(defined=False))
        cells = self.model.tensors[source].shape[0]
        begin = self.rng.randrange(cells)
        return self.model.name("t"), source, begin, self.rng.randrange(begin, cells) + 1

    def delete(self):
        return (self.pick(self.tensors(defined=False)),)

    def record_stream(self):
        return self.pick(self.tensors(defined=False)), self.stream()

    def churn(self):
        return self.stream(), self.cell(), self.rng.randrange(1, 2 if self.profile.limit else 5)

    def expect(self):
        return self.pick(self.tensors()), self.stream()

    def sleep(self):
        microseconds = self.rng.randrange(*self.profile.sleep)
        return self.stream(), microseconds * (40 if self.rng.random() < self.profile.long_sleeps else 1)

    def record(self):
        stream = self.stream()
        own = self.model.order.own_events(stream)
        return stream, self.rng.choice(own) if own and self.rng.random() < 0.3 else None

    def query(self):
        if self.model.order.in_section and self.captures:
            return None
        return (self.stream(),)

    def synchronize(self):
        if self.model.order.in_section and self.captures:
            return (self.stream(),)
        return (self.rng.choice((None, self.stream())),)

    def empty_cache(self):
        return ()

    def host_new(self):
        alike = self.tensors(whole=True)
        cell = self.model.tensors[self.rng.choice(alike)].memory.cell if alike else self.cell()
        return self.model.name("h"), self.stream(), cell, self.number()

    def host_fill(self):
        return self.pick(self.hosts()), self.number()

    def host_expect(self):
        return (self.pick(self.hosts()),)

    host_delete = host_expect

    def copy_host(self):
        host = self.pick(self.hosts())
        like = [
            n for n in self.tensors(whole=True, defined=False) if self.model.tensors[n].memory.cell == self.model.hosts[host].cell
        ]
        return self.stream(), self.pick(like), host, self.rng.random() < 0.5

    def mem_pool_new(self):
        return (self.model.name("m"),)

    def mem_pool_delete(self):
        return (self.pick(self.model.mem_pools),)

    def capture(self):
        if self.model.order.in_section and not self.captures:
            return None
        stream, lane = self.stream(), self.stream()
        graphs = [name for name in self.model.graphs if self._is_mine(name)]
        pool = self.rng.choice(graphs) if graphs and self.rng.random() < 0.5 else None
        synchronizes = not self.model.order.in_section and self.rng.random() < 0.4
        mode = (
            "global"
            if not self.model.order.in_section and self.rng.random() < 0.7
            else self.rng.choice(("thread_local", "relaxed"))
        )
        if stream == lane:
            lane = self.rng.choice([other for other in self.streams if other not in (0, stream)] or [0])
        return self.model.name("g"), stream, lane, pool, self._calls(), synchronizes, mode

    def _is_mine(self, graph):
        try:
            return bool(self.model.graph(graph))
        except Impossible:
            return False

    def _calls(self):
        """Operators on tensors that exist and on those that earlier operators of the capture make."""
        shapes = {name: self.model.tensors[name].shape for name in self.tensors(defined=False)}
        calls, made = [], []
        for _ in range(self.rng.randrange(1, 5)):
            if shapes and self.rng.random() < 0.4:
                calls.append(self._call_in_place(shapes))
                continue
            drops = (made.pop(0),) if made and self.rng.random() < 0.4 else ()
            call = self._call_with_result(shapes, drops)
            for name in drops:
                del shapes[name]
            shapes[call.target] = (CELLS, call.cell)
            made.append(call.target)
            calls.append(call)
        return tuple(calls)

    def _call_with_result(self, shapes, drops):
        name, number = self.model.name("t"), self.number()
        whole = [name for name, shape in shapes.items() if shape[0] == CELLS]
        sources = (self.rng.choice(whole),) if whole and self.rng.random() < 0.8 else ()
        cell = shapes[sources[0]][1] if sources else self.cell()
        text = result_text(sources, number) if sources else full(FULL, cell, number)
        return Call(self.rng.random() < 0.3, name, True, sources, number, cell, f"{name} = {text}", drops)

    def _call_in_place(self, shapes):
        name, number, on_lane = self.rng.choice(sorted(shapes)), self.number(), self.rng.random() < 0.3
        same = [other for other, shape in shapes.items() if shape == shapes[name] and not self._overlap(other, name)]
        if not same or self.rng.random() < 0.5:
            return Call(on_lane, name, False, (name,), number, 0, f"{name}.add_({number})")
        source = self.rng.choice(same)
        return Call(on_lane, name, False, (source,), None, 0, f"{name}.copy_({source})")

    def _overlap(self, one, other):
        tensors = self.model.tensors
        return one == other or (one in tensors and other in tensors and tensors[one].memory is tensors[other].memory)

    def replay(self):
        return self.pick([name for name in self.model.graphs if self._is_mine(name)]), self.stream()

    def graph_delete(self):
        return self.pick([name for name in self.model.graphs if self._is_mine(name)]), self.rng.choice(("del", "reset", "both"))

    def together(self):
        count = self.rng.choice((1, 2, 2, 3))
        streams = self.rng.sample(range(STREAMS), STREAMS)
        self.captures = self.profile.graphs and self.rng.random() < 0.4
        if self.captures:
            self.model.order.wait_for_device()
        self.model.order.begin_section()
        threads = []
        for number in range(count):
            self.streams = tuple(sorted(streams[number::count]))
            self.model.order.begin_thread(number, self.streams)
            steps = [self.step() for _ in range(self.rng.randrange(2, 12))]
            threads.append((self.streams, tuple(step for step in steps if step)))
            self.model.order.end_thread()
        self.model.order.end_section()
        self.streams, captures, self.captures = range(STREAMS), self.captures, True
        return tuple(threads), captures


def generate(seed, profile):
    return Generator(seed, profile).program(seed)
