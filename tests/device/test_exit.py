"""A process ends at once, with the right status and without a crash, in every way to end it."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

BEGIN = """
import atexit, os, signal, sys, threading
import torch

def pend(streams=3, operators=20):
    "Leaves work pending on several streams."
    x = torch.ones(256, 1024, device="npu")
    results = []
    for _ in range(streams):
        with torch.npu.stream(torch.npu.Stream()):
            for _ in range(operators):
                y = torch.sin(x) + x
            results.append(y)
    return results

def train(steps=2):
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to("npu")
    for _ in range(steps):
        net.zero_grad()
        net(torch.ones(4, 8, device="npu")).pow(2).mean().backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 0.1 * parameter.grad
    return net
"""

# Name -> (status, program).
PROGRAMS = {
    "pending work": (0, "results = pend()"),
    "pending work in one long operator": (0, "x = torch.ones(1024, 1024, device='npu'); y = x @ x"),
    "after training": (0, "net = train()"),
    "an exception": (1, "results = pend(); raise ValueError('planned')"),
    "an exception in backward": (
        1,
        """
        class Fails(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()
            @staticmethod
            def backward(ctx, grad):
                raise ValueError("planned")
        Fails.apply(torch.ones(3, device="npu", requires_grad=True)).sum().backward()
        """,
    ),
    "threads launch": (
        0,
        """
        def work():
            with torch.npu.stream(torch.npu.Stream()):
                x = torch.ones(64, 64, device="npu")
                for _ in range(50):
                    x = (x @ x).clamp(0, 1)
                assert x.sum().item() == 4096
        for _ in range(4):
            threading.Thread(target=work).start()
        """,
    ),
    "daemon threads launch": (
        0,
        """
        started = threading.Barrier(4)
        def work(size):
            x = torch.ones(size, size, device="npu")
            started.wait()
            while True:
                (x @ x).sum().item()
        for size in (16, 64, 512):
            threading.Thread(target=work, args=(size,), daemon=True).start()
        started.wait()
        """,
    ),
    "daemon threads wait": (
        0,
        """
        x = torch.ones(1024, 1024, device="npu")
        def work():
            while True:
                torch.npu.synchronize()
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        for _ in range(3):
            x = x @ x
        """,
    ),
    "daemon threads train": (
        0,
        """
        started = threading.Barrier(3)
        def work():
            train()
            started.wait()
            while True:
                train()
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        started.wait()
        """,
    ),
    "os._exit": (3, "results = pend(); os._exit(3)"),
    "os._exit while threads launch": (
        3,
        """
        def work():
            x = torch.ones(64, 64, device="npu")
            while True:
                x = (x @ x).clamp(0, 1)
        for _ in range(2):
            threading.Thread(target=work).start()
        results = pend()
        os._exit(3)
        """,
    ),
    "a forked child of a process that used the device": (
        0,
        """
        results, net = pend(), train()
        event = torch.npu.Event()
        event.record()
        child = os.fork()
        if child == 0:
            print("only this")
            sys.exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        assert torch.ones(3, device="npu").sum().item() == 3
        """,
    ),
    "a forked child that trains": (
        0,
        """
        child = os.fork()
        if child == 0:
            net = train()
            sys.exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        assert not torch.npu.is_initialized()
        """,
    ),
    "objects alive": (
        0,
        """
        class Keeper:
            def __init__(self, **things):
                self.__dict__.update(things)
                self.me = self
            def __del__(self):
                (self.x + 1).sum()
                self.event.record()
        def things():
            event = torch.npu.Event(enable_timing=True)
            event.record()
            return {
                "x": torch.ones(1000, device="npu"),
                "stream": torch.npu.Stream(),
                "event": event,
                "generator": torch.Generator(device="npu"),
                "pinned": torch.ones(1000).pin_memory(),
            }
        globals().update(things())
        keeper, cycle = Keeper(**things()), [Keeper(**things())]
        cycle.append(cycle)
        torch.kept_until_the_end = Keeper(**things())
        atexit.register(lambda: assert_works(keeper))
        def assert_works(keeper):
            assert (keeper.x + 1).sum().item() == 2000
            pend()
        results = pend()
        """,
    ),
    "sys.exit in a thread": (
        0,
        """
        def work():
            results = pend()
            sys.exit(9)
        for _ in range(3):
            threading.Thread(target=work).start()
        """,
    ),
    "SIGTERM": (-15, "results = pend(); os.kill(os.getpid(), signal.SIGTERM); threading.Event().wait()"),
    "an unhandled Ctrl-C": (-2, "results = pend(); os.kill(os.getpid(), signal.SIGINT); threading.Event().wait()"),
    "workers of a DataLoader": (
        0,
        """
        data = torch.utils.data.TensorDataset(torch.arange(64.0))
        loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, persistent_workers=True)
        batches = iter(loader)
        x = torch.zeros(4, device="npu")
        for _ in range(3):
            x += next(batches)[0].to("npu")
        """,
    ),
    "workers of a DataLoader and pinned memory": (
        0,
        """
        data = torch.utils.data.TensorDataset(torch.arange(64.0))
        loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, pin_memory=True)
        x = torch.zeros(4, device="npu")
        for index, batch in enumerate(loader):
            x += batch[0].to("npu", non_blocking=True)
            if index == 3:
                break
        """,
    ),
    "a failed operator without a later call": (  # see test_exit_report.py
        1,
        """
        y = torch.nn.functional.nll_loss(torch.ones(1, 4, device="npu"), torch.tensor([9], device="npu"))
        """,
    ),
}
MODES = [(name, "hybrid") for name in PROGRAMS] + [
    (name, "queue")
    for name in (
        "pending work",
        "after training",
        "an exception",
        "threads launch",
        "daemon threads launch",
        "os._exit while threads launch",
        "objects alive",
        "SIGTERM",
    )
]


class RepeatProgram:
    """The process of repeat_program.py."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("repeat_program.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tempfile.gettempdir(),
        )

    def run(self, program, status, runs, **environment):
        request = {"program": program, "status": status, "runs": runs, "at_once": 2, "limit": 90, "environment": environment}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture(scope="module")
def repeat():
    server = RepeatProgram()
    yield server
    server.close()


def check(repeat, name, mode, runs):
    status, program = PROGRAMS[name]
    program = textwrap.dedent(BEGIN) + textwrap.dedent(program)
    answer = repeat.run(program, status, runs, SOFTNPU_LAUNCH=mode)
    for failure in answer["failures"]:
        end = "did not end" if failure["late"] else f"ended with {failure['status']} instead of {status}"
        print(f"run {failure['run']} of {runs} {end}:\n{failure['output']}\n")
    assert not answer["failures"], f"SOFTNPU_LAUNCH={mode}\n{program}"
    assert answer["runs"] == runs


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_a_process_ends(repeat, name, mode):
    check(repeat, name, mode, 3)


@pytest.mark.full
@pytest.mark.parametrize(("name", "mode"), MODES)
def test_a_process_ends_every_time(repeat, name, mode):
    check(repeat, name, mode, int(os.environ.get("TORCH_NPU_EXIT_RUNS", "50")))
