"""The files that tell the user what happened: log, csv, xlsx, JSON, HTML and SARIF."""

from __future__ import annotations

import csv
import html
import io
import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...version import __version__
from .changes import LOW, TODO, Change, Finding

LOG = "msFmkTranspltlog.txt"
CHANGES = "change_list.csv"
UNSUPPORTED = "unsupported_op"
FORMATS = {"json": "transplant_report.json", "html": "transplant_report.html", "sarif": "transplant_report.sarif"}
FILES = (LOG, CHANGES, f"{UNSUPPORTED}.csv", f"{UNSUPPORTED}.xlsx", *FORMATS.values())
_UNSUPPORTED_COLUMNS = ("File", "Start Line", "End Line", "OP", "Tips")
_CHANGE_COLUMNS = ("File", "Start Line", "End Line", "Operation Type", "Message", "Confidence")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass
class Report:
    source: str
    files: int = 0
    converted: int = 0
    changes: list[Change] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def applied(self) -> list[Change]:
        return [change for change in self.changes if change.applied]

    @property
    def todos(self) -> list[Change]:
        return [change for change in self.changes if not change.applied]

    def severity(self) -> str:
        """The worst of error, warning and note; empty if there is nothing to say."""
        if any(finding.severity == "error" for finding in self.findings):
            return "error"
        if self.todos or any(finding.severity == "warning" for finding in self.findings):
            return "warning"
        return "note" if self.findings else ""


def write(report: Report, folder: Path, formats: Iterable[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOG).write_text(_log(report), encoding="utf-8")
    (folder / CHANGES).write_text(_csv(_CHANGE_COLUMNS, _change_rows(report)), encoding="utf-8")
    rows = [(each.file, each.start, each.end, each.name, each.tip) for each in report.findings]
    (folder / f"{UNSUPPORTED}.csv").write_text(_csv(_UNSUPPORTED_COLUMNS, rows), encoding="utf-8")
    _xlsx(folder / f"{UNSUPPORTED}.xlsx", rows)
    writers = {"json": _json, "html": _html, "sarif": _sarif}
    for name in formats:
        (folder / FORMATS[name]).write_text(writers[name](report), encoding="utf-8")


def _change_rows(report: Report) -> list[tuple[Any, ...]]:
    return [(each.file, each.start, each.end, each.kind, each.message, each.confidence) for each in report.changes]


def _csv(columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def _xlsx(path: Path, rows: list[tuple[Any, ...]]) -> None:
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet("unsupported_op")
    sheet.append(_UNSUPPORTED_COLUMNS)
    for row in rows:
        # A spreadsheet must not run text as a formula.
        sheet.append([f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row])
    book.save(path)


def _log(report: Report) -> str:
    lines = [f"conversion of {report.source} by torch_npu {__version__}"]
    entries: list[tuple[str, int, str]] = []
    for change in report.changes:
        level = "WARNING" if change.kind == TODO else "INFO"
        position = f"line: {change.start} ~ {change.end}"
        text = f"{change.file:<40} {position:<20} Operation Type: {change.kind:<8} Message: {change.message}"
        entries.append((change.file, change.start, f"{_stamp(level)}{text} ({change.confidence})"))
    for finding in report.findings:
        position = f"line: {finding.start} ~ {finding.end}"
        text = f"{finding.file:<40} {position:<20} Operation Type: UNSUPPORTED Message: {finding.name}: {finding.tip}"
        entries.append((finding.file, finding.start, _stamp("WARNING") + text))
    entries.sort(key=lambda entry: entry[:2])
    body = [_stamp("INFO") + line for line in lines]
    body += [entry[2] for entry in entries]
    body += [_stamp("WARNING") + note for note in report.notes]
    body.append(_stamp("INFO") + summary(report))
    return "\n".join(body) + "\n"


def _stamp(level: str) -> str:
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')} {f'[{level}]':<12}"


def summary(report: Report) -> str:
    low = sum(change.confidence == LOW for change in report.todos)
    unsupported = sum(finding.severity != "note" for finding in report.findings)
    return (
        f"{report.converted} of {report.files} files converted, {len(report.applied)} changes, {low} places to decide, "
        f"{unsupported} unsupported or unconverted"
    )


def _json(report: Report) -> str:
    content = {
        "tool": "ms_fmk_transplt",
        "version": __version__,
        "source": report.source,
        "files": report.files,
        "converted": report.converted,
        "severity": report.severity(),
        "changes": [{**asdict(change), "applied": change.applied} for change in report.changes],
        "unsupported": [asdict(finding) for finding in report.findings],
        "notes": report.notes,
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _html(report: Report) -> str:
    def table(title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
        head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>\n" for row in rows)
        return f"<h2>{title} ({len(rows)})</h2>\n<table><tr>{head}</tr>\n{body}</table>\n"

    findings = [(each.file, each.start, each.name, each.tip, each.severity) for each in report.findings]
    changes = [(each.file, each.start, each.kind, each.message, each.confidence) for each in report.applied]
    todos = [(each.file, each.start, each.message) for each in report.todos]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Conversion report</title><style>'
        "body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}td,th{border:1px solid #aaa;padding:.2em .6em;"
        "text-align:left}</style></head><body>\n"
        f"<h1>Conversion of {html.escape(report.source)}</h1>\n<p>{html.escape(summary(report))}</p>\n"
        + "".join(f"<p>{html.escape(note)}</p>\n" for note in report.notes)
        + table("Not supported or not converted", ("File", "Line", "Name", "Tip", "Severity"), findings)
        + table("To decide", ("File", "Line", "Message"), todos)
        + table("Changes", ("File", "Line", "Operation", "Message", "Confidence"), changes)
        + "</body></html>\n"
    )


def _sarif(report: Report) -> str:
    def result(rule: str, level: str, message: str, file: str, start: int, end: int) -> dict[str, Any]:
        region = {"startLine": max(start, 1), "endLine": max(end, start, 1)}
        location = {"physicalLocation": {"artifactLocation": {"uri": file}, "region": region}}
        return {"ruleId": rule, "level": level, "message": {"text": message}, "locations": [location]}

    results = [
        result("unsupported", each.severity, f"{each.name}: {each.tip}", each.file, each.start, each.end)
        for each in report.findings
    ]
    results += [result("decide", "warning", each.message, each.file, each.start, each.end) for each in report.todos]
    results += [result("changed", "note", each.message, each.file, each.start, each.end) for each in report.applied]
    rules = [
        {"id": "unsupported", "shortDescription": {"text": "npu does not support the function, or the file was not converted"}},
        {"id": "decide", "shortDescription": {"text": "a place that the user has to decide"}},
        {"id": "changed", "shortDescription": {"text": "a change that was made"}},
    ]
    driver = {"name": "ms_fmk_transplt", "version": __version__, "rules": rules}
    content = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(content, indent=2) + "\n"
