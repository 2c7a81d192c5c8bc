"""Runs training scripts one after another, and prints one line of JSON for each: the losses that it printed, or its error.

    python train_scripts.py cpu|npu FOLDER '[["script.py", "--option"], ...]'

A script runs in FOLDER, as __main__. One process for many scripts imports torch's compiler, as every optimizer does, only once.
"""

import contextlib
import gc
import io
import json
import os
import re
import runpy
import sys
import traceback
from pathlib import Path

import torch


def reference():
    return runpy.run_path(str(Path(__file__).with_name("cuda_on_cpu.py")))["cuda_on_cpu"]()


@contextlib.contextmanager
def strictly_on_npu():
    """Fails if an operator falls back to the CPU, or if npu is not used."""
    torch.npu.set_strict_fallback(True)
    torch.npu.reset_fallback_stats()
    torch.npu.empty_cache()
    torch.npu.reset_peak_memory_stats()
    before = torch.npu.memory_allocated()
    yield
    assert torch.npu.fallback_stats() == {}, f"ran on the CPU: {torch.npu.fallback_stats()}"
    assert torch.npu.max_memory_allocated() > before, "the script did not use npu"


def run(script, arguments, context):
    sys.argv = [script, *arguments]
    output = io.StringIO()
    try:
        with context, contextlib.redirect_stdout(output):
            runpy.run_path(script, run_name="__main__")
    except BaseException:
        return {"script": script, "error": f"{output.getvalue()}{traceback.format_exc()}"}
    steps = re.findall(r"^step (\d+) loss (\S+)", output.getvalue(), re.MULTILINE)
    if [step for step, _ in steps] != ["0", "1", "2"]:
        return {"script": script, "error": f"it printed no 3 losses: {output.getvalue()!r}"}
    return {"script": script, "losses": [float(loss) for _, loss in steps]}


def main(way, folder, scripts):
    os.chdir(folder)
    torch.set_num_threads(1)  # the networks are small: on a busy machine more threads mostly wait for each other
    for script, *arguments in json.loads(scripts):
        print(json.dumps(run(script, arguments, reference() if way == "cpu" else strictly_on_npu())), flush=True)
        gc.collect()


if __name__ == "__main__":
    main(*sys.argv[1:])
