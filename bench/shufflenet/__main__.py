"""The stages of the tuning of ShuffleNet V2, as ratios to the first stage in the same run: a training step and inference.

    scripts/bench shufflenet                            every stage, 1 thread
    scripts/bench shufflenet --stage O1 O2              only these
    scripts/bench shufflenet --clock cpu                time of all threads instead of elapsed time: for a loaded machine
    scripts/bench shufflenet --json results.json        also writes the numbers there

Each stage runs in a process of its own with the first stage, in blocks in the order A B B A. The ratio is that of the best rounds
of both. The columns after the ratios count, for a training step, launches, copies from the host, and what Traffic of
examples/shufflenet/traffic.py counts. The exit status is 1 if the last float32 stage misses its bar.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import time

import torch

from bench.measure import Side, interleave, save
from examples.shufflenet.stages import FIRST, LAST_FLOAT32, STAGES, Workload
from examples.shufflenet.traffic import Traffic

BAR = 0.7
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
COUNTS = ("launches", "uploads", "copies", "strided", "mixed")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", nargs="*", choices=list(STAGES), default=list(STAGES))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=64, help="height and width of the images")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--json")
    parser.add_argument("--one", choices=list(STAGES), help=argparse.SUPPRESS)  # the process of one stage
    return parser.parse_args()


def workload(name, options):
    images = torch.randn(options.batch, 3, options.size, options.size, generator=torch.Generator().manual_seed(0))
    return Workload(STAGES[name], images, torch.arange(options.batch) % 10)


def without_casts(job, amp):
    """The job in float32: O1 of apex casts in the whole process."""

    def run():
        with amp.disable_casts() if amp else contextlib.nullcontext():
            return job()

    return run


def count(work):
    import torch_npu

    work.step()
    with torch_npu.softnpu.faults("count"), Traffic() as traffic:
        work.step()
        launches = torch_npu.softnpu.fault_counts()["launch"]
    return dict(zip(COUNTS, (launches, traffic.uploads, traffic.copies, traffic.strided, traffic.mixed), strict=True))


def measure(name, options):
    """Times in milliseconds, ratios and counts of one stage."""
    torch.set_num_threads(options.threads)
    first, other = workload(FIRST, options), workload(name, options)
    result = {"stage": name, **count(other)}
    for what, job in (("step", Workload.step), ("inference", Workload.infer)):
        base, tuned = (without_casts(lambda job=job: job(first), other.amp), lambda job=job: job(other))
        sides = Side(base, torch.npu.synchronize), Side(tuned, torch.npu.synchronize)
        pairs = interleave(*sides, options.rounds, warm_up=2, clock=CLOCKS[options.clock])
        base_ms, tuned_ms = min(one for _, one in pairs) * 1e3, min(one for one, _ in pairs) * 1e3
        result |= {f"{what}_ms": tuned_ms, f"{what}_ratio": tuned_ms / base_ms}
    return result


def in_own_process(name, options):
    command = [sys.executable, "-m", "bench.shufflenet", "--one", name, "--clock", options.clock]
    for option in ("batch", "size", "threads", "rounds"):
        command += [f"--{option}", str(getattr(options, option))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"bench.shufflenet: the stage {name} failed with status {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    options = parse()
    if options.one:
        import torch_npu  # noqa: F401

        print(json.dumps(measure(options.one, options)))
        return
    header = f"{'stage':16} {'step ms':>8} {'ratio':>6} {'inference ms':>12} {'ratio':>6} "
    print(header + " ".join(f"{name:>8}" for name in COUNTS))
    results, missed = [], False
    for name in options.stage:
        entry = in_own_process(name, options)
        results.append(entry)
        line = f"{name:16} {entry['step_ms']:8.2f} {entry['step_ratio']:6.2f} {entry['inference_ms']:12.2f}"
        line += f" {entry['inference_ratio']:6.2f} " + " ".join(f"{entry[key]:8}" for key in COUNTS)
        if name == LAST_FLOAT32:
            over = entry["step_ratio"] > BAR
            missed |= over
            line += f"  bar {BAR}{'  MISSED' if over else ''}"
        print(line, flush=True)
    save(results, options.json)
    sys.exit(missed)


if __name__ == "__main__":
    main()
