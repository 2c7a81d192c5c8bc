"""The cost of networks on npu, as ratios to CPU PyTorch in the same run: a training step and inference.

    scripts/bench models                        every network at 1 and 2 threads
    scripts/bench models --case 'GPT training'  the cases whose names begin with it
    scripts/bench models --json results.json    also writes the numbers there

The geometric mean and the worst ratio have bars; the exit status is 1 if one is missed.
"""

import argparse
import statistics
import sys

import torch
from torch import nn

from bench.measure import Case, compare, save
from bench.models.networks import LanguageLSTM, Transformer, UNet, mobilenet_v2, resnet18

MEAN_BAR, MEAN_STRETCH, WORST_BAR = 0.90, 0.80, 1.10
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


def _build(name, device):
    network, data, optimizer = NETWORKS[name]
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


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="", help="beginning of the names of the cases")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json")
    return parser.parse_args()


def main():
    options = parse()
    results = []
    missed = False
    for threads in options.threads:
        torch.set_num_threads(threads)
        ratios = []
        for case in CASES:
            if not case.name.startswith(options.case):
                continue
            outcome = compare(case, options.rounds, warm_up=3)
            ratios.append(outcome.ratio)
            results.append({"case": case.name, "threads": threads, **vars(outcome)})
            verdict = "  MISSED" if outcome.ratio > WORST_BAR else ""
            times = f"{outcome.cpu_us / 1e3:8.2f} ms {outcome.npu_us / 1e3:8.2f} ms"
            print(f"{case.name:24} {threads} threads  CPU {times} npu {outcome.ratio:6.2f}{verdict}", flush=True)
        if ratios:
            mean = statistics.geometric_mean(ratios)
            over = mean > MEAN_BAR or max(ratios) > WORST_BAR
            missed |= over
            print(
                f"geometric mean {mean:.3f} (bar {MEAN_BAR}, stretch {MEAN_STRETCH}), worst {max(ratios):.2f} (bar {WORST_BAR})"
                f"{'  MISSED' if over else ''}"
            )
    save(results, options.json)
    sys.exit(missed)


if __name__ == "__main__":
    main()
