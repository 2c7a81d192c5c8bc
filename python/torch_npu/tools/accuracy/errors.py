"""Errors of the accuracy commands: one sentence and the exit status. Statuses from 2 on have the numbers of the vendor's
msaccucmp."""

from __future__ import annotations

DIFFERENT = 1  # the runs were compared and differ
NO_DUMP_FILE = 2
INVALID_PATH = 3
UNREADABLE = 4
INVALID_PARAMETER = 6
CANNOT_WRITE = 19
INVALID_FORMAT = 22
UNSUPPORTED = 30
INVALID_ALGORITHM = 31


class AccuracyError(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
