"""Programs: lists of steps.

A step names its tensors and holds a number that determines how it is ordered. So a program stays correct when steps are removed:
it has the waits that the remaining steps need, and steps whose tensors no longer exist are removed too.
"""

import random
import re
from dataclasses import dataclass

from .memory import CELLS, Impossible, Op
from .model import Model


@dataclass(frozen=True)
class Step:
    kind: str
    args: tuple
    salt: int


@dataclass(frozen=True)
class Profile:
    """The options of random programs."""

    cells: tuple = ("small", "small", "medium", "medium", "most of a small segment", "large")
    steps: int = 36
    most_live: int = 14
    limit: int | None = None  # of memory, in bytes; needs memory that is at most a small segment
    graphs: bool = True
    pools: bool = True
    threads: bool = True  # need one device
    devices: int = 1
    sleep: tuple = (100, 2500)  # microseconds
    long_sleeps: float = 0  # share of sleeps that take 40 times as long
    likes: tuple = ()  # kinds of steps that are more frequent


@dataclass(frozen=True)
class Program:
    seed: int
    profile: Profile
    steps: tuple


# Steps, by name. Each function gives the lines of the step.


def full(text, cell, number):
    return text.format(CELLS * cell, number)


FULL = "torch.full(({},), {}, **INT32)"
FILLS = (
    FULL,
    "torch.empty({}, **INT32).fill_({})",
    "torch.full(({},), {}, dtype=torch.int32).to('npu', non_blocking=True)",
    "torch.full(({},), {}, dtype=torch.int32, pin_memory=True).to('npu', non_blocking=True)",
)


def new(model, stream, name, cell, number, way, pool):
    return model.new(stream, name, cell, lambda target: Op(target, number), full(FILLS[way], cell, number), pool)


def new_after_refusal(model, stream, name, cell, number):
    """The device refuses the first allocation, so that the cache is emptied before the second."""
    *waits, line = model.new(stream, name, cell, lambda target: Op(target, number), full(FULL, cell, number))
    return [*waits, 'control("faults malloc:1")', line, 'control("faults off")']


def result(model, stream, name, sources, number, pool):
    """New memory with a copy, or with the sum of tensors or of a tensor and a number."""
    tensors = [model.tensor(source) for source in sources]
    if {tensor.shape[0] for tensor in tensors} != {CELLS} or len({tensor.shape for tensor in tensors}) > 1:
        raise Impossible("shapes")
    text = result_text(sources, number)
    return model.new(stream, name, tensors[0].memory.cell, lambda target: Op(target, number, *tensors), text, pool)


def result_text(sources, number):
    if len(sources) == 2:
        return " + ".join(sources)
    if number is None:
        return f"{sources[0]}.clone()"
    return f"({sources[0]} + {number - 1}) + 1" if number % 2 else f"{sources[0]} + {number}"


def change(model, stream, name, source, number, way):
    target = model.tensor(name)
    other = model.tensor(source) if way in ("copy", "add") else None
    if other is not None and (other.shape != target.shape or other.memory is target.memory):
        raise Impossible("shapes")
    op, text = {
        "fill": lambda: (Op(target, number), f"{name}.fill_({number})"),
        "add number": lambda: (Op(target, number, target), f"{name}.add_({number})"),
        "copy": lambda: (Op(target, None, other), f"{name}.copy_({source})"),
        "add": lambda: (Op(target, None, target, other), f"{name}.add_({source})"),
    }[way]()
    return model.write(stream, op, text)


def sleep(model, stream, microseconds):
    model.check_stream(stream)
    model.order.launch(stream)
    return [f"with on(s{stream}): torch.npu._sleep({microseconds * 1000})"]


def record(model, stream, event):
    model.check_stream(stream)
    if event is not None and event not in model.order.own_events(stream):
        event = None
    return model.order.record(stream, event)[0]


def query(model, stream):
    model.check_stream(stream)
    return [f"s{stream}.query()"]


def synchronize(model, stream):
    if stream is None:
        return model.order.wait_for_device()
    model.check_stream(stream)
    return model.order.wait_for_stream(stream)


def empty_cache(model):
    return ["torch.npu.empty_cache()"]


def together(model, threads, captures):
    """Runs lists of steps on threads, each with streams of its own: ((streams, steps), ...)."""
    if model.order.in_section:
        raise Impossible("nested")
    lines = model.order.wait_for_device() if captures else []
    model.order.begin_section()
    names = []
    for number, (streams, steps) in enumerate(threads):
        model.order.begin_thread(number, streams)
        names.append(f"work{number}")
        lines += function(names[-1], [line for step in steps for line in lines_of(model, step)])
        model.order.end_thread()
    model.order.end_section()
    return [*lines, f"together({', '.join(names)})"]


def function(name, body):
    changed = sorted(set(re.findall(r"(?:^|: |^    )(\w+) = ", "\n".join(body), re.M)) | _deleted(body))
    head = [f"    global {', '.join(changed)}"] if changed else []
    return [f"def {name}():", *head, *[f"    {line}" for line in body or ["pass"]]]


def _deleted(body):
    return {line.split()[1] for line in body if line.strip().startswith("del ")}


METHODS = [
    "peer",
    "churn",
    "view",
    "delete",
    "record_stream",
    "expect",
    "host_new",
    "host_fill",
    "host_expect",
    "host_delete",
    "copy_host",
    "mem_pool_new",
    "mem_pool_delete",
    "capture",
    "replay",
    "graph_delete",
]
STEPS = {name: getattr(Model, name) for name in METHODS} | {
    step.__name__: step
    for step in (new, new_after_refusal, result, change, sleep, record, query, synchronize, empty_cache, together)
}


def lines_of(model, step):
    """The lines of a step; none if it cannot be part of the program."""
    try:
        model.rng = random.Random(step.salt)
        return STEPS[step.kind](model, *step.args)
    except Impossible:
        return []


def parts(program):
    """Runs the model: for each step its lines and the values of tensors after it. The last step reads all tensors."""
    model, result = Model(program.profile.most_live, program.profile.devices), []
    for step in program.steps:
        result.append((lines_of(model, step), model.values()))
    lines = []
    for name in sorted(model.values(), key=lambda name: int(name[1:])):
        lines += model.expect(name, model.tensors[name].memory.stream)
    for name in sorted(model.hosts):
        lines += lines_of(model, Step("host_expect", (name,), 0))
    result.append((lines, model.values()))
    return result
