"""`python -m torch_npu.tools.verify ORIGINAL CONVERTED [--main FILE] [-- args]`: does the conversion train as the original?"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..report import Cell, Section, Table, page, write_text
from .compare import Comparison, compare


class BadProject(ValueError):
    """One sentence about a path or a file of a project."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m torch_npu.tools.verify",
        usage="%(prog)s [options] ORIGINAL CONVERTED [-- arguments of the program]",
        description="Compiles and imports a converted project, trains it on npu and the original on the CPU, and compares both.",
        epilog="exit status: 0 the same, 1 different, 2 wrong arguments, 3 a project does not compile, import or run",
    )
    made.add_argument("original", type=Path, help="the project for CUDA: a folder or a script")
    made.add_argument("converted", type=Path, help="the same for npu")
    made.add_argument("--main", metavar="FILE", help="the script that starts the program, relative to the folder")
    made.add_argument("--steps", type=int, default=1, metavar="N", help="steps of optimizers to compare (default 1)")
    made.add_argument(
        "--tolerance", type=float, default=1e-4, help="of losses, relative; gradients have ten times as much (default 1e-4)"
    )
    made.add_argument("--time-limit", type=float, default=600, metavar="S", help="seconds for each run (default 600)")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--json", type=Path, metavar="FILE")
    made.add_argument("--html", type=Path, metavar="FILE")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    commands = parser()
    words = list(sys.argv[1:] if arguments is None else arguments)
    end = words.index("--") if "--" in words else len(words)
    options = commands.parse_args(words[:end])
    options.arguments = words[end + 1 :]
    if options.steps < 1 or options.time_limit <= 0 or options.tolerance < 0:
        commands.error("--steps is at least 1, --time-limit above 0, --tolerance at least 0")
    try:
        originals, converted = find_main(options.original, options.main), find_main(options.converted, options.main)
    except BadProject as error:
        commands.error(str(error))
    failures = compile_all(options.converted) or import_all(options.converted)
    if failures:
        return _answer(options, failures, None, 3)
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            side: run_side(side, script, options, Path(folder, f"{side}.pt"))
            for side, script in (("cpu", originals), ("npu", converted))
        }
    for side, run in runs.items():
        if run["ended"] == "failed":
            what = "the original fails on the CPU" if side == "cpu" else "the converted project fails on npu"
            return _answer(options, [f"{what}: {run['said']}", run["traceback"]], None, 3)
    found = compare(runs["cpu"], runs["npu"], options.tolerance)
    told = found.sentences or [_agreement(runs["cpu"], found)]
    told += [f"{name} ran on the CPU {count} times (fallback)" for name, count in runs["npu"]["fallbacks"].items()]
    return _answer(options, told, found, 0 if found.same else 1)


def _agreement(run: dict[str, Any], found: Comparison) -> str:
    losses = [f"{row['original']:.6g} and {row['converted']:.6g}" for row in found.rows if row["kind"] == "loss"]
    gradients = sum(row["kind"] == "gradient" for row in found.rows)
    steps = len(run["steps"])
    return f"the same: {steps} step{'s' if steps > 1 else ''}, losses {', '.join(losses) or 'none'}, {gradients} gradients agree"


def _answer(options: argparse.Namespace, told: list[str], found: Comparison | None, status: int) -> int:
    rows = found.rows if found is not None else []
    data = {"version": 1, "status": status, "sentences": told, "rows": rows}
    if options.json is not None:
        write_text(options.json, json.dumps(data, indent=1) + "\n")
    if options.html is not None:
        columns = ["step", "kind", "name", "original", "converted", "difference", "same"]
        table = Table(
            columns,
            [[*(row[name] for name in columns[:-1]), Cell(row["same"], "good" if row["same"] else "bad")] for row in rows],
        )
        write_text(
            options.html, page(f"{options.converted} against {options.original}", [Section("Result", told, [table])], data)
        )
    print("\n".join(told), file=sys.stderr if status == 3 else sys.stdout)
    return status


def find_main(project: Path, name: str | None) -> Path:
    """The script of a project: itself, --main, or the only file with `if __name__ == "__main__"`."""
    if not project.exists():
        raise BadProject(f"{project} does not exist; give a folder or a Python script")
    if project.is_file():
        return project
    if name is not None:
        if not (project / name).is_file():
            raise BadProject(f"{project / name} does not exist; --main is relative to {project}")
        return project / name
    found = [path for path in sources(project) if b"__main__" in path.read_bytes()]
    if len(found) != 1:
        shown = ", ".join(str(path.relative_to(project)) for path in found[:5]) or "none"
        raise BadProject(f"{project} has {len(found)} scripts with __main__ ({shown}); choose one with --main")
    return found[0]


def sources(project: Path) -> list[Path]:
    return [project] if project.is_file() else sorted(path for path in project.rglob("*.py") if path.is_file())


def compile_all(project: Path) -> list[str]:
    """A sentence for each file that is no valid Python. Nothing is written."""
    told = []
    for path in sources(project):
        try:
            compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
            told.append(f"{path}{line} does not compile: {getattr(error, 'msg', error)}")
    return told


_DEFINITIONS = (
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Assign,
    ast.AnnAssign,
    ast.If,
    ast.Try,
)


def import_all(project: Path) -> list[str]:
    """Imports the modules that only define something; what does more is run as the program imports it."""
    if project.is_file():
        return []
    names = []
    for path in sources(project):
        tree = ast.parse(path.read_bytes())
        bare = all(
            isinstance(node, _DEFINITIONS) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            for node in tree.body
        )
        parts = path.relative_to(project).with_suffix("").parts
        if bare and all(part.isidentifier() for part in parts) and parts[-1] not in ("__main__", "setup"):
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n        importlib.import_module(name)\n"
        "    except BaseException as error:\n        print(f'{name} cannot be imported: {type(error).__name__}: {error}')\n"
    )
    folder = str(project.resolve())
    done = _python(["-c", program, *filter(None, names)], cwd=folder, extra=folder)
    return (
        done.stdout.splitlines()
        if done.returncode == 0
        else [f"importing ended with status {done.returncode}: {done.stderr[-300:]}"]
    )


def run_side(side: str, script: Path, options: argparse.Namespace, out: Path) -> dict[str, Any]:
    command = ["-m", "torch_npu.tools.verify.worker", "--side", side, "--steps", str(options.steps), "--seed", str(options.seed)]
    command += ["--seconds", str(options.time_limit), "--out", str(out), str(script.resolve()), *options.arguments]
    done = _python(command, cwd=str(script.resolve().parent))
    if not out.exists():
        said = f"the process ended with status {done.returncode}"
        return {"ended": "failed", "said": said, "traceback": done.stderr[-3000:], "steps": [], "fallbacks": {}}
    found: dict[str, Any] = torch.load(out, weights_only=True)
    return found


def _python(command: list[str], cwd: str, extra: str = "") -> subprocess.CompletedProcess[str]:
    package = str(Path(sys.modules["torch_npu"].__file__ or "").parent.parent)  # also without an installation
    paths = [path for path in (extra, os.environ.get("PYTHONPATH", ""), package) if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "ASCEND_LAUNCH_BLOCKING": "1"}
    return subprocess.run([sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True)
