"""scripts/bench transplant [--files N] [--lines N]: converts a generated project and prints time, processor time and memory.

Of ten files, six use CUDA, three use torch without CUDA, and one uses neither.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_HEAD = {
    "cuda": "import argparse\nimport os\n\nimport torch\nfrom torch import nn\nfrom torch.cuda.amp import GradScaler, autocast\n",
    "torch": "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n",
    "none": "import math\nimport os\n",
}
_BODY = {
    "cuda": '''

class Block{0}(nn.Module):
    """Block {0} of the network."""

    def __init__(self, width=64, device="cuda"):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1).to(device)
        self.second = nn.BatchNorm2d(width).cuda()
        self.limits = {{"low": 0.1 * {0}, "high": 0.9, "name": "block{0}"}}

    def forward(self, x, scale=None):
        # The residual path.
        if x.is_cuda and torch.cuda.is_available():
            with autocast(enabled=scale is not None):
                y = self.second(self.first(x)) + x * self.limits["low"]
        else:
            y = self.first(x)
        values = [value.cuda(non_blocking=True) for value in (x, y) if value is not None]
        return sum(values[1:], values[0]) / max(len(values), 1)


def train{0}(model, loader, optimizer, epochs=3, gpu=0):
    device = torch.device("cuda:%d" % gpu if torch.cuda.is_available() else "cpu")
    scaler = GradScaler()
    history = []
    for epoch in range(epochs):
        for index, (images, target) in enumerate(loader):
            images, target = images.to(device), target.cuda(gpu)
            loss = nn.functional.cross_entropy(model(images), target)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if index % 10 == 0:
                print(f"epoch {{epoch}} step {{index}} loss {{loss.item():.4f}}", torch.cuda.memory_allocated())
        history.append((epoch, float(loss)))
    return history
''',
    "torch": '''

def layer{0}(x, weight, bias=None, eps=1e-5):
    """Layer {0}."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).pow(2).mean(dim=-1, keepdim=True)
    y = (x - mean) / torch.sqrt(variance + eps)
    if bias is not None:
        y = F.linear(y, weight, bias)
    elif weight.dim() == 2:
        y = torch.matmul(y, weight.t())
    parts = torch.chunk(y, 2, dim=-1)
    return torch.cat([F.relu(part) * {0} for part in parts], dim=-1).contiguous()


class Head{0}(nn.Module):
    def __init__(self, width, classes={0} + 2):
        super().__init__()
        self.classifier = nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, classes))

    def forward(self, x):
        return self.classifier(x.flatten(1))
''',
    "none": '''

def read{0}(path, limit={0}):
    """Reads the lines of a file."""
    rows = []
    with open(os.path.join(path, "data{0}.txt")) as file:
        for number, line in enumerate(file):
            if number > limit:
                break
            rows.append([float(word) for word in line.split(",")])
    total = sum(math.sqrt(value) for row in rows for value in row if value > 0)
    return {{"rows": rows, "total": total, "mean": total / max(len(rows), 1)}}
''',
}


def generate(root: Path, files: int, lines: int) -> int:
    """Writes the project, and returns the number of its lines."""
    written = 0
    for index in range(files):
        kind = "cuda" if index % 10 < 6 else "torch" if index % 10 < 9 else "none"
        text, number = _HEAD[kind], 0
        while text.count("\n") < lines:
            text += _BODY[kind].format(number)
            number += 1
        path = root / f"part{index // 50}" / f"module{index}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        written += text.count("\n")
    return written


def measure(files: int, lines: int, jobs: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="transplant_bench_") as folder:
        root = Path(folder, "project")
        root.mkdir()
        written = generate(root, files, lines)
        options = ["-i", str(root), "-o", folder, "-j", str(jobs), "--no-support-check"]
        command = [sys.executable, "-m", "torch_npu.transplant", *options]
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ)
        # wait4() counts this process and its children; getrusage() would count earlier children of the caller, too.
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
    processor = usage.ru_utime + usage.ru_stime
    return {"lines": written, "wall": wall, "processor": processor, "memory": usage.ru_maxrss / 1024 * (jobs + 1)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench transplant", description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    found = measure(options.files, options.lines, options.jobs)
    print(
        f"{options.files} files, {found['lines']} lines: {found['wall']:.1f} s, {found['processor']:.1f} s of processor time, "
        f"at most {found['memory']:.0f} MB in {options.jobs + 1} processes"
    )


if __name__ == "__main__":
    main()
