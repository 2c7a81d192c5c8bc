"""A replacement of a name in torch while "cuda" means npu: (owner, name, value). The owner is a module or a class.

Replacements = Iterable[Replacement]     # what each part of this package yields
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Replacement = tuple[Any, str, Any]
Replacements = Iterable[Replacement]

REMOVED = object()
"""The value of a name that is deleted, so that the module's __getattr__ is called for it."""
