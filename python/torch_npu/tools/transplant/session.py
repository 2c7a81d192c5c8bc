"""One run of the command: checks, conversion, reports."""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from . import custom_rules, launcher, output, program_checks, reports, runner, sources, support
from .changes import FileResult, Finding
from .output import BadInput
from .reports import Report
from .rules_similar import OLD_VERSIONS, SIMILAR
from .settings import Settings

_PROGRESS = 50
"""From this number of files on, a terminal shows progress."""


class Session:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.given = _existing(Path(options.input))
        self.is_file = self.given.is_file()
        self.root = self.given.parent if self.is_file else self.given
        self.found = self._listing() if not options.undo else None

    def _listing(self) -> sources.Listing:
        if self.is_file:
            if not sources.wants(self.given.name):
                raise BadInput(f"the input {self.given} is no Python file, notebook, shell script or configuration file")
            return sources.Listing([self.given.name], [], [], self.given.stat().st_size, [])
        try:
            return sources.listing(self.root)
        except OSError as error:
            raise BadInput(f"the input {error.filename} cannot be read: {error.strerror}") from None

    def run(self) -> int:
        options = self.options
        if options.undo:
            count = output.undo(self.root, options.force)
            print(f"{count} files restored in {self.root}")
            return 0
        traced = options.trace and program_checks.entry_file(self.root, options.trace, "--trace")
        verified = options.verify and program_checks.entry_file(self.root, options.verify, "--verify")
        status, target = self._run()
        if traced and not program_checks.trace(self.root, traced):
            status = status or 3
        if verified and target is not None and not program_checks.verify(self.root, verified, target):
            status = status or 3
        return status

    def _run(self) -> tuple[int, Path | None]:
        """The exit status, and the folder or file with the result."""
        options = self.options
        settings = self._settings()
        if options.dry_run:
            with tempfile.TemporaryDirectory(prefix="transplant_") as folder:
                report = self._convert(Path(folder), settings)
                self._print_diff(Path(folder))
            return self._finish(report, None), None
        if options.in_place:
            return self._in_place(settings), None
        target, single = self._target()
        new_folders = _create(target.parent)
        try:
            staged = output.stage(target.parent)
            try:
                report = self._convert(staged, settings)
                self._complete(staged, report, settings)
                if single:
                    self._publish_file(staged, target)
                else:
                    output.publish(staged, target, options.force)
            finally:
                shutil.rmtree(staged, ignore_errors=True)
        except BaseException:
            for each in new_folders:
                if each.is_dir() and not any(each.iterdir()):
                    each.rmdir()
            raise
        return self._finish(report, target), target

    def _settings(self) -> Settings:
        options = self.options
        settings = Settings(
            version=options.version,
            specify_device=options.specify_device,
            similar=options.similar,
            amp_model=options.amp_model,
            agnostic=options.device_agnostic,
            distributed=options.distributed,
            target_model=options.target_model,
            single_file=self.is_file,
        )
        if options.rule:
            try:
                settings.rules = custom_rules.load(Path(options.rule))
            except custom_rules.RuleError as error:
                raise BadInput(str(error)) from None
        if options.distributed:
            settings.main = self._main(options.main)
        if options.similar:
            settings.replaceable = self._replaceable()
        return settings

    def _main(self, given: str) -> str:
        assert self.found is not None
        for candidate in (self.root / given, Path(given)):
            path = candidate.resolve()
            if path.is_file() and path.suffix == ".py" and path.is_relative_to(self.root.resolve()):
                relative = path.relative_to(self.root.resolve()).as_posix()
                if relative in self.found.files:
                    return relative
        raise BadInput(f"the entry file {given} of distributed -m is no Python file below {self.given}")

    def _replaceable(self) -> frozenset[str]:
        if self.options.version.startswith(OLD_VERSIONS):
            return frozenset(SIMILAR)
        try:
            answers = support.ask(set(SIMILAR))
        except support.Unavailable as error:
            raise BadInput(
                f"-sim needs torch_npu to know what is not supported: {error}; or give the version with -v 1.8.1"
            ) from None
        return frozenset(name for name, answer in answers.items() if answer.status in ("unsupported", "fallback"))

    # where the result goes

    def _target(self) -> tuple[Path, bool]:
        """The folder or file to write, and whether it is a single file."""
        given = self.options.output
        path = Path(given)
        if path.suffix == ".py" and not path.is_dir() and not given.endswith("/"):
            if not self.is_file:
                raise BadInput(f"the output {path} is a file, but the input {self.given} is a folder: give a folder")
            if path.resolve() == self.given.resolve():
                raise BadInput(f"the output {path} is the input; --in-place changes the file itself")
            target, single = path, True
        else:
            if path.exists() and not path.is_dir():
                raise BadInput(f"the output {path} is a file, but must be a folder")
            suffix = "_msft_multi" if self.options.distributed else "_msft"
            target, single = path / f"{self.root.resolve().name or 'root'}{suffix}", False
            inside = not self.is_file and _real(path).is_relative_to(_real(self.root))
            if inside:
                raise BadInput(f"the output {path} is inside the input {self.given}: give a folder outside of it")
        if (target.exists() or target.is_symlink()) and not self.options.force:
            raise BadInput(f"the result {target} exists already: remove it, or replace it with --force")
        return target, single

    def _publish_file(self, staged: Path, target: Path) -> None:
        assert self.found is not None
        os.replace(staged / self.given.name, target)
        for name in (*reports.FILES, launcher.NAME):
            if (staged / name).exists():
                os.replace(staged / name, target.parent / name)

    def _in_place(self, settings: Settings) -> int:
        if not os.access(self.root, os.W_OK):
            raise BadInput(f"the input {self.root} cannot be written")
        staged = output.stage(self.root)
        try:
            report = self._convert(staged, settings)
            changed = [file for file in self._files() if (staged / file).exists()]
            for file in changed:
                if not os.access(self.root / file, os.W_OK):
                    raise BadInput(f"the file {self.root / file} cannot be written; nothing was changed")
            output.replace_in_place(self.root, staged, changed)
            if settings.distributed:
                self._launcher(self.root, settings)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        folder = Path(self.options.output) if self.options.output else self.root / output.UNDO / "reports"
        reports.write(report, folder, self.options.report)
        return self._finish(report, folder)

    # conversion

    def _files(self) -> list[str]:
        assert self.found is not None
        return self.found.files

    def _convert(self, staged: Path, settings: Settings) -> Report:
        files = self._files()
        report = Report(str(self.given), files=sum(sources.wants(file) for file in files))
        project = runner.read_project(self.root, files)
        progress = _Progress(report.files)
        uses: dict[str, list[tuple[str, int]]] = {}
        for result in runner.run(self.root, staged, files, settings, project, self.options.jobs, progress.step):
            self._add(report, result)
            for use in result.uses:
                uses.setdefault(use.name, []).append((result.file, use.line))
        progress.end()
        assert self.found is not None
        for file in files:
            if file.endswith(sources.KERNELS):
                tip = "CUDA kernels do not run on npu: write them with operators of torch"
                report.findings.append(Finding(file, 1, 1, Path(file).name, tip, "error"))
        report.notes += [f"{path} is neither a file nor a folder and was left out" for path in self.found.skipped]
        self._check_support(report, uses)
        report.findings.sort(key=lambda finding: (finding.file, finding.start, finding.name))
        return report

    def _add(self, report: Report, result: FileResult) -> None:
        report.changes += result.changes
        if result.text is not None:
            report.converted += 1
        if result.problem:
            severity = "error" if result.file.endswith((".py", ".ipynb")) else "note"
            report.findings.append(
                Finding(result.file, 1, 1, Path(result.file).name, f"copied without conversion: {result.problem}", severity)
            )

    def _check_support(self, report: Report, uses: dict[str, list[tuple[str, int]]]) -> None:
        if self.options.no_support_check:
            return
        try:
            answers = support.ask(set(uses))
        except support.Unavailable as error:
            report.notes.append(f"unsupported operators are not listed, because torch_npu cannot be asked: {error}")
            return
        severities = {"unsupported": "error", "fallback": "note"}
        for name, answer in answers.items():
            severity = severities.get(answer.status)
            if severity is not None:
                tip = answer.reason or ("runs on the CPU" if answer.status == "fallback" else f"{name} is not supported now!")
                report.findings += [Finding(file, line, line, name, tip, severity) for file, line in sorted(set(uses[name]))]

    def _complete(self, staged: Path, report: Report, settings: Settings) -> None:
        """Adds the files that were not converted, the launcher and the reports."""
        assert self.found is not None
        if self.found.size > shutil.disk_usage(staged).free:
            raise BadInput(f"the disk of {self.options.output} has less free space than the {self.found.size} bytes of the input")
        for file in output.copy_rest(self.root, staged, self.found, self.found.files):
            if self.is_file:
                raise BadInput(f"the input {self.root / file} cannot be read: Permission denied")
            report.notes.append(f"{file} cannot be read and was left out")
        if settings.distributed:
            self._launcher(staged, settings)
        reports.write(report, staged, self.options.report)

    def _launcher(self, folder: Path, settings: Settings) -> None:
        text = sources.decode((folder / settings.main).read_bytes()).text
        path = folder / launcher.NAME
        path.write_text(launcher.script(settings.main, text), encoding="utf-8")
        path.chmod(0o755)

    # what the user sees

    def _print_diff(self, staged: Path) -> None:
        for file in self._files():
            new = staged / file
            if new.is_file():
                old_text = sources.decode((self.root / file).read_bytes()).text
                new_text = sources.decode(new.read_bytes()).text
                lines = difflib.unified_diff(
                    old_text.splitlines(keepends=True), new_text.splitlines(keepends=True), f"a/{file}", f"b/{file}"
                )
                sys.stdout.writelines(
                    line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
                )

    def _finish(self, report: Report, target: Path | None) -> int:
        stream = sys.stderr if target is None else sys.stdout
        print(reports.summary(report), file=stream)
        for note in _few(report.notes):
            print(f"warning: {note}", file=sys.stderr)
        for finding in _few([each for each in report.findings if each.severity == "error"]):
            print(f"{finding.file}:{finding.start}: {finding.name}: {finding.tip}", file=sys.stderr)
        if target is not None:
            print(f"result: {target}", file=stream)
        print("run success", file=stream)
        levels = {"never": (), "error": ("error",), "warning": ("error", "warning")}[self.options.fail_on]
        return 3 if report.severity() in levels else 0


def _few(items: list) -> Iterable:  # type: ignore[type-arg]
    yield from items[:20]


class _Progress:
    def __init__(self, total: int) -> None:
        self.total = total
        self.count = 0
        self.shown = sys.stderr.isatty() and total >= _PROGRESS

    def step(self) -> None:
        self.count += 1
        if self.shown and (self.count % 5 == 0 or self.count == self.total):
            filled = 30 * self.count // self.total
            bar = "#" * filled + "." * (30 - filled)
            print(
                f"\r[Progress: {100 * self.count / self.total:6.2f}%] {bar} {self.count}/{self.total}",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def end(self) -> None:
        if self.shown:
            print(file=sys.stderr)


def _existing(path: Path) -> Path:
    try:
        path.resolve(strict=True)
    except FileNotFoundError:
        raise BadInput(f"the input {path} does not exist") from None
    except (RuntimeError, OSError) as error:
        reason = getattr(error, "strerror", None) or "its links form a circle"
        raise BadInput(f"the input {path} cannot be read: {reason}") from None
    if not os.access(path, os.R_OK):
        raise BadInput(f"the input {path} cannot be read: Permission denied")
    return path


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (RuntimeError, OSError):
        raise BadInput(f"the output {path} cannot be used: its links form a circle") from None


def _create(folder: Path) -> list[Path]:
    """Creates a folder with its parents, and returns those that are new, innermost first."""
    missing = []
    each = folder
    while not each.exists() and each != each.parent:
        missing.append(each)
        each = each.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the output path {folder} cannot be created: {error.strerror}") from None
    return missing
