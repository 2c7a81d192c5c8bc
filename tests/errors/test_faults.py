"""Every allocation, operator and copy of a training step fails once: one clear exception, no leak, and the next step works."""

import copy
import gc
import re
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_npu import softnpu

pytestmark = pytest.mark.usefixtures("empty_device")


class Network(nn.Module):
    """A wide network's weights do not share segments, so that every part of a step allocates device memory."""

    def __init__(self, wide):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.hidden = nn.Linear(512, 5300 if wide else 16)
        self.head = nn.Linear(self.hidden.out_features, 10)

    def forward(self, images):
        features = F.max_pool2d(F.relu(self.norm(self.conv(images))), 2)
        return self.head(F.dropout(F.gelu(self.hidden(features.flatten(1))), 0.1))


class Step:
    """A training step: weights to the device, forward, backward, optimizer, results to the host."""

    def __init__(self, wide=False):
        torch.manual_seed(0)
        self.network = Network(wide)
        self.images = torch.randn(4, 3, 16, 16)
        self.labels = torch.randint(0, 10, (4,))
        self.part = None
        self.backward_threads = set()

    def __call__(self):
        torch.npu.manual_seed(1)
        self.part = "upload"
        network = copy.deepcopy(self.network).to("npu")
        network.head.bias.register_hook(lambda _: self.backward_threads.add(threading.get_ident()))
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
        images, labels = self.images.to("npu"), self.labels.to("npu")
        self.part = "forward"
        loss = F.cross_entropy(network(images), labels)
        self.part = "backward"
        loss.backward()
        self.part = "optimizer"
        optimizer.step()
        self.part = "result"
        return loss.item(), sum(parameter.sum() for parameter in network.parameters()).item()

    def counts(self):
        torch.npu.empty_cache()
        with softnpu.faults("count"):
            self()
            return softnpu.fault_counts()


def failure_of(step):
    """Type and text of the exception of the step. The exception object would keep the step's tensors alive."""
    try:
        step()
    except Exception as error:
        return type(error), str(error)
    return None


def used():
    """Allocated memory, and reserved memory after empty_cache()."""
    kinds = ("allocation", "allocated_bytes", "active", "active_bytes", "requested_bytes")
    before = torch.npu.memory_stats()
    torch.npu.empty_cache()
    after = torch.npu.memory_stats()
    held = {name: value for name, value in before.items() if name.endswith(".current") and name.split(".")[0] in kinds}
    rest = {name: value for name, value in after.items() if name.endswith(".current")}
    return held, rest


class Walk:
    """Makes one call after another fail. Checks each time that the step leaves no memory behind and that the next step works."""

    def __init__(self, wide=False):
        self.step = Step(wide)
        self.expected = self.step()
        gc.collect()
        self.counts = self.step.counts()
        self.start = used()

    def __call__(self, kind, suffix=""):
        """Yields number, type, text and part of the step for each failure."""
        for number in range(1, self.counts[kind] + 1):
            rule = f"{kind}:{number}{suffix}"
            with softnpu.faults(rule):
                failed = failure_of(self.step)
                assert softnpu.fault_counts()["injected"] >= 1, rule
            part = self.step.part
            torch.npu.synchronize()  # nothing is reported twice
            assert used() == self.start, f"{rule} leaks"
            yield number, failed, part
            assert self.step() == self.expected, f"the step after {rule}"
            assert used() == self.start, f"the step after {rule} leaks"


@pytest.fixture(scope="module")
def small():
    return Walk()


@pytest.fixture(scope="module")
def wide():
    return Walk(wide=True)


@pytest.fixture(autouse=True)
def no_faults_afterwards():
    yield
    softnpu.control("faults off")
    torch.npu.synchronize()


def test_walk_over_launches(small):
    names = []
    for number, failed, _part in small("launch"):
        kind, text = failed
        assert kind is RuntimeError
        assert "ACL_ERROR_RT_AICORE_EXCEPTION (507015)" in text
        names += re.findall(rf"task '(aclnn\w+)' failed: a fault was injected by the rule 'launch:{number}'", text)
        assert len(names) == number, text
    assert {"aclnnConvolution", "aclnnRelu", "aclnnMm", "aclnnConvolutionBackward", "aclnnReduceSum"} < set(names)
    assert any(name.startswith("aclnnForeach") for name in names)
    assert small.step.backward_threads and threading.get_ident() not in small.step.backward_threads


def test_walk_over_copies(small):
    for number, failed, _part in small("copy", ":507900"):
        kind, text = failed
        assert kind is RuntimeError
        assert re.search(rf"aclrt\w+ failed with .*\(507900\): .* injected by the rule 'copy:{number}:507900'", text), text


def test_walk_over_allocations_that_fail_for_good(wide):
    parts = set()
    for number, failed, part in wide("malloc", "+"):
        kind, text = failed
        assert kind is torch.OutOfMemoryError
        assert re.match(r"NPU out of memory\. Tried to allocate .* \(NPU 0; .* total capacity; ", text)
        assert f"a fault was injected by the rule 'malloc:{number}+'" in text
        parts.add(part)
    assert parts == {"upload", "backward", "optimizer"}, "some parts of the step ask the device for no memory"


def test_walk_over_allocations_that_fail_once(wide):
    """The allocator empties its cache and tries again; the step succeeds."""
    retries = torch.npu.memory_stats()["num_alloc_retries"]
    for number, failed, _part in wide("malloc"):
        assert failed is None
        assert torch.npu.memory_stats()["num_alloc_retries"] == retries + number
    assert number == wide.counts["malloc"] > 5


@pytest.mark.parametrize(
    "setting",
    [
        "SOFTNPU_LAUNCH=queue",
        pytest.param("SOFTNPU_LAUNCH=sync", marks=pytest.mark.full),
        pytest.param("ASCEND_LAUNCH_BLOCKING=1", marks=pytest.mark.full),
        pytest.param("TORCH_NPU_DEBUG=1", marks=pytest.mark.full),
    ],
)
def test_the_walks_with_other_ways_to_launch(python, setting):
    program = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    name, value = setting.split("=")
    done = python(program, "-q", "-p", "no:cacheprovider", "-k", "test_walk", __file__, **{name: value})
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "4 passed" in done.stdout


@pytest.mark.full
def test_a_failure_of_the_backward_pass_is_raised_by_backward(python):
    """An exception that left the autograd thread would end the process or hang it."""
    done = python(
        """
        import torch
        from torch_npu import softnpu
        x = torch.ones(3, device="npu", requires_grad=True)
        y = (x * x).sum()
        torch.npu.synchronize()
        with softnpu.faults("launch:1"):
            try:
                y.backward()
            except RuntimeError as error:
                print("backward:", str(error).splitlines()[0])
        x.grad = None
        (x * x).sum().backward()
        print(x.grad.tolist())
        """,
        ASCEND_LAUNCH_BLOCKING="1",
    )
    first, second = done.stdout.splitlines()
    assert re.match(r"backward: aclrtSynchronizeStream\w* failed .* task 'aclnn\w+' failed: a fault was", first), done.stderr
    assert second == "[2.0, 2.0, 2.0]"


def test_delays_change_no_result(small):
    with softnpu.faults("delay:every 5:1ms"):
        assert small.step() == small.expected
        assert softnpu.fault_counts()["delayed"] == small.counts["task"] // 5


def test_pinned_memory_can_run_out():
    size = 3 << 20  # no other test leaves a block of this size in the cache
    with softnpu.faults("hostmalloc:1"), pytest.raises(torch.OutOfMemoryError, match=r"the host has no .* 'hostmalloc:1'"):
        torch.empty(size, pin_memory=True)
    assert torch.empty(size, pin_memory=True).is_pinned()


def test_work_that_waits_for_a_failed_stream_reports_the_failure():
    batch = torch.ones(300, 300).pin_memory()
    loader = torch.npu.Stream()
    with softnpu.faults("copy:1"):
        with torch.npu.stream(loader):
            loaded = batch.to("npu", non_blocking=True)
        torch.npu.current_stream().wait_stream(loader)
        total = loaded.sum()
        with pytest.raises(RuntimeError, match="task 'aclrtMemcpyAsync' failed: a fault was injected"):
            total.item()
    with pytest.raises(RuntimeError, match="task 'aclrtMemcpyAsync' failed"):
        loader.synchronize()
    assert batch.to("npu").sum().item() == 90000


def test_a_failure_reported_by_empty_cache_leaks_no_memory():
    gc.collect()
    start = used()
    x = torch.ones(64, device="npu")
    torch.npu.synchronize()
    with softnpu.faults("launch:1"):
        y = x + 1
        del x, y
        with pytest.raises(RuntimeError, match="task 'aclnnAdd"):
            torch.npu.empty_cache()
    assert used() == start


@pytest.mark.parametrize("rules", ["malloc", "malloc:0", "launch:1:x", "delay:1:5", "nonsense:1", "malloc:1,off"])
def test_a_bad_rule_is_named(rules):
    with pytest.raises(RuntimeError, match="is not a fault rule: a rule is"), softnpu.faults(rules):
        pass
    assert (torch.ones(2, device="npu") + 1).tolist() == [2, 2]


def test_faults_end_with_their_with_block():
    with pytest.raises(KeyError), softnpu.faults("launch:1+"):
        raise KeyError
    assert (torch.ones(2, device="npu") + 1).tolist() == [2, 2]
    assert softnpu.fault_counts()["launch"] == 0
