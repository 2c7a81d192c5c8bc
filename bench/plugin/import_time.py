"""The ratio of the times of `import torch` with and without the plugin's autoload."""

import os
import statistics
import subprocess
import sys
import time

IMPORT_CASE = ("import torch with autoload", 1.08, 1.03)
ROUNDS = 5


def _seconds(autoload):
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": autoload}
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], env=environment, check=True)
    return time.perf_counter() - begin


def import_ratio():
    """Rounds in the order without, with, with, without, after one of each to warm the file cache."""
    _seconds("0"), _seconds("1")
    ratios = []
    for _ in range(ROUNDS):
        without = _seconds("0")
        loaded = _seconds("1") + _seconds("1")
        ratios.append(loaded / (without + _seconds("0")))
    return statistics.median(ratios)
