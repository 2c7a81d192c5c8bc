"""The exception of a failed operator names the operator, its device and stream, and its launching line, and is not cut off."""

import itertools
import json
import re
from pathlib import Path

import pytest
import torch
from torch_npu import softnpu

ROOT = Path(__file__).resolve().parents[2]

# Operators that call aclnn functions with one-byte parameters and with strings.
CALLS = {
    "mm": "a @ a",
    "addmm": "torch.addmm(a, a, a)",
    "bmm": "torch.bmm(b, b)",
    "baddbmm": "torch.baddbmm(b, b, b)",
    "addbmm": "torch.addbmm(a, b, b)",
    "addmv": "torch.addmv(a[0], a, a[0])",
    "convolution": "torch.nn.functional.conv2d(c, c)",
    "convolution_backward": "torch.nn.functional.conv2d(c.clone().requires_grad_(), c).sum().backward()",
    "avg_pool2d": "torch.nn.functional.avg_pool2d(c, 2)",
    "avg_pool2d_backward": "torch.nn.functional.avg_pool2d(c.clone().requires_grad_(), 2).sum().backward()",
    "gelu_backward": "torch.nn.functional.gelu(a.clone().requires_grad_(), approximate='tanh').sum().backward()",
    "lstsq": "torch.linalg.lstsq(a + torch.eye(3, device='npu'), a)",
    "index_reduce": "a.index_reduce(0, torch.arange(3, device='npu'), a, 'prod')",
    "assert": "torch._assert_async(a[0, 0], 'fine')",
}

PROGRAM = """
import json, sys, torch
from torch_npu import softnpu
a, b, c = torch.ones(3, 3, device="npu"), torch.ones(2, 3, 3, device="npu"), torch.ones(1, 1, 4, 4, device="npu")
texts = []
def run(call):
    exec(call)
    torch.npu.synchronize()
for call in json.loads(sys.argv[1]):
    run(call)
    with softnpu.faults("count"):
        run(call)
        launches = softnpu.fault_counts()["launch"]
    for number in range(1, launches + 1):
        with softnpu.faults(f"launch:{number}"):
            try:
                run(call)
            except RuntimeError as error:
                texts.append(str(error))
print(json.dumps(texts))
"""


def functions_with(parameter):
    """The aclnn functions that have such a parameter and are called by the plugin."""
    table = (ROOT / "softnpu/ops/aclnn.yaml").read_text()
    callers = "".join(path.read_text() for path in (ROOT / "csrc/aten").glob("**/*") if path.suffix in (".yaml", ".cpp"))
    names = re.findall(rf"^(aclnn\w+)\([^)]*\b{parameter} \w+", table, re.MULTILINE)
    return {name for name in names if re.search(rf"\b{name}\(", callers)}


@pytest.mark.parametrize("switch", ["TORCH_NPU_DEBUG", "ASCEND_LAUNCH_BLOCKING"])
def test_messages_of_numbers_of_one_byte_and_strings_are_whole(child, switch):
    done = child(PROGRAM, json.dumps(list(CALLS.values())), SOFTNPU_LAUNCH="queue", **{switch: "1"})
    assert done.returncode == 0, done.stderr
    named = {}
    for text in json.loads(done.stdout):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text), repr(text)
        facts = r"task '(\w+)' failed: a fault was injected by the rule '\S+' \(device 0, stream \d+, task \d+\)"
        name = re.search(facts, text)[1]
        if not name.startswith("aclnn"):
            continue
        end = rf"\nThe operator was {name} with (.+), called from (?:<string>:\d+ in .+|no Python code \(.*\))\.$"
        assert re.search(end, text), text
        named[name] = re.search(end, text)[1]
    assert functions_with("int8"), "the tables are read wrongly"
    missing = (functions_with("int8") | functions_with("str")) - set(named)
    assert not missing, f"no message of {missing} was looked at: add an operator to CALLS that calls it"
    assert named["aclnnMm"] == "Float[3, 3], Float[3, 3], Float[3, 3], 0"
    assert re.search(r", false, \[0, 0\], 1, Float\[1, 1, 1, 1\], [01]$", named["aclnnConvolution"]), named["aclnnConvolution"]
    assert ', "prod", true, ' in named["aclnnSoftIndexReduce"]


def failed(call):
    with softnpu.faults("launch:1"), pytest.raises(RuntimeError) as caught:
        call()
        torch.npu.synchronize()
    return str(caught.value)


def test_a_message_names_device_stream_task_operator_and_code():
    x = torch.ones(4, device="npu:1")
    with torch.npu.device(1), torch.npu.stream(torch.npu.Stream(1)):
        text = failed(lambda: x + 1)
    assert re.search(
        r"ACL_ERROR_RT_AICORE_EXCEPTION \(507015\): task 'aclnnAdds?' failed: .* \(device 1, stream \d+, task \d+", text
    )


def test_the_line_that_launched_a_small_operator_is_named_without_a_switch():
    x = torch.ones(4, device="npu")
    torch.npu.synchronize()

    def launches():
        return x + 1

    text = failed(launches)
    if "launched from" not in text:  # SOFTNPU_LAUNCH=queue: another thread runs it
        assert "Set TORCH_NPU_DEBUG=1" in text
        return
    line = launches.__code__.co_firstlineno + 1
    assert re.search(rf"task \d+, launched from {re.escape(__file__)}:{line} in launches\)$", text), text


def test_a_queued_operator_says_which_switch_names_its_line(child):
    done = child(
        """
        import torch
        from torch_npu import softnpu
        x = torch.ones(4, device="npu")
        with softnpu.faults("launch:1"):
            x + 1
            try:
                torch.npu.synchronize()
            except RuntimeError as error:
                print(error)
        """,
        SOFTNPU_LAUNCH="queue",
    )
    assert "launched from" not in done.stdout
    assert done.stdout.rstrip().endswith("or ASCEND_LAUNCH_BLOCKING=1 to make that line raise the error."), (
        done.stdout + done.stderr
    )


def test_streams_that_wait_in_a_row_tell_the_first_failure():
    streams = [torch.npu.Stream() for _ in range(5)]
    x = torch.ones(100_000, device="npu")  # large enough to be queued
    torch.npu.synchronize()
    with softnpu.faults("launch:1"), torch.npu.stream(streams[0]):
        torch.sin(x)
    for before, after in itertools.pairwise(streams):
        after.wait_stream(before)
    with pytest.raises(RuntimeError) as caught:
        streams[-1].synchronize()
    text = str(caught.value).splitlines()[0]
    assert text.count("the stream that was waited for failed") == 1, text
    assert text.count("(device 0, stream ") == 2, text
    assert "task 'aclnnSin' failed: a fault was injected by the rule 'launch:1' (device 0, stream " in text
    for stream in streams[:-1]:
        with pytest.raises(RuntimeError):
            stream.synchronize()


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\u20ac", "\U0001f600"])
def test_a_long_message_keeps_its_end_and_its_characters(letter):
    wrong = torch.zeros((), device="npu")
    for length in range(280, 300):
        torch._assert_async(wrong, letter * length + " is the reason")
        with pytest.raises(RuntimeError, match=f"{letter} is the reason") as caught:
            torch.npu.synchronize()
        assert "task 'aclnnSoftAssert' failed: aclnnSoftAssert(" in str(caught.value)


def test_a_long_list_of_arguments_does_not_hide_the_reason():
    x = torch.ones(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, device="npu")
    index = torch.full_like(x, 7, dtype=torch.int64)
    with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
        x.gather(0, index)
        torch.npu.synchronize()


def test_bytes_that_are_no_text_do_not_break_the_exception():
    """A lone UTF-16 surrogate cannot be encoded in UTF-8; a zero byte would end the message."""
    wrong = torch.zeros((), device="npu")
    torch._assert_async(wrong, "before\x01\x7f\x1b after")
    with pytest.raises(RuntimeError, match=r"before\\x01\\x7f\\x1b after"):
        torch.npu.synchronize()


def wait_for_an_event():
    event = torch.npu.Event()
    event.record()
    event.synchronize()


@pytest.mark.parametrize("wait", [torch.npu.synchronize, wait_for_an_event])
def test_a_wait_that_a_capture_refuses_does_not_speak_of_an_operator(wait):
    graph = torch.npu.NPUGraph()
    with torch.npu.stream(torch.npu.Stream()):
        graph.capture_begin()
        with pytest.raises(RuntimeError, match="captured") as caught:
            wait()
        with pytest.raises(RuntimeError, match="invalidated by an earlier call"):
            graph.capture_end()
    assert "launched earlier" not in str(caught.value)
    assert "TORCH_NPU_DEBUG" not in str(caught.value)


def test_a_replay_that_fails_does_not_wait_for_a_thread_that_seeds(child):
    """The replay asks Python for the line. A thread that seeds holds Python's global lock while it waits for the generator."""
    done = child(
        """
        import sys, threading, torch
        from torch_npu import softnpu
        sys.setswitchinterval(1e-6)
        graph, x = torch.npu.NPUGraph(), torch.zeros(4, device="npu")
        with torch.npu.graph(graph):
            x.uniform_()
        torch.npu.synchronize()
        over = threading.Event()
        def seed():
            while not over.is_set():
                torch.npu.manual_seed(1)
        thread = threading.Thread(target=seed)
        thread.start()
        failures = 0
        with softnpu.faults("copy:1+"):
            for _ in range(300):
                graph.replay()
                try:
                    torch.npu.synchronize()
                except RuntimeError:
                    failures += 1
        over.set()
        thread.join()
        print(failures)
        """
    )
    assert done.stdout == "300\n", done.stdout + done.stderr
