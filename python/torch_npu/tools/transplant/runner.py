"""Converts the files of a project, in parallel, and gives the results in the order of the files."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

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
    chunk = max(1, min(16, len(wanted) // (jobs * 4)))
    with multiprocessing.get_context("fork").Pool(jobs, _start, (worker,)) as pool:
        for result in pool.imap(_convert, wanted, chunk):
            yield result
            done()


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


_worker: Worker


def _start(worker: Worker) -> None:
    global _worker
    _worker = worker


def _convert(file: str) -> FileResult:
    result = _worker.convert(file)
    result.text = "" if result.text is not None else None  # the text is on disk
    return result
