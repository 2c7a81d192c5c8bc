"""Asks torch_npu, in a child process, which functions of torch npu supports. This process does not import torch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

_CHILD = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
names = json.load(sys.stdin)
import torch, torch_npu
try:
    from torch_npu.tools.coverage.support import api_support
except ImportError:
    api_support = None

def exists(name):
    parts = name.split(".")
    value = torch
    for index, part in enumerate(parts[1:], 2):
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(".".join(parts[:index]))
            except Exception:
                return False
        except Exception:
            return True
    return True

def answer(name):
    if not exists(name):
        if name.startswith("torch.npu."):
            return ["unsupported", "torch_npu has no " + name]
        return ["unknown", "torch has no " + name]
    if api_support is None or name.startswith("torch.npu"):
        return ["supported", ""]
    found = api_support(name)
    return [found.status, found.reason]

json.dump({name: answer(name) for name in names}, sys.stdout)
"""
_SECONDS = 300


@dataclass
class Support:
    status: str
    reason: str


class Unavailable(Exception):
    pass


def ask(names: set[str]) -> dict[str, Support]:
    """The support of each name."""
    if not names:
        return {}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD], input=json.dumps(sorted(names)), capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"torch_npu did not answer: {error}") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["the process died"]
        raise Unavailable(lines[-1])
    return {name: Support(*answer) for name, answer in json.loads(done.stdout).items()}
