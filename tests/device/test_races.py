"""The software device finds unordered use of memory by two streams, and can run streams in any order (docs/checks.md)."""

import json
import re

import pytest

# Programs that use streams correctly and wrongly. Prints the reports of each as JSON.
SCENARIOS = """
import json
import torch
import torch.nn.functional as F
import torch_npu

DEVICE = "npu"
side = torch.npu.Stream()
main = torch.npu.current_stream()


def prefetch(waits):
    source = [torch.randn(256, 256).pin_memory() for _ in range(4)]
    weight = torch.randn(256, 256, device=DEVICE)
    torch.npu.synchronize()
    for batch in source:
        with torch.npu.stream(side):
            loaded = batch.to(DEVICE, non_blocking=True)  # load
        if waits:
            main.wait_stream(side)
            loaded.record_stream(main)
        out = loaded @ weight  # use
    return out


def prefetch_in_order():
    prefetch(waits=True)


def prefetch_without_wait():
    prefetch(waits=False)


def reduce_buckets(joins):
    \"\"\"Gradients are summed on a communication stream while the backward pass goes on, as distributed training does.\"\"\"
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]).to(DEVICE)
    flat = {p: torch.zeros_like(p).flatten() for p in model.parameters()}

    def reduce(p):
        ready = torch.npu.current_stream().record_event()
        side.wait_event(ready)
        with torch.npu.stream(side):
            flat[p].copy_(p.grad.flatten())
            flat[p].div_(2)
            p.grad.copy_(flat[p].view_as(p))

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(reduce)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        model(torch.randn(16, 64, device=DEVICE)).square().mean().backward()
        if joins:
            torch.npu.current_stream().wait_stream(side)
        optimizer.step()
        side.wait_stream(torch.npu.current_stream())


def buckets_joined():
    reduce_buckets(joins=True)


def buckets_not_joined():
    reduce_buckets(joins=False)


def use_on_two_streams(records):
    x = torch.ones(1 << 20, device=DEVICE)
    side.wait_stream(main)
    with torch.npu.stream(side):
        y = x * 2
    if records:
        x.record_stream(side)
    del x
    for _ in range(3):  # the allocator hands the memory out again
        x = torch.zeros(1 << 20, device=DEVICE)
        x.add_(1)
    main.wait_stream(side)
    return y


def recorded_use():
    use_on_two_streams(records=True)


def use_not_recorded():
    use_on_two_streams(records=False)


def columns():
    matrix = torch.zeros(64, 64, device=DEVICE)
    side.wait_stream(main)
    matrix[:, :32].add_(1)
    with torch.npu.stream(side):
        matrix[:, 32:].add_(1)
    main.wait_stream(side)


def train():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
    ).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(20):
        loss = F.cross_entropy(model(torch.randn(8, 3, 8, 8, device=DEVICE)), torch.randint(10, (8,), device=DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            loss.item()


def copy_back_without_synchronising():
    x = torch.ones(1 << 16, device=DEVICE)
    target = torch.empty(1 << 16).pin_memory()
    target.copy_(x, non_blocking=True)
    with torch.npu.stream(side):
        x.mul_(3)


found = {}
for scenario in (prefetch_in_order, prefetch_without_wait, buckets_joined, buckets_not_joined, recorded_use,
                 use_not_recorded, columns, train, copy_back_without_synchronising):
    torch.npu.synchronize()
    torch_npu.softnpu.control("races")
    scenario()
    found[scenario.__name__] = torch_npu.softnpu.control("races").splitlines()
torch.npu.synchronize()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(child):
    """The reports of each scenario."""
    done = child(SCENARIOS, SOFTNPU_RACE_CHECK="report", TORCH_NPU_DEBUG="1")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("scenario", ["prefetch_in_order", "buckets_joined", "recorded_use", "columns", "train"])
def test_a_program_that_orders_its_streams_is_not_reported(found, scenario):
    assert found[scenario] == []


def line_of(words):
    return 1 + next(n for n, line in enumerate(SCENARIOS.splitlines()) if words in line)


def test_a_missing_wait_is_found_with_both_operators_and_lines(found):
    report, *_ = found["prefetch_without_wait"]
    assert re.search(rf"aclnn\w+ on stream \d+ \(task \d+, <string>:{line_of('# use')} in prefetch\) reads \d+ bytes", report)
    assert re.search(rf"aclrtMemcpyAsync on stream \d+ \(task \d+, <string>:{line_of('# load')} in prefetch\) writes", report)


def test_gradients_that_are_used_before_they_are_reduced_are_found(found):
    reports = found["buckets_not_joined"]
    assert reports
    assert any("in reduce" in report and "optim" in report for report in reports), reports


def test_memory_that_is_used_on_two_streams_and_not_recorded_is_found(found):
    report, *_ = found["use_not_recorded"]
    assert "in use_on_two_streams" in report
    assert re.search(r"aclnnMuls?\b.* reads, and nothing orders the two; allocation 0x\w+ of \d+ bytes on device 0", report)


def test_a_write_during_a_copy_is_found(found):
    reports = found["copy_back_without_synchronising"]
    assert any("aclnnMuls" in report and "aclrtMemcpyAsync" in report for report in reports), reports


def test_with_fail_the_line_that_makes_the_race_raises(child):
    program = """
        import torch
        x = torch.ones(1000, device="npu")
        with torch.npu.stream(torch.npu.Stream()):
            try:
                x.add_(1)
            except RuntimeError as error:
                print(error)
        torch.npu.synchronize()
        print(x.sum().item())
    """
    done = child(program, SOFTNPU_RACE_CHECK="fail")
    assert done.returncode == 0, done.stderr
    message, total = done.stdout.rsplit("\n", 2)[:2]
    assert "aclnnAdds failed" in message and "race: aclnnAdds on stream" in message
    assert total == "1000.0"


# The program forks before it uses the device; each child has another seed.
SEEDS = """
import json, os, sys
import torch
import torch_npu

torch.set_num_threads(1)

def pipeline(waits):
    torch.manual_seed(0)
    side = torch.npu.Stream()
    x = torch.ones(64, device="npu")
    for step in range(6):
        if waits:
            side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            x.add_(step)
        if waits:
            torch.npu.current_stream().wait_stream(side)
        x.mul_(2)
    torch.npu.synchronize()
    return x.sum().item()

def train():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to("npu")
    source = torch.randn(8, 16, 16).pin_memory()
    side = torch.npu.Stream()
    for batch in source:
        with torch.npu.stream(side):
            batch = batch.to("npu", non_blocking=True)
        torch.npu.current_stream().wait_stream(side)
        batch.record_stream(torch.npu.current_stream())
        loss = model(batch).square().mean()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
                p.grad = None
    return loss.item()

results = []
for seed in sys.argv[1:]:
    read, write = os.pipe()
    if os.fork() == 0:
        os.environ["SOFTNPU_SHUFFLE_SEED"] = seed
        os.write(write, json.dumps([pipeline(True), pipeline(False), train()]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        results.append(json.load(pipe))
print(json.dumps(results))
"""


def test_a_seed_changes_the_results_of_races_only(python):
    done = python(SEEDS, *range(20), *range(20), SOFTNPU_LAUNCH="shuffle")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    ordered, racing, trained = (set(column) for column in zip(*results, strict=True))
    assert len(ordered) == len(trained) == 1
    assert len(racing) > 1
    assert results[:20] == results[20:], "a seed gives the same order every time"
