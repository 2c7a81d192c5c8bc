"""Converts the files of a project, in parallel, and gives the results in the order of the files."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import sources
from .changes import FileResult
from .convert import convert, is_relevant
from .project import Project, add
from .settings import Settings

_RECURSION = 20_000
_SMALL = 8
"""So few files are converted in this process."""


def read_project(root: Path, files: list[str]) -> Project:
    project = Project()
    for file in files:
        if file.endswith(".py"):
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
    """Converts files below root and writes those that change below target. The text of a result is None if it is unchanged."""
    wanted = [file for file in files if sources.wants(file)]
    sys.setrecursionlimit(max(_RECURSION, sys.getrecursionlimit()))
    worker = Worker(root, target, settings, project)
    if jobs < 2 or len(wanted) <= _SMALL:
        for file in wanted:
            yield worker.convert(file)
            done()
        return
    yield from _parallel(worker, wanted, jobs, done)


def _parallel(worker: Worker, files: list[str], jobs: int, done: Callable[[], None]) -> Iterator[FileResult]:
    """Forks processes that take files one by one.

    No thread is used, unlike in multiprocessing.Pool: this module runs while torch_npu is being imported, so that another thread
    would wait for the import lock for ever.
    """
    context = multiprocessing.get_context("fork")
    following = context.Value("q", 0)
    pipes = {}
    for _ in range(jobs):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_serve, args=(worker, files, following, sender), daemon=True)
        process.start()
        sender.close()
        pipes[receiver] = process
    waiting: dict[int, FileResult] = {}
    position = 0
    try:
        while position < len(files):
            for ready in multiprocessing.connection.wait(list(pipes)):
                assert isinstance(ready, multiprocessing.connection.Connection)
                try:
                    index, result = ready.recv()
                except EOFError:
                    pipes.pop(ready).join()
                    if not pipes and position + len(waiting) < len(files):
                        raise OSError("a process that converts files died") from None
                    continue
                waiting[index] = result
            while position in waiting:
                yield waiting.pop(position)
                done()
                position += 1
    finally:
        for process in pipes.values():
            process.terminate()
            process.join()


def _serve(worker: Worker, files: list[str], following: Any, sender: multiprocessing.connection.Connection) -> None:
    while True:
        with following.get_lock():
            index = following.value
            following.value += 1
        if index >= len(files):
            sender.close()
            return
        result = worker.convert(files[index])
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
