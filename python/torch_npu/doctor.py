"""python -m torch_npu.doctor: checks whether torch_npu works in this environment, and says how to fix what does not.

    python -m torch_npu.doctor          # one line per finding; the exit status is 1 if there is a problem
    python -m torch_npu.doctor --json   # for programs: {"ok": ..., "findings": [{"about", "state", "text", "fix"}]}

The state of a finding is ok, note or problem; a problem has a fix. The doctor imports neither torch nor the plugin. A child
process (tools/probe.py) tries them while the doctor checks the rest, so the answer takes about as long as `import torch`, and a
crash of the child is a finding.
"""

from __future__ import annotations

import argparse
import ctypes
import difflib
import importlib.machinery
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .tools import _interpreters
from .tools._cann_variables import CANN_VARIABLES, COLLECTIVE_VARIABLES
from .version import __version__

_FOLDERS = [Path(folder) for folder in sys.modules[__package__].__path__]
_OURS = "+soft"  # only versions of this distribution contain it
_PROBE = Path(__file__).parent / "tools" / "probe.py"
_SECONDS = 300
_SMALL_SHM = 64 << 20


@dataclass
class Finding:
    about: str
    state: str
    text: str
    fix: str = ""


def ok(about: str, text: str) -> Finding:
    return Finding(about, "ok", text)


def note(about: str, text: str) -> Finding:
    return Finding(about, "note", text)


def problem(about: str, text: str, fix: str) -> Finding:
    return Finding(about, "problem", text, fix)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_npu.doctor", description="Checks whether torch_npu works.")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    options = parser.parse_args(arguments)
    findings = examine()
    healthy = all(finding.state != "problem" for finding in findings)
    if options.json:
        print(json.dumps({"ok": healthy, "findings": [asdict(finding) for finding in findings]}, indent=2))
        return 0 if healthy else 1
    for finding in findings:
        print(f"{finding.state:<8}{finding.about}: {finding.text}")
        if finding.fix:
            print(f"{'':<8}fix: {finding.fix}")
    problems = sum(finding.state == "problem" for finding in findings)
    print("torch_npu works here." if healthy else f"{problems} problem{'s' * (problems > 1)} to fix.")
    return 0 if healthy else 1


def examine() -> list[Finding]:
    """All findings, in the order in which they are printed."""
    with _Probe() as probe:
        findings = [*_python(), *_commands(), *_distribution(), *_torch_version(), *_files(), *_libstdcxx()]
        memory_and_log = [*_shared_memory(), *_log(), *_governor()]
        steps, stderr, end = probe.result()
    findings += _judge(steps, end)
    findings += _variables(steps, stderr)
    return [*findings, *memory_and_log, *_hints(steps)]


def _python() -> Iterator[Finding]:
    """The running interpreter, and those that the commands python and python3 start, compared by their full paths."""
    running = _interpreters.Interpreter.running()
    yield ok("python", f"{platform.python_version()}, {running.executable}, prefix {running.prefix}")
    for other in _interpreters.on_path(running):
        found = f"import the torch_npu in {other.package}" if other.package else "do not find torch_npu"
        name = Path(other.executable).name
        yield note(
            "python",
            f"the command {name} starts {other.executable} ({other.version}, prefix {other.prefix}), not this Python; "
            f"programs started with {name} {found}; use {running.executable}",
        )


def _commands() -> Iterator[Finding]:
    """The npu-smi on PATH, if it is the one of this package, and the interpreter that runs it."""
    path = shutil.which("npu-smi")
    interpreter = _interpreters.of_script(path) if path else None
    if path is None or interpreter is None or b"torch_npu" not in Path(path).read_bytes():
        return
    if _interpreters.is_same(interpreter, sys.executable):
        yield ok("npu-smi", f"{path}, run by {interpreter}")
        return
    yield note("npu-smi", f"{path} is run by {interpreter}, not by this Python, {sys.executable}")


def _place(about: str, folder: Path) -> Iterator[Finding]:
    """A note if a package belongs to another interpreter, such as one that PYTHONPATH names."""
    if not _interpreters.owns(folder):
        yield note(about, f"it is in {folder}, outside of the prefix of this Python, {sys.prefix}")


def _distribution() -> Iterator[Finding]:
    """The distribution that the name torch_npu belongs to. The vendor's has the same name."""
    yield ok("torch_npu", f"{__version__}, {_FOLDERS[0]}")
    try:
        installed = importlib.metadata.distribution("torch_npu")
    except importlib.metadata.PackageNotFoundError:
        yield note("torch_npu", "it is on the search path, but not installed: nothing registers npu when torch is imported")
        return
    place = Path(str(installed.locate_file("torch_npu"))).resolve()
    yield from _place("torch_npu", place)
    if _OURS not in installed.version:
        yield problem(
            "torch_npu",
            f"the distribution torch_npu is {installed.version}, the vendor's; this package, {__version__}, has the same name",
            "pip uninstall torch_npu, then install one of the two in its own environment",
        )
    elif installed.version != __version__:
        yield problem(
            "torch_npu",
            f"version {installed.version} is installed in {place}, but {__version__} from {_FOLDERS[0]} is used",
            f"remove {_FOLDERS[0].parent} from PYTHONPATH, or install {__version__}",
        )


def _torch_version() -> Iterator[Finding]:
    try:
        installed = importlib.metadata.distribution("torch")
    except importlib.metadata.PackageNotFoundError:
        yield problem("torch", "it is not installed for this Python", f"{sys.executable} -m pip install torch=={_built_for()}.*")
        return
    found, wanted = installed.version, _built_for()
    yield from _place("torch", Path(str(installed.locate_file("torch"))))
    if wanted is None or found.split(".")[:2] == wanted.split("."):
        yield ok("torch", f"{found}, which torch_npu was built for")
        return
    yield problem(
        "torch",
        f"torch {found} is installed, but torch_npu was built for torch {wanted}",
        f"install torch {wanted}, or a torch_npu that was built for torch {'.'.join(found.split('.')[:2])}",
    )


def _built_for() -> str | None:
    try:
        from ._built_for import TORCH
    except ImportError:
        return None
    return TORCH


def _libraries() -> dict[str, Path | None]:
    names = ("_C*.so", "lib/libtorch_npu.so", "lib/libascendcl.so", "lib/libopapi.so")
    return {name: next((path for folder in _FOLDERS for path in folder.glob(name)), None) for name in names}


def _files() -> Iterator[Finding]:
    libraries = _libraries()
    missing = [name for name, path in libraries.items() if path is None]
    if missing:
        yield problem("files", f"{', '.join(missing)} missing in {_FOLDERS[0]}", "install torch_npu again, or run scripts/build")
    bindings = libraries["_C*.so"]
    if bindings is not None and not any(bindings.name == f"_C{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES):
        yield problem(
            "files",
            f"{bindings.name} was built for another Python than this one, {platform.python_version()} ({sys.executable})",
            "start the Python that torch_npu was built for, or install torch_npu for this one",
        )


def _libstdcxx() -> Iterator[Finding]:
    """The libraries need a libstdc++ that is at least as new as their compiler."""
    needed = max((_newest_glibcxx(path) for path in _libraries().values() if path is not None), default=(0,))
    try:
        ctypes.CDLL("libstdc++.so.6")
    except OSError as error:
        yield problem("libstdc++", f"there is none: {error}", "install it (Debian: libstdc++6)")
        return
    path = next((line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libstdc++" in line), None)
    if path is None:
        return
    found = _newest_glibcxx(Path(path))
    text = f"{path} has GLIBCXX_{_dotted(found)}, GLIBCXX_{_dotted(needed)} is needed"
    if found >= needed:
        yield ok("libstdc++", text)
        return
    yield problem("libstdc++", text, "put a newer one first in LD_LIBRARY_PATH, or remove the older one from it")


def _newest_glibcxx(path: Path) -> tuple[int, ...]:
    try:
        content = path.read_bytes()
    except OSError:
        return (0,)
    versions = re.findall(rb"GLIBCXX_(\d+(?:\.\d+)+)\0", content)
    return max((tuple(map(int, version.split(b"."))) for version in versions), default=(0,))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


class _Probe:
    """tools/probe.py in a child process, which starts at once and is killed at the end of the `with` block."""

    def __enter__(self) -> _Probe:
        silencers = ("TORCH_NPU_WARNING_DISABLE", "TORCH_NPU_DISABLED_WARNING")
        environment = {name: value for name, value in os.environ.items() if name not in silencers}
        # Not by -m, which would import the package before the first step.
        command = [sys.executable, "-X", "faulthandler", "-c", "import sys; exec(open(sys.argv[1]).read())", str(_PROBE)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, errors="replace")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def result(self) -> tuple[dict[str, Any], str, str]:
        """Waits for the child. Returns the results of its steps by name, its stderr, and how it ended."""
        try:
            stdout, stderr = self._process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return {}, "", f"did not end within {_SECONDS} s"
        steps = {}
        for line in stdout.splitlines():
            try:
                step = json.loads(line)
                steps[step.pop("step")] = step
            except (ValueError, KeyError, AttributeError):
                continue
        status = self._process.returncode
        return steps, stderr, f"died of signal {-status}" if status < 0 else f"ended with status {status}"


def _judge(steps: dict[str, Any], end: str) -> Iterator[Finding]:
    for name, about in (
        ("torch", "import torch"),
        ("plugin", "import torch_npu"),
        ("library", "device library"),
        ("devices", "devices"),
        ("memory", "device memory"),
        ("product", "a product on npu"),
    ):
        step = steps.get(name)
        if step is None:
            yield problem(about, f"the process that tried it {end}", f"{sys.executable} -X faulthandler {_PROBE} shows where")
            return
        if "error" in step:
            yield problem(about, step["error"].splitlines()[0], _advice(name, step["error"]))
            return
        yield from _result(name, about, step["found"])
        if name == "devices" and step["found"]["count"] == 0:
            return


def _result(name: str, about: str, found: dict[str, Any]) -> Iterator[Finding]:
    if name == "library":
        yield ok(about, f"{found['path']} ({found['origin']}), version {found['version']}, chip {found['soc']}")
    elif name == "devices" and found["count"] == 0:
        yield problem(about, "there is none", f"ASCEND_RT_VISIBLE_DEVICES is {_shown('ASCEND_RT_VISIBLE_DEVICES')}; unset it")
    elif name == "devices":
        yield ok(about, f"{found['count']}, npu:0 to npu:{found['count'] - 1}")
    elif name == "memory":
        yield ok(about, f"{found['free'] >> 20} of {found['total'] >> 20} MiB free on npu:0")
    elif name == "product" and found["difference"] > 1e-4:
        yield problem(about, f"it differs from the CPU's by {found['difference']}", "try TORCH_NPU_LIBRARY_PATH=softnpu")
    elif name == "product":
        yield ok(about, "the same as on the CPU")


def _advice(name: str, error: str) -> str:
    known = {
        "GLIBCXX": "see libstdc++ above",
        "was built for torch": "see torch above",
        "undefined symbol": "torch_npu was built for another torch, or LD_LIBRARY_PATH has an older CANN; install it again",
        "TORCH_NPU_LIBRARY_PATH": f"TORCH_NPU_LIBRARY_PATH is {_shown('TORCH_NPU_LIBRARY_PATH')}: correct or unset it",
        "INF_NAN_MODE_ENABLE": "unset INF_NAN_MODE_ENABLE",
        "cannot load the device library": "set TORCH_NPU_LIBRARY_PATH=softnpu for the one that torch_npu contains",
        "No module named 'torch._C'": "a folder named torch hides the installed torch: start Python in another folder than "
        f"{os.getcwd()}, or take the folder out of PYTHONPATH",
        "No module named 'torch'": f"{sys.executable} -m pip install torch=={_built_for()}.*",
        "out of memory": "other processes hold it (npu-smi info lists them), or SOFTNPU_DEVICE_MEMORY is too small",
    }
    for words, advice in known.items():
        if words in error:
            return advice
    for variable in re.findall(r"\b[A-Z]+_[A-Z_]+\b", error):
        if variable in os.environ:
            return f"correct or unset {variable}"
    return f"{sys.executable} {_PROBE} shows more" if name != "torch" else "install torch again"


def _shown(variable: str) -> str:
    return f"'{os.environ[variable]}'" if variable in os.environ else "not set"


def _variables(steps: dict[str, Any], stderr: str) -> Iterator[Finding]:
    """The environment variables of the project that are set, with the complaints of the plugin and the device about them."""
    known = {name for step in ("variables", "device_variables") for name in steps.get(step, {}).get("found", {}).get("names", [])}
    broken = "plugin" if not known else "device library" if "found" not in steps.get("library", {}) else None
    known |= COLLECTIVE_VARIABLES
    checked = ("TORCH_NPU_", "SOFTNPU_", "ASCEND_", "HCCL_")  # an unknown name is reported
    others = ("ACL_", "NPU_", "INF_NAN_MODE_")
    for name in sorted(os.environ):
        like = [] if name in known | CANN_VARIABLES else difflib.get_close_matches(name, known, 1, 0.9)
        if name not in known and not like and not name.startswith(checked + others):
            continue
        text = f"{name}={os.environ[name]}"
        complaint = re.search(
            rf"environment variable {name} is .*?(?= \(function| \(`import|$)|bad value .* of {name}; .*", stderr, re.M
        )
        if complaint:
            yield problem("environment", complaint[0], f"correct or unset {name}")
        elif name in known or name == "TORCH_NPU_AUTOLOAD":
            yield ok("environment", text)
        elif broken:
            yield note("environment", f"{text} (not checked: the {broken} does not work)")
        elif name in CANN_VARIABLES:
            yield note("environment", f"{text} is read by CANN, not by torch_npu")
        elif like or name.startswith(checked):
            like = like or difflib.get_close_matches(name, known | CANN_VARIABLES, 1)
            yield note("environment", f"{text} is read by nothing here" + (f"; did you mean {like[0]}?" if like else ""))
        else:
            yield note("environment", f"{text} is not read by torch_npu")
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        yield note("environment", "TORCH_DEVICE_BACKEND_AUTOLOAD=0: programs have to import torch_npu themselves")
    if os.environ.get("GOMP_CPU_AFFINITY"):
        yield note("environment", "GOMP_CPU_AFFINITY binds threads to cores; unset it if the device is slow")


def _shared_memory() -> Iterator[Finding]:
    folder = os.environ.get("SOFTNPU_LEDGER_DIR") or "/dev/shm"
    try:
        room = os.statvfs(folder)
    except OSError as error:
        yield problem("shared memory", f"{folder}: {error.strerror}", "create it, or set SOFTNPU_LEDGER_DIR to another folder")
        return
    total, free = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    text = f"{folder} has {free >> 20} of {total >> 20} MiB free"
    if free < 2 << 20:
        yield problem(
            "shared memory", f"{text}; the ledger of device memory needs 2 MiB", "remove files, or set SOFTNPU_LEDGER_DIR"
        )
    elif total <= _SMALL_SHM:
        yield note(
            "shared memory", f"{text}, which may be too little for the workers of a DataLoader; start a container with --shm-size"
        )
    else:
        yield ok("shared memory", text)


def _governor() -> Iterator[Finding]:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if path.is_file():
        governor = path.read_text().strip()
        advice = "" if governor == "performance" else "; `cpupower frequency-set -g performance` makes programs faster"
        yield note("governor", f"the processors run with the governor {governor}{advice}")


def _log() -> Iterator[Finding]:
    home = Path(os.environ.get("HOME", "/"), "ascend", "log")
    folder = Path(os.environ.get("ASCEND_PROCESS_LOG_PATH") or home, "plog").absolute()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            yield ok("log", f"{folder}")
    except OSError as error:
        yield note("log", f"{folder} cannot be written: {error.strerror}; set ASCEND_PROCESS_LOG_PATH to another folder")


def _hints(steps: dict[str, Any]) -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0))
    threads = steps.get("torch", {}).get("found", {}).get("threads")
    if threads is not None and threads > cores:
        yield note("threads", f"torch uses {threads} threads on {cores} cores; OMP_NUM_THREADS={cores} is faster")
    elif threads is not None:
        yield ok("threads", f"torch uses {threads} on {cores} cores")
    yield note("processes", "start processes that use npu with spawn: a forked child of a process that used a device is refused")


if __name__ == "__main__":
    sys.exit(main())
