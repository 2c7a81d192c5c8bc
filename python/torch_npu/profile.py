"""python -m torch_npu.profile script.py ARGUMENTS: profiles an unchanged program and prints the causes of lost time.

    python -m torch_npu.profile train.py --epochs 1
    python -m torch_npu.profile --out traces --no-stack -m package.module

Writes all results and advice.html to OUT/*_ascend_pt, and prints the findings. The exit status is that of the program. If the
program fails, or Ctrl-C or SIGTERM ends it, the result covers the time until then. The records stay in memory until the program
ends, so profile only a few steps."""

from __future__ import annotations

import argparse
import os
import runpy
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures.thread import _threads_queues
from pathlib import Path
from typing import Any


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_npu.profile", description="Profiles a program.")
    parser.add_argument("--out", type=Path, default=Path("npu_profile"), help="folder of the results (npu_profile)")
    parser.add_argument("--no-stack", action="store_true", help="do not record Python lines: less overhead")
    parser.add_argument("--memory", action="store_true", help="record allocations")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is the name of a module")
    parser.add_argument("program", help="a script, or with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    options = parser.parse_args(arguments)
    if not options.module and not Path(options.program).is_file():
        parser.error(f"there is no file {options.program}")
    options.out = options.out.resolve()  # the program may change the working directory
    try:
        folder, status = record(options)
        advise(folder)
    except OSError as error:
        print(f"torch_npu.profile: {error.strerror or error}", file=sys.stderr)
        return 1
    return status


def advise(folder: Path) -> None:
    from .profiler.advise import text, write_page
    from .profiler.findings import examine
    from .profiler.folder import read_any

    records = read_any(folder)
    found = examine(records)
    target = folder / "advice.html"
    write_page(target, records, found, str(folder))
    print(text(records, found), file=sys.stderr)
    print(f"page: {target}", file=sys.stderr)


def end_by_exception() -> Any:
    """Makes SIGTERM raise SystemExit, and returns the old handler. A child of the program still ends by the signal, as it does
    without a profile. Python loses signals that arrive during a fork, so SIGTERM is blocked until the child has its handler."""
    masks = threading.local()

    def raise_exit(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    def before() -> None:
        masks.old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def after_in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.old)

    def after_in_child() -> None:
        if signal.getsignal(signal.SIGTERM) is raise_exit:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        after_in_parent()

    os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)
    return signal.signal(signal.SIGTERM, raise_exit)


def status_of(run: Callable[[], object]) -> int:
    """The exit status of a program that ends as `run` does."""
    try:
        run()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException as error:
        traceback.print_exc()
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def wait_for_threads() -> None:
    """Waits for the threads of the program, as the end of Python does. Those of pools end later."""
    while threads := [thread for thread in threading.enumerate() if _is_waited_for(thread)]:
        threads[0].join()


def _is_waited_for(thread: threading.Thread) -> bool:
    return not thread.daemon and thread is not threading.current_thread() and thread not in _threads_queues


def record(options: Any) -> tuple[Path, int]:
    """Runs the program. Returns the folder of the result and the exit status of the program. A process that the program forked
    exits here and writes no result."""
    from .profiler import profile, tensorboard_trace_handler

    process = os.getpid()
    worker = f"{socket.gethostname()}_{os.getpid()}"
    handler = tensorboard_trace_handler(str(options.out), worker)
    before = set(options.out.glob(f"{worker}_*_ascend_pt"))
    old_argv, old_path = sys.argv, list(sys.path)
    sys.argv = [options.program, *options.arguments]
    if not options.module:
        sys.path.insert(0, str(Path(options.program).resolve().parent))
    old_handler = end_by_exception()
    prof = profile(record_shapes=True, with_stack=not options.no_stack, profile_memory=options.memory, on_trace_ready=handler)
    prof.start()
    try:
        if options.module:
            status = status_of(lambda: runpy.run_module(options.program, run_name="__main__", alter_sys=True))
        else:
            status = status_of(lambda: runpy.run_path(options.program, run_name="__main__"))
        if status != 128 + signal.SIGTERM:
            status = status_of(wait_for_threads) or status
    finally:
        sys.argv, sys.path[:] = old_argv, old_path
        signal.signal(signal.SIGTERM, old_handler)
    if os.getpid() != process:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)  # a normal exit would wait for threads of torch's profiler, which do not exist in the child
    try:
        prof.stop()
    except RuntimeError as error:  # the failure of a task that no call of the program has raised
        print(f"torch_npu.profile: {error}", file=sys.stderr)
        status = status or 1
    [folder] = set(options.out.glob(f"{worker}_*_ascend_pt")) - before
    return folder, status


if __name__ == "__main__":
    sys.exit(main())
