"""The cost of dumping statistics of every operator of a training step, as ratios to a step without a dump, both on npu.

    scripts/bench dump                     the cases below at 1 and 2 threads
    scripts/bench dump --case 'BERT'       the cases whose names begin with it
    scripts/bench dump --json results.json also writes the numbers there

"statistics" is a step in a torch_npu.capture.Capture, from its start until dump.json is on the disk. "step" is the same without
the start and the end of the capture. "off" compares steps after the captures with steps before the first capture. The exit status
is 1 if a bar is missed."""

import argparse
import functools
import statistics
import sys
import tempfile

import torch
from torch import nn
from torch_npu.capture import Capture, JsonWriter

from bench.measure import Side, interleave, save
from bench.models.networks import Transformer

BARS = {"off": 1.02, "step": 2.0, "statistics": 2.0}
WORDS = 1000


def _base():
    """Two layers of BERT-base."""
    from transformers import BertConfig, BertForMaskedLM

    network = BertForMaskedLM(BertConfig(num_hidden_layers=2, vocab_size=WORDS, attn_implementation="eager"))
    tokens = torch.randint(WORDS, (4, 128))
    return network, lambda model: model(input_ids=tokens.npu(), labels=tokens.npu()).loss


def _small():
    """The BERT of scripts/bench models: four layers of 128."""
    tokens = torch.randint(WORDS, (8, 64))

    def loss(model):
        return nn.functional.cross_entropy(model(tokens.npu()).flatten(0, 1), tokens.npu().flatten())

    return Transformer(causal=False), loss


NETWORKS = {"BERT-base, 2 layers": _base, "small BERT": _small}


def _step(make):
    torch.manual_seed(0)
    network, loss_of = make()
    model = network.npu()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _dumped(step, folder):
    with Capture(JsonWriter(folder, tensors=False), mode="statistics"):
        step()


class _Running:
    """Steps within one capture. Its start and its end are not measured."""

    def __init__(self, step, folder):
        self._step, self._folder = step, folder

    def rounds(self, plain, count):
        ratios = []
        for _ in range(count):
            capture = Capture(JsonWriter(self._folder, tensors=False), mode="statistics").start()
            try:
                within = _seconds(self._step)
            finally:
                capture.stop()
            ratios.append(within / _seconds(plain))
        return ratios


def _seconds(job):
    import time

    begin = time.perf_counter()
    job()
    torch.npu.synchronize()
    return time.perf_counter() - begin


def _measure(name, rounds):
    step = _step(NETWORKS[name])
    fresh = Side(step, torch.npu.synchronize)
    plain = statistics.median(_seconds(step) for _ in range(rounds + 3))
    with tempfile.TemporaryDirectory() as folder:
        _dumped(step, folder)
        after = statistics.median(_seconds(step) for _ in range(rounds + 3))
        within = statistics.median(_Running(step, folder).rounds(step, rounds))
        dumped = Side(functools.partial(_dumped, step, folder), torch.npu.synchronize)
        pairs = interleave(fresh, dumped, rounds, warm_up=1)
    ratio = statistics.median(other / base for other, base in pairs)
    return {"off": after / plain, "step": within, "statistics": ratio, "milliseconds": plain * 1e3}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", default="", help="only cases whose names begin with it")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    results, missed = {}, False
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for name in NETWORKS:
            if not name.startswith(options.case):
                continue
            found = _measure(name, options.rounds)
            results[f"{name}, {threads} threads"] = found
            told = ", ".join(f"{what} {found[what]:.2f} (bar {bar})" for what, bar in BARS.items())
            print(f"{name}, {threads} threads: {found['milliseconds']:.1f} ms; {told}", flush=True)
            missed = missed or any(found[what] > bar for what, bar in BARS.items())
    save(results, options.json)
    sys.exit(missed)


if __name__ == "__main__":
    main()
