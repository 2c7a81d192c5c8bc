"""Converts the files of a project, in parallel, and gives the results in the order of the files."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import multiprocessing
import multiprocessing.connection
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from . import sources
from .changes import FileResult
from .convert import convert, is_relevant
from .project import Project, add
from .settings import Settings

_RECURSION = 20_000
SECONDS = 20
"""Processor time for one file. The parser's time grows with the square of the length of an expression."""
_COLLECT = 10
"""Files between two collections of garbage in a process."""
_STACK = 100 << 20
"""Bytes that the stack of a process may grow to; the parser is recursive."""


def read_project(root: Path, files: list[str]) -> Project:
    project = Project()
    for file in files:
        if file.endswith(".py"):
            project.modules.update(file.removesuffix(".py").split("/"))
            try:
                content = (root / file).read_bytes()
                if len(content) <= sources.LIMIT:
                    add(project, sources.decode(content).text)
            except (OSError, sources.Unreadable):
                continue  # reported when the file is converted
    return project


def run(
    root: Path, target: Path, files: list[str], settings: Settings, project: Project, jobs: int, done: Callable[[], None]
) -> Iterator[FileResult]:
    """Converts files below root and writes those that change below target. The results have no text; it is "" if it changed.

    The files are converted in forked processes, because the parser may crash on files that are nested very deeply. No thread is
    used, unlike in multiprocessing.Pool: this module runs while torch_npu is being imported, so that another thread would wait
    for the import lock for ever.
    """
    wanted = [file for file in files if sources.wants(file)]
    pool = _Pool(Worker(root, target, settings, project), wanted)
    waiting: dict[int, FileResult] = {}
    position = 0
    try:
        for _ in range(min(jobs, len(wanted))):
            pool.start()
        while position < len(wanted):
            waiting.update(pool.results())
            while position in waiting:
                yield waiting.pop(position)
                done()
                position += 1
    finally:
        pool.stop()


class _Pool:
    def __init__(self, worker: Worker, files: list[str]) -> None:
        self.worker = worker
        self.files = files
        self.context = multiprocessing.get_context("fork")
        self.following = self.context.Value("q", 0)
        self.processes: dict[Connection, Any] = {}
        self.current: dict[Connection, int] = {}

    def start(self) -> None:
        receiver, sender = self.context.Pipe(duplex=False)
        process = self.context.Process(target=_serve, args=(self.worker, self.files, self.following, sender), daemon=True)
        process.start()
        sender.close()
        self.processes[receiver] = process

    def results(self) -> Iterator[tuple[int, FileResult]]:
        """Waits for results. A process that died gives the result of its file, and is replaced."""
        for ready in multiprocessing.connection.wait(list(self.processes)):
            assert isinstance(ready, Connection)
            try:
                index, result = ready.recv()
            except EOFError:
                process = self.processes.pop(ready)
                process.join()
                lost = self.current.pop(ready, None)
                if lost is not None:
                    late = process.exitcode == -signal.SIGPROF
                    reason = f"it takes more than {SECONDS} s" if late else "the parser crashed; it is nested too deeply"
                    yield lost, FileResult(self.files[lost], problem=reason)
                    self.start()
                continue
            if result is None:
                self.current[ready] = index
            else:
                del self.current[ready]
                yield index, result

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
            process.join()


def _serve(worker: Worker, files: list[str], following: Any, sender: Connection) -> None:
    faulthandler.disable()  # a crash of the parser is reported by the parent
    sys.setrecursionlimit(max(_RECURSION, sys.getrecursionlimit()))
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_STACK, (_STACK if hard == resource.RLIM_INFINITY else min(_STACK, hard), hard))
    gc.freeze()
    gc.disable()  # collecting after some files instead saves a third of the time
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, also within the parser
    while True:
        with following.get_lock():
            index = following.value
            following.value += 1
        if index >= len(files):
            return
        sender.send((index, None))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        result = worker.convert(files[index])
        signal.setitimer(signal.ITIMER_PROF, 0)
        if index % _COLLECT == 0:
            gc.collect()
        result.text = "" if result.text is not None else None  # the text is on disk
        sender.send((index, result))


class Worker:
    def __init__(self, root: Path, target: Path, settings: Settings, project: Project) -> None:
        self.root = root
        self.target = target
        self.settings = settings
        self.project = project

    def convert(self, file: str) -> FileResult:
        path = self.root / file
        try:
            if path.stat().st_size > sources.LIMIT:
                return FileResult(file, problem="it is larger than 10 MB")
            source = sources.decode(path.read_bytes())
        except OSError as error:
            return FileResult(file, problem=f"it cannot be read: {error.strerror}")
        except sources.Unreadable as error:
            return FileResult(file, problem=str(error))
        if file.endswith(".py") and not is_relevant(source.text, self.settings):
            return FileResult(file)
        result = convert(file, source.text, self.settings, self.project)
        if result.text is not None:
            output = self.target / file
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_bytes(source.encode(result.text))
            os.chmod(output, path.stat().st_mode & 0o777)
        return result
