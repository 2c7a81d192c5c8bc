"""Facts about all Python files of a project that the conversion of one file needs: its classes and its functions' parameters.

They are read by regular expressions, because a complete parse of every file would double the run time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from .words import words

_CLASS = re.compile(r"^([ \t]*)class[ \t]+(\w+)[ \t]*(?:\(([^)]*)\))?[ \t]*:", re.MULTILINE)
_METHOD = re.compile(
    r"^([ \t]*)(?:async[ \t]+)?def[ \t]+(cuda|to|is_cuda)[ \t]*\(|^([ \t]*)self\.(is_cuda|cuda)[ \t]*[:=][^=]", re.MULTILINE
)
_FUNCTION = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)[ \t]*\(([^()]*(?:\([^()]*\)[^()]*)*)\)", re.MULTILINE)
_TORCH_BASES = words(
    "Module Tensor Parameter Sequential ModuleList ModuleDict LightningModule LightningDataModule PreTrainedModel Function "
    "DataParallel DistributedDataParallel Optimizer"
)
_TORCH_PREFIXES = ("nn.", "torch.", "pl.", "torchvision.", "transformers.", "timm.")


@dataclass
class ClassFacts:
    bases: tuple[str, ...]
    members: frozenset[str]


@dataclass
class Project:
    classes: dict[str, list[ClassFacts]] = field(default_factory=lambda: defaultdict(list))
    modules: set[str] = field(default_factory=set)
    """Names of the files and folders of the project."""
    uses_torch: bool = False
    parameters: dict[str, list[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(list))
    """Function or method name -> the parameters of each definition, without self."""

    def is_torch_class(self, name: str, seen: frozenset[str] = frozenset()) -> bool | None:
        """Whether a class of the project derives from a class of torch; None if the project has no such class."""
        facts = self.classes.get(name)
        if not facts:
            return None
        return any(self._is_torch_base(base, seen | {name}) for each in facts for base in each.bases)

    def _is_torch_base(self, base: str, seen: frozenset[str]) -> bool:
        last = base.rsplit(".", 1)[-1]
        if last in _TORCH_BASES or base.startswith(_TORCH_PREFIXES):
            return True
        return last not in seen and bool(self.is_torch_class(last, seen))

    def unknown_base(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a base class is not a class of the project, so that it may be one of torch."""
        for facts in self.classes.get(name, ()):
            for base in facts.bases:
                last = base.rsplit(".", 1)[-1]
                if last in ("object", "ABC", "Generic", "Protocol", "Exception", "dict", "list", "tuple", "str", "NamedTuple"):
                    continue
                if last not in self.classes or (last not in seen and self.unknown_base(last, seen | {name})):
                    return True
        return False

    def has_member(self, name: str, member: str) -> bool:
        return any(member in facts.members for facts in self.classes.get(name, ()))


def read(texts: Iterable[str]) -> Project:
    project = Project()
    for text in texts:
        add(project, text)
    return project


def add(project: Project, text: str) -> None:
    project.uses_torch = project.uses_torch or "torch" in text
    if "class" in text:
        _add_classes(project, text)
    for match in _FUNCTION.finditer(text):
        if "device" in match[2] or "backend" in match[2]:
            names = [re.split(r"[:=]", part)[0].strip() for part in match[2].split(",")]
            project.parameters[match[1]].append(tuple(name for name in names if name not in ("self", "cls")))
        elif match[1] in project.parameters:
            project.parameters[match[1]].append(())


def _add_classes(project: Project, text: str) -> None:
    found = list(_CLASS.finditer(text))
    methods = list(_METHOD.finditer(text)) if "cuda" in text or "def to(" in text else []
    for index, match in enumerate(found):
        end = found[index + 1].start() if index + 1 < len(found) else len(text)
        members = frozenset(
            method[2] or method[4]
            for method in methods
            if match.end() <= method.start() < end and len(method[1] or method[3] or "") > len(match[1])
        )
        bases = tuple(base.strip().split("[")[0] for base in (match[3] or "").split(",") if base.strip() and "=" not in base)
        project.classes[match[2]].append(ClassFacts(bases, members))
