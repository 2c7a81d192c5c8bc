"""python -m torch_npu.doctor: does torch_npu work here, and if not, what is to be done?

    python -m torch_npu.doctor          # a line for each finding; exit status 1 if there is a problem
    python -m torch_npu.doctor --json   # the same for programs: {"ok": ..., "findings": [{"about", "state", "text", "fix"}]}

It imports neither torch nor the plugin: a process of its own tries them, so that a crash is a finding too. A state is ok, note
(worth knowing), or problem, and then there is a fix.
"""

import argparse
import ctypes
import difflib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from .version import __version__

_FOLDERS = [Path(folder) for folder in sys.modules[__package__].__path__]
_OURS = "+soft"  # in the version of this distribution and of no other
_PROBE = Path(__file__).parent / "tools" / "probe.py"
_SECONDS = 300
_SMALL_SHM = 64 << 20


@dataclass
class Finding:
    about: str
    state: str
    text: str
    fix: str = ""


def ok(about, text):
    return Finding(about, "ok", text)


def note(about, text):
    return Finding(about, "note", text)


def problem(about, text, fix):
    return Finding(about, "problem", text, fix)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m torch_npu.doctor", description="Finds out whether torch_npu works here.")
    parser.add_argument("--json", action="store_true", help="for programs")
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


def examine():
    """All findings, in the order in which they are to be read."""
    findings = [*_python(), *_distribution(), *_torch_version(), *_files(), *_libstdcxx()]
    steps, stderr, end = _probe()
    findings += _judge(steps, end)
    findings += _variables(steps, stderr)
    findings += [*_shared_memory(), *_log(), *_hints(steps)]
    return findings


def _python():
    yield ok("python", f"{platform.python_version()}, {sys.executable}")
    path = shutil.which("python3")
    if path is None or Path(path).resolve() == Path(sys.executable).resolve():
        return
    asked = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], capture_output=True, text=True)
    if asked.stdout.strip() != f"{sys.version_info[0]}.{sys.version_info[1]}":
        yield note("python", f"python3 is {path}, another Python than this one; programs started with it do not find torch_npu")


def _distribution():
    """Which distribution the name torch_npu belongs to: the vendor's is called so too."""
    yield ok("torch_npu", f"{__version__}, {_FOLDERS[0]}")
    try:
        installed = importlib.metadata.distribution("torch_npu")
    except importlib.metadata.PackageNotFoundError:
        yield note("torch_npu", "it is on the search path, but not installed: nothing registers npu when torch is imported")
        return
    place = Path(installed.locate_file("torch_npu")).resolve()
    if _OURS not in installed.version:
        yield problem(
            "torch_npu",
            f"the distribution torch_npu is {installed.version}, the vendor's, and this is {__version__}: they have one name",
            "pip uninstall torch_npu, then install the one you want into an environment of its own",
        )
    elif installed.version != __version__:
        yield problem(
            "torch_npu",
            f"version {installed.version} is installed in {place}, but {__version__} from {_FOLDERS[0]} is used",
            "remove the folder before it from PYTHONPATH, or install that version",
        )


def _torch_version():
    try:
        found = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        yield problem("torch", "it is not installed for this Python", f"{sys.executable} -m pip install torch=={_built_for()}.*")
        return
    wanted = _built_for()
    if wanted is None or found.split(".")[:2] == wanted.split("."):
        yield ok("torch", f"{found}, which torch_npu was built for")
        return
    yield problem(
        "torch",
        f"torch {found} is installed, but torch_npu was built for torch {wanted}",
        f"install torch {wanted}, or a torch_npu that was built for torch {'.'.join(found.split('.')[:2])}",
    )


def _built_for():
    try:
        from ._built_for import TORCH
    except ImportError:
        return None
    return TORCH


def _libraries():
    names = ("_C*.so", "lib/libtorch_npu.so", "lib/libascendcl.so", "lib/libopapi.so")
    return {name: next((path for folder in _FOLDERS for path in folder.glob(name)), None) for name in names}


def _files():
    missing = [name for name, path in _libraries().items() if path is None]
    if missing:
        yield problem("files", f"{', '.join(missing)} missing in {_FOLDERS[0]}", "install torch_npu again, or run scripts/build")


def _libstdcxx():
    """The libraries need symbols of a libstdc++ that is as new as their compiler."""
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
    yield problem("libstdc++", text, "put a newer one first in LD_LIBRARY_PATH, or take the older one out of it")


def _newest_glibcxx(path):
    try:
        content = path.read_bytes()
    except OSError:
        return (0,)
    versions = re.findall(rb"GLIBCXX_(\d+(?:\.\d+)+)\0", content)
    return max((tuple(map(int, version.split(b"."))) for version in versions), default=(0,))


def _dotted(version):
    return ".".join(map(str, version))


def _probe():
    """What each step of tools/probe.py found, what was written to stderr, and how the process ended."""
    silencers = ("TORCH_NPU_WARNING_DISABLE", "TORCH_NPU_DISABLED_WARNING")
    environment = {name: value for name, value in os.environ.items() if name not in silencers}
    # Not by -m, which would import the package before the first step.
    command = [sys.executable, "-X", "faulthandler", "-c", "import sys; exec(open(sys.argv[1]).read())", str(_PROBE)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return {}, "", f"did not end within {_SECONDS} s"
    steps = {}
    for line in done.stdout.splitlines():
        try:
            step = json.loads(line)
            steps[step.pop("step")] = step
        except (ValueError, KeyError, AttributeError):
            continue
    end = f"died of signal {-done.returncode}" if done.returncode < 0 else f"ended with status {done.returncode}"
    return steps, done.stderr, end


def _judge(steps, end):
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


def _result(name, about, found):
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


def _advice(name, error):
    known = {
        "GLIBCXX": "see libstdc++ above",
        "was built for torch": "see torch above",
        "undefined symbol": "torch_npu was built for another torch, or LD_LIBRARY_PATH has an older CANN; install it again",
        "TORCH_NPU_LIBRARY_PATH": f"TORCH_NPU_LIBRARY_PATH is {_shown('TORCH_NPU_LIBRARY_PATH')}: correct or unset it",
        "INF_NAN_MODE_ENABLE": "unset INF_NAN_MODE_ENABLE",
        "cannot load the device library": "set TORCH_NPU_LIBRARY_PATH=softnpu for the one that torch_npu brings along",
        "No module named 'torch'": f"{sys.executable} -m pip install torch=={_built_for()}.*",
        "out of memory": "other processes hold it (npu-smi info shows them), or SOFTNPU_DEVICE_MEMORY is too little",
    }
    for words, advice in known.items():
        if words in error:
            return advice
    for variable in re.findall(r"\b[A-Z]+_[A-Z_]+\b", error):
        if variable in os.environ:
            return f"correct or unset {variable}"
    return f"{sys.executable} {_PROBE} shows more" if name != "torch" else "install torch again"


def _shown(variable):
    return f"'{os.environ[variable]}'" if variable in os.environ else "not set"


def _variables(steps, stderr):
    """Those of the project that are set, with what the plugin and the device said about their values."""
    known = {name for step in ("variables", "device_variables") for name in steps.get(step, {}).get("found", {}).get("names", [])}
    broken = "plugin" if not known else "device library" if "found" not in steps.get("library", {}) else None
    ours = ("TORCH_NPU_", "SOFTNPU_")
    others = ("ASCEND_", "ACL_", "HCCL_", "NPU_", "INF_NAN_MODE_")
    for name in sorted(os.environ):
        like = [] if name in known else difflib.get_close_matches(name, known, 1, 0.9)
        if name not in known and not like and not name.startswith(ours + others):
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
        elif like or name.startswith(ours):
            like = like or difflib.get_close_matches(name, known, 1)
            yield note("environment", f"{text} is read by nothing here" + (f"; did you mean {like[0]}?" if like else ""))
        else:
            yield note("environment", f"{text} is not read by torch_npu")
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        yield note("environment", "TORCH_DEVICE_BACKEND_AUTOLOAD=0: programs have to import torch_npu themselves")
    if os.environ.get("GOMP_CPU_AFFINITY"):
        yield note("environment", "GOMP_CPU_AFFINITY binds threads to cores; unset it if the device is slow")


def _shared_memory():
    folder = os.environ.get("SOFTNPU_LEDGER_DIR") or "/dev/shm"
    try:
        room = os.statvfs(folder)
    except OSError as error:
        yield problem("shared memory", f"{folder}: {error.strerror}", "make it, or name another one by SOFTNPU_LEDGER_DIR")
        return
    total, free = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    text = f"{folder} has {free >> 20} of {total >> 20} MiB free"
    if free < 2 << 20:
        yield problem("shared memory", f"{text}; the account of device memory needs 2", "remove files, or set SOFTNPU_LEDGER_DIR")
    elif total <= _SMALL_SHM:
        yield note("shared memory", f"{text}: little for the workers of a DataLoader; containers take --shm-size")
    else:
        yield ok("shared memory", text)


def _log():
    home = Path(os.environ.get("HOME", "/"), "ascend", "log")
    folder = Path(os.environ.get("ASCEND_PROCESS_LOG_PATH") or home, "plog").absolute()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            yield ok("log", f"{folder}")
    except OSError as error:
        yield note("log", f"{folder} cannot be written: {error.strerror}; ASCEND_PROCESS_LOG_PATH names another folder")


def _hints(steps):
    cores = len(os.sched_getaffinity(0))
    threads = steps.get("torch", {}).get("found", {}).get("threads")
    if threads is not None and threads > cores:
        yield note("threads", f"torch uses {threads} threads on {cores} cores; OMP_NUM_THREADS={cores} is faster")
    elif threads is not None:
        yield ok("threads", f"torch uses {threads} on {cores} cores")
    yield note("processes", "start those that use npu with spawn: a forked child of a process that used a device is refused")


if __name__ == "__main__":
    sys.exit(main())
