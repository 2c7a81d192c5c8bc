"""What the tool changed or found, in one form for all reports."""

from __future__ import annotations

from dataclasses import dataclass, field

HIGH = "high"
MEDIUM = "medium"
LOW = "low"

INSERT = "INSERT"
MODIFY = "MODIFY"
DELETE = "DELETE"
TODO = "TODO"
"""Not applied: the report asks the user to decide."""


@dataclass
class Change:
    """One edit, or one place that needs a decision. Lines count from 1 in the original file."""

    file: str
    start: int
    end: int
    kind: str
    message: str
    confidence: str

    @property
    def applied(self) -> bool:
        return self.kind != TODO


@dataclass
class Use:
    """A function of torch that the file uses, by its name on npu."""

    name: str
    line: int


@dataclass
class Finding:
    """A use that npu does not support, or a file that was not converted."""

    file: str
    start: int
    end: int
    name: str
    tip: str
    severity: str


@dataclass
class FileResult:
    file: str
    text: str | None = None
    """The new text, or None if the file is unchanged."""
    changes: list[Change] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    problem: str = ""
    """Why the file was copied without conversion."""
