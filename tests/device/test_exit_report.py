"""A device failure that no call has reported is printed at exit, and the exit status is not 0."""

import re
import textwrap

import pytest

BEGIN = """
import atexit, multiprocessing, os, signal, sys, threading
import torch
from torch_npu import softnpu

def fail(device=0, rule="launch:1"):
    "Launches an operator that fails."
    with torch.npu.device(device):
        x = torch.ones(4, device="npu")
        torch.npu.synchronize()
        with softnpu.faults(rule):
            torch.sin(x)

def fail_on(stream):
    with torch.npu.stream(stream):
        x = torch.ones(4, device="npu")
        stream.synchronize()
        with softnpu.faults("launch:1"):
            torch.sin(x)

def occupy():
    "Leaves a stream with work that never ends."
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        x = torch.ones(4, device="npu")
        stream.synchronize()
        with softnpu.faults("delay:1:1000s"):
            torch.cos(x)

def in_child(method, function):
    child = multiprocessing.get_context(method).Process(target=function)
    child.start()
    child.join()
    print("status of the child", child.exitcode, flush=True)
"""
PRINTED = "torch_npu: the process ends, and no call has reported this failure of the device:\n"
FACTS = r"task 'aclnn(?:Sin|Mm)' failed: a fault was injected by the rule '\S+' \(device \d, stream \d+, task \d+"

# Name -> (exit status, number of printed failures, program).
PROGRAMS = {
    "the end of the script": (1, 1, "fail()"),
    "sys.exit(0)": (1, 1, "fail(); sys.exit(0)"),
    "sys.exit(3)": (3, 1, "fail(); sys.exit(3)"),
    "sys.exit(256), which is 0 to a shell": (1, 1, "fail(); sys.exit(256)"),
    "a graph that replays for ever": (
        0,
        0,
        """
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            torch.npu._sleep(10**12)
        graph.replay()
        """,
    ),
    "an exception": (1, 1, "fail(); raise ValueError('planned')"),
    "Ctrl-C": (
        -2,
        1,
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)    # background jobs ignore it
        fail()
        while not torch.npu.current_stream().query(): ...           # after Ctrl-C nothing is waited for
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
        """,
    ),
    "os._exit, which skips the report": (0, 0, "fail(); os._exit(0)"),
    "a side stream": (1, 1, "fail_on(torch.npu.Stream())"),
    "a stream of high priority": (1, 1, "fail_on(torch.npu.Stream(priority=-1))"),
    "a stream of a thread that has ended": (
        1,
        1,
        "thread = threading.Thread(target=lambda: fail_on(torch.npu.Stream())); thread.start(); thread.join()",
    ),
    "a stream that a client made": (
        1,
        1,
        """
        import ctypes
        place = ctypes.c_uint64()
        torch_npu = sys.modules["torch_npu"]
        assert torch_npu._C._npurt.npuStreamCreate(ctypes.addressof(place)) == 0
        fail_on(torch.npu.ExternalStream(place.value))
        """,
    ),
    "two devices": (1, 2, "fail(0); fail(1)"),
    "two streams": (1, 2, "fail_on(torch.npu.Stream()); fail_on(torch.npu.Stream())"),
    "a device that is not current": (1, 1, "fail(1); torch.npu.set_device(0)"),
    "streams that waited for the failed one": (
        1,
        1,
        """
        first, second, third = torch.npu.Stream(), torch.npu.Stream(), torch.npu.Stream()
        fail_on(first)
        second.wait_stream(first)
        third.wait_stream(second)
        """,
    ),
    "a failure that was reported": (
        0,
        0,
        """
        fail()
        try:
            torch.npu.synchronize()
        except RuntimeError as error:
            print(error)
        """,
    ),
    "a failure that was raised": (1, 0, "fail(); torch.npu.synchronize()"),
    "a failure that a stream reported which had waited for the failed one": (
        0,
        0,
        """
        first, second = torch.npu.Stream(), torch.npu.Stream()
        fail_on(first)
        second.wait_stream(first)
        try:
            second.synchronize()
        except RuntimeError as error:
            print(error)
        """,
    ),
    "a failure that a function at exit reports": (
        0,
        0,
        """
        @atexit.register
        def report():
            try:
                torch.npu.synchronize()
            except RuntimeError as error:
                print(error)
        fail()
        """,
    ),
    "a failure of a function at exit": (1, 1, "torch.npu.init(); atexit.register(fail)"),
    "a failure when objects are destroyed": (
        1,
        1,
        """
        class Fails:
            def __init__(self):
                self.x = torch.ones(4, device="npu")
            def __del__(self, control=softnpu._C._softnpu_control):
                control("faults launch:1")
                self.x.sin()
        torch.kept_until_the_end = Fails()
        torch.npu.synchronize()
        """,
    ),
    "a replay of a graph": (
        1,
        1,
        """
        graph, x = torch.npu.NPUGraph(), torch.ones(4, device="npu")
        with torch.npu.graph(graph):
            side = torch.npu.Stream()
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                y = torch.sin(x)
            torch.npu.current_stream().wait_stream(side)
            z = y + 1
        torch.npu.synchronize()
        with softnpu.faults("launch:1"):
            graph.replay()
        """,
    ),
    "another stream works for ever": (1, 1, "occupy(); fail_on(torch.npu.Stream())"),
    "a stream works for ever": (0, 0, "occupy()"),
    "a capture is open": (
        1,
        1,
        """
        fail_on(torch.npu.Stream())
        graph, stream = torch.npu.NPUGraph(), torch.npu.Stream()
        torch.npu.set_stream(stream)
        graph.capture_begin(capture_error_mode="relaxed")
        """,
    ),
    "an operator behind pending work": (
        1,
        1,
        """
        x = torch.ones(512, 512, device="npu")
        torch.npu.synchronize()
        with softnpu.faults("launch:20"):
            for _ in range(30):
                x = x @ x
        """,
    ),
    "a child of multiprocessing by fork": (0, 1, "in_child('fork', fail)"),
    "a child of multiprocessing by fork that calls sys.exit(0)": (0, 1, "in_child('fork', lambda: (fail(), sys.exit(0)))"),
    "a child of fork": (
        0,
        1,
        """
        child = os.fork()
        if child == 0:
            fail()
            sys.exit(0)
        print("status of the child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    ),
    "a child of a process with a failure": (
        1,
        1,
        """
        fail()
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """,
    ),
}


def printed(stderr):
    assert stderr.count("torch.npu.synchronize() at the end of the program would raise it.") == (PRINTED in stderr), stderr
    return stderr.count(PRINTED)


@pytest.mark.parametrize("mode", ["hybrid", "queue"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_unreported_failure_is_printed_once(child, name, mode):
    status, failures, program = PROGRAMS[name]
    done = child(textwrap.dedent(BEGIN) + textwrap.dedent(program), SOFTNPU_LAUNCH=mode)
    assert (done.returncode, printed(done.stderr)) == (status, failures), done.stdout + done.stderr
    assert len(re.findall(FACTS, done.stderr)) == failures + ("raised" in name), done.stderr
    if "status of the child" in done.stdout:
        assert done.stdout == "status of the child 1\n", done.stdout + done.stderr
    elif failures == 0 and status == 0:
        assert done.stderr == "", done.stderr


@pytest.mark.parametrize(
    ("end", "status", "traceback"),
    [("sys.exit(4)", 4, ""), ("raise ValueError('planned')", 1, "ValueError: planned"), ("pass", 1, "")],
)
def test_a_failing_child_keeps_its_status_and_traceback(child, end, status, traceback):
    done = child(
        textwrap.dedent(BEGIN)
        + textwrap.dedent(
            f"""
            def work():
                fail()
                {end}
            in_child("fork", work)
            """
        )
    )
    assert done.stdout == f"status of the child {status}\n", done.stdout + done.stderr
    assert printed(done.stderr) == 1, done.stderr
    assert traceback in done.stderr
    assert ("Traceback" in done.stderr) == bool(traceback), done.stderr


def test_a_child_that_was_spawned_reports(python, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(BEGIN + "\nif __name__ == '__main__':\n    in_child('spawn', fail)\n")
    done = python("import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')", program)
    assert done.stdout == "status of the child 1\n", done.stdout + done.stderr
    assert done.returncode == 0
    assert printed(done.stderr) == 1, done.stderr


def test_pytest_ends_with_the_failure_that_a_test_left(python, tmp_path):
    tests = tmp_path / "test_of_a_user.py"
    tests.write_text(BEGIN + "\ndef test_passes():\n    fail_on(torch.npu.Stream())\n")
    done = python("import sys, pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', sys.argv[1]]))", tests)
    assert "1 passed" in done.stdout
    assert (done.returncode, printed(done.stderr)) == (1, 1), done.stdout + done.stderr


def test_the_launching_line_is_named_if_it_is_known(child):
    program = textwrap.dedent(BEGIN) + "fail()\n"
    line = program.splitlines().index("            torch.sin(x)") + 1
    small = child(program, SOFTNPU_LAUNCH="hybrid")
    assert f", launched from <string>:{line} in fail)" in small.stderr, small.stderr
    queued = child(program, SOFTNPU_LAUNCH="queue", TORCH_NPU_DEBUG="1")
    assert f"called from <string>:{line} in fail." in queued.stderr, queued.stderr
    unknown = child(program, SOFTNPU_LAUNCH="queue")
    assert "Set TORCH_NPU_DEBUG=1 to see the Python line" in unknown.stderr, unknown.stderr


def test_ctrl_c_ends_the_wait_at_exit(child):
    """The wait takes longer than the time limit of the child. Another process sends Ctrl-C until the child has ended."""
    done = child(
        textwrap.dedent(BEGIN)
        + textwrap.dedent(
            """
            import time
            from torch_npu.npu import _exit
            _exit._PATIENCE = 3_600_000
            ended, alive = os.pipe()
            parent = os.getpid()
            if os.fork() == 0:
                os.close(alive)
                os.read(ended, 1)                                   # until the other process ends, or sends something
                while os.getppid() == parent:
                    os.kill(parent, signal.SIGINT)
                    time.sleep(0.2)
                os._exit(0)
            occupy()
            fail_on(torch.npu.Stream())
            signal.signal(signal.SIGINT, signal.default_int_handler)
            atexit.register(lambda: os.write(alive, b"!"))          # runs before what torch_npu does at exit
            """
        )
    )
    assert done.returncode in (1, -2), done.stdout + done.stderr


def test_a_late_error_of_a_forked_child_is_printed(child):
    program = """
    def work():
        graph, x = torch.npu.NPUGraph(), torch.ones(4, device="npu")
        with torch.npu.graph(graph):
            y = x.relu()
        with softnpu.faults("launch:1"):
            graph.replay()
        del graph
    in_child("fork", work)
    """
    done = child(textwrap.dedent(BEGIN) + textwrap.dedent(program))
    assert done.stdout == "status of the child 1\n", done.stderr
    assert "task 'aclnnRelu' failed" in done.stderr
