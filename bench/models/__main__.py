"""The cost of networks on npu, as ratios to CPU PyTorch in the same run: training steps, inference and whole loops.

    scripts/bench models                        every case at 1 and 2 threads
    scripts/bench models --case 'GPT training'  the cases whose names begin with it
    scripts/bench models --busy                 beside as many busy processes as there are cores
    scripts/bench models --json results.json    also writes the numbers there

The geometric mean and the worst ratio of the six networks have bars, and so has each other case; the exit status is 1 if one is
missed.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys

import torch
from torch import nn

from bench.measure import Case, compare, save
from bench.models.loops import generate, generate_by_graph, train_from_loader
from bench.models.networks import LanguageLSTM, Transformer, UNet, VisionTransformer, mobilenet_v2, resnet18, resnet50

MEAN_BARS, MEAN_BAR, MEAN_STRETCH = {2: 0.85}, 0.90, 0.80  # a number of threads, and any other number
WORST_BAR, BUSY_BAR = 1.05, 1.00
WORDS = 1000


def _images(batch):
    return torch.rand(batch, 3, 64, 64), torch.arange(batch) % 10


def _masks():
    return torch.rand(2, 3, 64, 64), (torch.rand(2, 64, 64) > 0.5).long()


def _tokens():
    return torch.randint(WORDS, (8, 64)), torch.randint(WORDS, (8, 64))


# Name -> the network, its data, its optimizer.
NETWORKS = {
    "ResNet-18": (resnet18, lambda: _images(8), torch.optim.SGD),
    "MobileNetV2": (mobilenet_v2, lambda: _images(8), torch.optim.SGD),
    "U-Net": (UNet, _masks, torch.optim.Adam),
    "LSTM": (LanguageLSTM, _tokens, torch.optim.Adam),
    "BERT": (lambda: Transformer(causal=False), _tokens, torch.optim.AdamW),
    "GPT": (lambda: Transformer(causal=True), _tokens, torch.optim.AdamW),
}
LARGER = {
    "ResNet-50": (resnet50, lambda: _images(8), torch.optim.SGD),
    "ViT-tiny": (VisionTransformer, lambda: _images(8), torch.optim.AdamW),
}


def _build(name, device):
    network, data, optimizer = (NETWORKS | LARGER)[name]
    torch.manual_seed(0)
    model = network().to(device)
    inputs, targets = (tensor.to(device) for tensor in data())
    return model, inputs, targets, optimizer(model.parameters(), lr=1e-3)


def loss_of(name, output, targets):
    output = output.flatten(0, 1) if name in ("LSTM", "BERT", "GPT") else output
    return nn.functional.cross_entropy(output, targets.view(output.shape[:1] + output.shape[2:]))


def _training(name):
    def make(device):
        model, inputs, targets, optimizer = _build(name, device)

        def step():
            optimizer.zero_grad()
            loss = loss_of(name, model(inputs), targets)
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    return make


def _inference(name):
    def make(device):
        model, inputs, _, _ = _build(name, device)
        model.eval()

        @torch.no_grad()
        def run():
            return model(inputs).sum().item()

        return run

    return make


CASES = [
    Case(f"{name} {what}", make(name), None, None)
    for name in NETWORKS
    for what, make in (("training", _training), ("inference", _inference))
]
MORE_CASES = [
    *(Case(f"{name} training", _training(name), 0.95, None) for name in LARGER),
    Case("ResNet-18 from a DataLoader", train_from_loader, 0.95, None),
    Case("GPT writes", generate, 0.95, None),
    Case("GPT writes by NPUGraph", generate_by_graph, 0.70, None),
]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="", help="beginning of the names of the cases")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--busy", action="store_true", help="beside as many busy processes as there are cores")
    parser.add_argument("--json")
    return parser.parse_args()


@contextlib.contextmanager
def busy_processes(count):
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(case, threads, bar, options):
    outcome = compare(case, options.rounds, warm_up=3)
    missed = outcome.ratio > (min(bar, BUSY_BAR) if options.busy else bar)
    times = f"CPU {outcome.cpu_us / 1e3:8.2f} ms {outcome.npu_us / 1e3:8.2f} ms npu"
    print(f"{case.name:28} {threads} threads  {times} {outcome.ratio:6.2f}{'  MISSED' if missed else ''}", flush=True)
    return {"case": case.name, "threads": threads, **vars(outcome)}, missed


def measure_all(options, threads):
    """The results, and whether a bar is missed."""
    results, missed, ratios = [], False, []
    for case in [*CASES, *MORE_CASES]:
        if not case.name.startswith(options.case):
            continue
        result, over = measure(case, threads, case.bar or WORST_BAR, options)
        results.append(result)
        missed |= over
        if case.bar is None:
            ratios.append(result["ratio"])
    if len(ratios) == len(CASES):
        mean, bar = statistics.geometric_mean(ratios), MEAN_BARS.get(threads, MEAN_BAR)
        missed |= mean > bar
        verdict = "  MISSED" if mean > bar else ""
        print(
            f"geometric mean of the six networks {mean:.3f} (bar {bar}, stretch {MEAN_STRETCH}){verdict}, worst {max(ratios):.2f}"
        )
    return results, missed


def main():
    options = parse()
    results, missed = [], False
    print(f"{os.cpu_count()} cores, torch {torch.__version__}{', beside as many busy processes' if options.busy else ''}")
    with busy_processes(os.cpu_count() if options.busy else 0):
        for threads in options.threads:
            torch.set_num_threads(threads)
            found, over = measure_all(options, threads)
            results += found
            missed |= over
    save(results, options.json)
    sys.exit(missed)


if __name__ == "__main__":
    main()
