"""Converts the text of one file.

result = convert(name, text, settings, project)     # FileResult
"""

from __future__ import annotations

import ast
import re
import warnings

import libcst as cst

from . import configs, notebooks, rules_amp
from .changes import HIGH, Change, FileResult, Use
from .edits import Edits
from .flow import Flow
from .literals import WORDS
from .model import Model, Place, build, dotted
from .names import Names
from .project import Project
from .rules_agnostic import AgnosticAmp
from .rules_custom import CustomRuleEdits
from .rules_device import DeviceRules
from .rules_distributed import DistributedRules
from .rules_similar import SimilarRules
from .rules_specify import RANK, VARIABLE, SpecifyRules
from .settings import Settings
from .target import PREAMBLE, Agnostic, Npu

PYTHON = (".py",)
_MAIN = re.compile(r"^if\s+__name__\s*==", re.MULTILINE)


class Unparsable(Exception):
    pass


def is_relevant(text: str, settings: Settings) -> bool:
    """Whether the tool may have something to say about a Python file."""
    return "torch" in text or WORDS.search(text) is not None or any(word in text for word in settings.rules.words())


def convert(file: str, text: str, settings: Settings, project: Project) -> FileResult:
    if file.endswith(PYTHON):
        return convert_python(file, text, settings, project)
    if file.endswith(".ipynb"):
        return notebooks.convert(file, text, lambda code: convert_python(file, code, settings, project))
    return configs.convert(file, text)


def convert_python(file: str, text: str, settings: Settings, project: Project) -> FileResult:
    result = FileResult(file)
    if not is_relevant(text, settings):
        return result
    try:
        module = _parse(text)
        start = text
        before: list[Change] = []
        if settings.amp_model:
            start, before = rules_amp.convert(file, text, module, settings.amp_model, project)
            module = module if start == text else _parse(start)
        new, changes, uses = _Conversion(file, start, module, settings, project).run()
        changes = before + changes
        if new != text:
            _check(text, new)
    except Unparsable as error:
        result.problem = str(error)
        return result
    except RecursionError:
        result.problem = "the expressions are nested too deeply"
        return result
    result.text = new if new != text else None
    result.changes = changes
    result.uses = uses
    return result


def _parse(text: str) -> cst.Module:
    """The syntax tree of the text without form feeds, which LibCST does not accept; Edits knows where they were."""
    plain = text.replace("\f", "")
    try:
        module = cst.parse_module(plain)
    except cst.ParserSyntaxError as error:
        raise Unparsable(f"line {error.raw_line}: {_reason(text, error)}") from None
    except Exception as error:  # the parser raises others for text that is no Python at all
        raise Unparsable(f"it is not Python 3: {type(error).__name__}") from None
    return module


def _reason(text: str, error: cst.ParserSyntaxError) -> str:
    line = text.splitlines()[error.raw_line - 1 : error.raw_line]
    if line and re.match(r"\s*(print\s+[^(=\s]|exec\s+[^(=\s]|raise\s+\w+\s*,|except\s+\w+\s*,\s*\w+\s*:)", line[0]):
        return "this is Python 2; convert it to Python 3 first"
    return "a syntax error of Python 3"


def _check(old: str, new: str) -> None:
    """The converted text must be Python if the original was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(old)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        try:
            ast.parse(new)
        except SyntaxError as error:
            raise Unparsable(f"the conversion would break line {error.lineno}; this is an error of the tool") from None


class _Conversion:
    def __init__(self, file: str, text: str, module: cst.Module, settings: Settings, project: Project) -> None:
        self.file = file
        self.text = text
        self.module = module
        self.settings = settings
        self.model: Model = build(module, lambda words: WORDS.search(words) is not None)
        self.names = Names(self.model, project)
        self.edits = Edits(file)
        scripted = "jit.script" in text
        self.target: Npu | Agnostic = Agnostic()
        if not settings.agnostic:
            self.target = Npu(settings.one_device, settings.version, scripted)
        self.project = project
        self.is_main = bool(settings.main) and file == settings.main
        self.has_guard = _MAIN.search(text) is not None

    def run(self) -> tuple[str, list[Change], list[Use]]:
        settings, model, names, edits = self.settings, self.model, self.names, self.edits
        needed: set[str] = set()
        CustomRuleEdits(model, names, edits, settings.rules).run()
        flow = Flow(model, names)
        flow.run()
        device = DeviceRules(model, names, flow, self.project, edits, self.target)
        if settings.agnostic:
            device.skipped = AgnosticAmp(model, names, edits).run()
        device.run()
        if settings.similar:
            SimilarRules(model, names, edits, settings.replaceable).run()
        if settings.distributed:
            needed |= DistributedRules(model, names, edits, self.text, settings.target_model, self.is_main).run()
        if settings.distributed:  # DistributedRules selects the device of the entry file
            needed |= SpecifyRules(model, names, edits, self.text, False, RANK).run()
        elif settings.specify_device:
            entry = self.has_guard or settings.single_file
            needed |= SpecifyRules(model, names, edits, self.text, entry, VARIABLE).run()
        self._imports(needed)
        for _, node in device.uses:
            edits.note(node)
        if not (edits.any or device.uses):
            return self.text, [], []
        positions = edits.positions(self.module, self.text)
        if positions is None:
            raise Unparsable("LibCST does not reproduce its text")
        text, changes = edits.apply(self.module, self.text, positions)
        return text, changes, [Use(name, positions.line(node, self.text)) for name, node in device.uses]

    def _imports(self, needed: set[str]) -> None:
        """Adds the imports that converted code needs, before the first import of torch."""
        place = self._first_torch_import()
        if place is None:
            return
        lines = [f"import {name}" for name in sorted(needed) if name not in self.model.scope.bindings]
        if self.settings.agnostic:
            if len(self.edits) and "DEVICE_TYPE =" not in self.text:
                if "torch" not in self.model.scope.bindings:
                    lines.append("import torch")
                self.edits.after(self._last_import(place), PREAMBLE, "define DEVICE_TYPE", HIGH)
        elif (len(self.edits) or self.has_guard or self.is_main) and not self._imports_plugin():
            lines.append(self.target.import_line)
        if lines:
            self.edits.before(_statement(place), "\n".join(lines), "add " + ", ".join(lines), HIGH)

    def _imports_plugin(self) -> bool:
        plugin = "torch.npu" if self.target.import_line == "import torch.npu" else "torch_npu"
        for place in self.model.imports:
            if isinstance(place.node, cst.Import):
                names = [dotted(alias.name) for alias in place.node.names]
            else:
                names = [dotted(place.node.module)]
            if any(name == plugin or name.startswith(f"{plugin}.") for name in names):
                return True
        return False

    def _torch_imports(self) -> list[Place]:
        found = []
        for place in self.model.imports:
            if isinstance(place.node, cst.Import):
                names = [dotted(alias.name) for alias in place.node.names]
            else:
                names = ["" if place.node.relative else dotted(place.node.module)]
            guarded = any(isinstance(each, cst.If) and "TYPE_CHECKING" in dotted(each.test) for each in place.path)
            if not guarded and any(name == "torch" or name.startswith("torch.") for name in names):
                found.append(place)
        return found

    def _first_torch_import(self) -> Place | None:
        found = self._torch_imports()
        return next((place for place in found if place.scope.kind == "module"), found[0] if found else None)

    def _last_import(self, first: Place) -> cst.CSTNode:
        """The last import statement of the block of imports that begins with or holds the first import of torch."""
        if len(first.path) != 1:
            return _statement(first)
        last: cst.CSTNode = first.path[0]
        following = list(self.module.body)[list(self.module.body).index(first.path[0]) :]  # type: ignore[arg-type]
        for statement in following:
            small = statement.body if isinstance(statement, cst.SimpleStatementLine) else []
            if not small or not all(isinstance(each, (cst.Import, cst.ImportFrom)) for each in small):
                break
            last = statement
        return last


def _statement(place: Place) -> cst.CSTNode:
    """The statement that begins the line of a node."""
    for node in reversed(place.path):
        if isinstance(
            node, (cst.SimpleStatementLine, cst.If, cst.Try, cst.With, cst.FunctionDef, cst.ClassDef, cst.For, cst.While)
        ):
            return node
    return place.node
