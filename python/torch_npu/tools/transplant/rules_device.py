"""The device rules: torch.cuda, .cuda(), .is_cuda, imports, and the strings that name devices, backends and variables."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from .changes import HIGH, LOW, MEDIUM
from .contexts import Context, context, option_name
from .edits import Edits
from .flow import Flow, convertible, literal_text
from .libraries import GPU_LIBRARIES
from .literals import BACKEND, DEVICE, VARIABLES, is_indexed_device, is_tensor_type, names_backend, names_device, variables
from .model import Model, Node, Place, Scope, dotted, string_value
from .names import FOREIGN, TORCH, USER, Names
from .project import Project
from .target import Agnostic, Npu
from .words import words

# Qualified name -> its last part on npu.
RENAMED = {
    "torch.cuda": "npu",
    "torch.cuda.nvtx": "mstx",
    "torch.cuda.nvtx.range": "mstx_range",
    "torch.cuda.CUDAGraph": "NPUGraph",
    "torch.cuda.CUDAPluggableAllocator": "NPUPluggableAllocator",
    "torch.npu.CUDAGraph": "NPUGraph",
    "torch.distributed.is_nccl_available": "is_hccl_available",
    "torch.distributed.ProcessGroupNCCL": "ProcessGroupHCCL",
    "torch.profiler.ProfilerActivity.CUDA": "NPU",
    "torch.autograd.ProfilerActivity.CUDA": "NPU",
    "torch.Tensor.cuda": "npu",
    "torch.Tensor.is_cuda": "is_npu",
    "torch.nn.Module.cuda": "npu",
    "torch.nn.parameter.Parameter.cuda": "npu",
    "torch.distributed.Backend.NCCL": "HCCL",
}
_DOTTED = re.compile(r"torch\.cuda(\.\w+)*(\(\))?")
_EVALUATED = words("eval exec import_module __import__ patch setattr getattr delattr compile")
_QUESTIONS = words("startswith endswith find index count replace split partition removeprefix")
_EXTENSIONS = frozenset(("torch.utils.cpp_extension.CUDAExtension", "torch.utils.cpp_extension.load_inline"))


class DeviceRules:
    def __init__(self, model: Model, names: Names, flow: Flow, project: Project, edits: Edits, target: Npu | Agnostic) -> None:
        self.model = model
        self.names = names
        self.flow = flow
        self.project = project
        self.edits = edits
        self.target = target
        self.uses: list[tuple[str, Node]] = []
        self.skipped: set[Node] = set()
        """Nodes torch.cuda that another rule has replaced."""
        self._own_cuda = False
        self._own_is_cuda = "is_cuda" in model.attribute_values or "is_cuda" in model.functions
        self._imports_torch = any(name.startswith("torch") for name in _imported(model)) or bool(model.star_imports)

    def run(self) -> None:
        self._classes()
        self._imports()
        for place in self.model.attributes:
            self._chain(place)
        for place in self.model.names:
            self._plain_name(place)
        for place in self.model.calls:
            self._call(place)
        for place in self.model.strings:
            self._string(place)

    # classes that have a method cuda

    def _classes(self) -> None:
        for place in self.model.classes:
            for statement in place.node.body.body:
                if isinstance(statement, cst.FunctionDef) and statement.name.value == "cuda":
                    self._own_method(place, statement)

    def _own_method(self, place: Place, method: cst.FunctionDef) -> None:
        name = place.node.name.value
        decorated = {dotted(decorator.decorator) for decorator in method.decorators}
        if self.project.is_torch_class(name) and not decorated & {"property", "staticmethod"}:
            self.edits.replace(method.name, "npu", f"{name}.cuda overrides that of torch: cuda -> npu", HIGH)
        elif _moves(method) and not decorated:
            members = {each.name.value for each in place.node.body.body if isinstance(each, cst.FunctionDef)}
            if "npu" not in members and "npu = cuda" not in _code(place.node):
                self.edits.after(method, "\nnpu = cuda", f"{name}.cuda moves tensors: add the name npu", MEDIUM)
        else:
            self._own_cuda = True

    # imports

    def _imports(self) -> None:
        for place in self.model.imports:
            node = place.node
            if isinstance(node, cst.Import):
                for alias in node.names:
                    self._module_path(alias.name)
                    if dotted(alias.name).startswith("torch.cuda."):
                        self.uses.append((_on_npu(dotted(alias.name)), alias))
                    self._library(alias, dotted(alias.name))
                continue
            origin = dotted(node.module)
            if not node.relative:
                self._library(node, origin)
            self._module_path(node.module)
            if isinstance(node.names, cst.ImportStar) or node.relative:
                continue
            for alias in node.names:
                qualified = f"{origin}.{dotted(alias.name)}"
                if qualified == "numba.cuda":
                    self._library(node, qualified)
                new = RENAMED.get(qualified)
                if new is not None and isinstance(alias.name, cst.Name):
                    self._imported_name(place, alias, new)
                elif origin.startswith("torch") and dotted(alias.name)[:1].islower():
                    self.uses.append((_on_npu(qualified), alias))

    def _module_path(self, node: Node | None) -> None:
        """The path of an import: torch.cuda.amp."""
        while isinstance(node, cst.Attribute):
            name = dotted(node)
            if name == "torch.cuda.nvtx" and not isinstance(self.target, Agnostic):
                self.edits.replace(node.attr, "mstx", "torch.cuda.nvtx -> torch.npu.mstx", HIGH)
            if name == "torch.cuda" and node not in self.skipped:
                if isinstance(self.target, Agnostic):
                    self.edits.todo(node, "this import of torch.cuda has no device-agnostic form: use torch.get_device_module()")
                else:
                    self.edits.replace(node.attr, "npu", "torch.cuda -> torch.npu", HIGH)
            node = node.value

    def _imported_name(self, place: Place, alias: cst.ImportAlias, new: str) -> None:
        name = alias.name
        assert isinstance(name, cst.Name)
        message = f"import {name.value} -> {new}"
        if isinstance(self.target, Agnostic) and new == "npu":
            self.edits.todo(alias, "this import of torch.cuda has no device-agnostic form: use torch.get_device_module()")
        elif alias.asname is not None:
            self.edits.replace(name, new, message, HIGH)
        elif any(new in scope.bindings for scope in self._scopes()) or place.scope.kind != "module":
            self.edits.replace(name, f"{new} as {name.value}", message, HIGH)
        else:
            self.edits.replace(name, new, message, HIGH)
            bindings = place.scope.bindings[name.value]
            for reference, scope in self._references(name.value):
                if scope.find(name.value) is bindings:
                    self.edits.replace(reference, new, f"{name.value} -> {new}", HIGH)

    def _scopes(self) -> list[Scope]:
        return [self.model.scope, *self.model.function_scopes.values()]

    def _references(self, name: str) -> Iterator[tuple[cst.Name, Scope]]:
        for place in self.model.names:
            if place.node.value == name:
                yield place.node, place.scope
        for place in self.model.attributes:
            root = place.node
            while isinstance(root, cst.Attribute):
                root = root.value
            if isinstance(root, cst.Name) and root.value == name:
                yield root, place.scope

    def _library(self, node: Node, name: str) -> None:
        for library, tip in GPU_LIBRARIES.items():
            if name == library or name.startswith(f"{library}."):
                self.edits.todo(node, tip)

    # attribute chains

    def _chain(self, place: Place) -> None:
        chain = []
        node = place.node
        while isinstance(node, cst.Attribute):
            chain.append(node)
            node = node.value
        qualified = self.names.qualify(node, place.scope)
        if qualified is not None and qualified.split(".")[0] == "torch":
            self._torch_chain(place, chain[::-1], qualified)
            return
        last: cst.Attribute = place.node
        if last.attr.value == "is_cuda" and not _is_stored(place):
            self._is_cuda(last, place)
        elif last.attr.value == "cuda" and qualified is None and not _is_stored(place):
            self._cuda(last, place)
        elif qualified is not None and last.attr.value == "cuda" and self._is_called(place):
            self._cuda(last, place)  # an instance that another module of the project exports

    def _torch_chain(self, place: Place, chain: list[cst.Attribute], qualified: str) -> None:
        start = qualified
        for attribute in chain:
            qualified = f"{qualified}.{attribute.attr.value}"
            new = RENAMED.get(qualified)
            if attribute in self.skipped:
                continue
            if qualified == "torch.cuda":
                self.target.module(self.edits, attribute, HIGH)
            elif new is not None:
                self.edits.replace(attribute.attr, new, f"{qualified} -> {new}", HIGH)
            elif qualified == "torch.version.cuda":
                self.edits.todo(attribute, "torch.version.cuda describes the torch build; it is None without CUDA")
        kept = start == qualified or not isinstance(self.target, Agnostic)
        if kept:
            self.uses.append((_on_npu(qualified), place.node))

    def _plain_name(self, place: Place) -> None:
        """Functions that were imported by name: `from torch.nn.functional import pad` and then pad(x)."""
        if self._is_called(place):
            bindings = place.scope.find(place.node.value)
            if bindings and bindings[0].kind == "import" and bindings[0].qualified.startswith("torch."):
                self.uses.append((_on_npu(bindings[0].qualified), place.node))

    def _is_called(self, place: Place) -> bool:
        return bool(place.path) and isinstance(place.path[-1], cst.Call) and place.path[-1].func is place.node

    def _cuda(self, node: cst.Attribute, place: Place) -> None:
        kind = self.names.kind(node.value, place.scope)
        call = place.path[-1] if self._is_called(place) else None
        if kind in (USER, FOREIGN):
            return
        if call is None:
            if kind == TORCH and (not isinstance(node.value, cst.Name) or "cuda" not in self.model.attribute_values):
                self.target.method(self.edits, None, node, MEDIUM)
            return
        assert isinstance(call, cst.Call)
        if kind == TORCH:
            self.target.method(self.edits, call, node, HIGH)
        elif self._own_cuda:
            self.edits.todo(node, ".cuda() of an unknown object: a class of this file has a method cuda of its own")
        elif not (self._imports_torch or self.project.uses_torch):
            self.edits.todo(node, ".cuda() of an unknown object in a program that does not import torch")
        else:
            self.target.method(self.edits, call, node, MEDIUM)

    def _is_cuda(self, node: cst.Attribute, place: Place) -> None:
        kind = self.names.kind(node.value, place.scope)
        owner = place.scope.enclosing("class")
        name = owner.node.name.value if owner is not None and isinstance(owner.node, cst.ClassDef) else ""
        own = isinstance(node.value, cst.Name) and node.value.value == "self" and self.project.has_member(name, "is_cuda")
        if own or (kind in (USER, FOREIGN)):
            return
        if kind == TORCH:
            self.target.is_on(self.edits, node, HIGH)
        elif self._own_is_cuda:
            self.edits.todo(node, ".is_cuda of an unknown object: a class of this file has an attribute is_cuda of its own")
        else:
            self.target.is_on(self.edits, node, MEDIUM)

    # calls

    def _call(self, place: Place) -> None:
        qualified = self.names.qualify(place.node.func, place.scope) or ""
        if qualified in ("torch.autograd.profiler.profile", "torch.autograd.profiler.emit_nvtx"):
            for arg in place.node.args:
                if arg.keyword is not None and arg.keyword.value == "use_cuda":
                    self.edits.replace(arg.keyword, "use_npu", "use_cuda -> use_npu", HIGH)
        elif qualified in _EXTENSIONS:
            self.edits.todo(place.node, "CUDA kernels do not run on npu: write them with operators of torch")

    # strings

    def _string(self, place: Place) -> None:
        node = place.node
        text = literal_text(node) or ""
        if "CUDA_" in text or "NCCL_" in text:
            self._variable(place, text)
            return
        known = self.flow.found.get(node)
        where = context(place)
        if where.kind == "argument" and where.call is not None and self._name_argument(place, where, text):
            return
        if known is not None and convertible(node, known[0]):
            self._convert(place, *known)
            return
        kind = DEVICE if convertible(node, DEVICE) else BACKEND if convertible(node, BACKEND) else ""
        if not kind:
            if _DOTTED.fullmatch(text):
                self._dotted(place, where, text)
            return
        confidence = self._confidence(place, where, kind, text)
        if confidence in (HIGH, MEDIUM):
            self._convert(place, kind, confidence)
        elif confidence == LOW:
            new = "npu" if kind == DEVICE else "hccl"
            self.edits.todo(node, f"{text!r}: write {new} here if this names a device or backend")

    def _convert(self, place: Place, kind: str, confidence: str) -> None:
        self.target.literal(self.edits, place.node, _formatting(place), kind, confidence)

    def _variable(self, place: Place, text: str) -> None:
        new = variables(text)
        where = context(place)
        if new == text or where.kind == "text":
            return
        exact = text in VARIABLES
        command = any(f"{name}=" in text for name in VARIABLES)
        if isinstance(place.node, cst.SimpleString) and (exact or command):
            confidence = (
                HIGH if where.kind == "environment" or where.name in ("get", "getenv", "setdefault", "putenv", "pop") else MEDIUM
            )
            quoted = f"{place.node.prefix}{place.node.quote}{new}{place.node.quote}"
            self.edits.replace(place.node, quoted, f"{text!r} -> {new!r}", confidence)
        elif isinstance(place.node, cst.FormattedString) and command:
            for part in place.node.parts:
                if isinstance(part, cst.FormattedStringText) and variables(part.value) != part.value:
                    self.edits.replace(part, variables(part.value), f"{part.value!r} -> {variables(part.value)!r}", MEDIUM)

    def _name_argument(self, place: Place, where: Context, text: str) -> bool:
        """getattr(x, "cuda"), hasattr(torch, "cuda"), methodcaller("cuda"): the string is the name of an attribute."""
        call = where.call
        assert call is not None
        if where.name == "methodcaller" and where.position == 0 and text == "cuda":
            self.edits.replace(place.node, '"npu"', "methodcaller('cuda') -> 'npu'", MEDIUM)
            return True
        if (
            where.name not in ("getattr", "hasattr", "setattr", "delattr")
            or where.position != 1
            or text not in ("cuda", "is_cuda")
        ):
            return False
        receiver = call.args[0].value
        qualified = self.names.qualify(receiver, place.scope)
        kind = self.names.kind(receiver, place.scope)
        called = any(isinstance(each, cst.Call) and each.func is call for each in place.path)
        same = dotted(receiver)
        used = text == "is_cuda" or any(
            isinstance(each.node.func, cst.Attribute)
            and each.node.func.attr.value == "cuda"
            and dotted(each.node.func.value) == same
            for each in self.model.calls
        )
        if qualified == "torch" and text == "cuda" and isinstance(self.target, Agnostic):
            self.edits.todo(place.node, "write torch.get_device_module() here")
        elif qualified == "torch" or kind == TORCH or (kind is None and qualified is None and (called or (used and same))):
            quote = place.node.quote if isinstance(place.node, cst.SimpleString) else '"'
            new = text.replace("cuda", "npu")
            self.edits.replace(
                place.node, f"{quote}{new}{quote}", f"{text!r} -> {new!r}", HIGH if qualified == "torch" else MEDIUM
            )
        return True

    def _dotted(self, place: Place, where: Context, text: str) -> None:
        new = text.replace("torch.cuda", "torch.npu", 1)
        if not isinstance(place.node, cst.SimpleString):
            return
        if where.kind == "argument" and where.name in _EVALUATED and not isinstance(self.target, Agnostic):
            quote = place.node.quote
            self.edits.replace(place.node, f"{place.node.prefix}{quote}{new}{quote}", f"{text!r} -> {new!r}", MEDIUM)
        elif where.kind not in ("text", "key"):
            self.edits.todo(place.node, f"{text!r}: write {new!r} if this names the module")

    def _confidence(self, place: Place, where: Context, kind: str, text: str) -> str:
        """The confidence that the string names a device, judged by the place that receives it; "" if it certainly does not."""
        fits = names_device if kind == DEVICE else names_backend
        if not (self._imports_torch or self.project.uses_torch):
            return LOW
        if where.kind == "text" or (where.kind == "keyword" and where.name in ("dest", "name", "metavar")):
            return ""
        if where.kind in ("assign", "parameter", "return", "value", "keyword") and fits(where.name):
            return MEDIUM
        if where.kind == "compare":
            return self._compared(place, where, kind)
        if where.call is not None:
            function = where.call.func
            if kind == DEVICE and where.name in _QUESTIONS and isinstance(function, cst.Attribute):
                return MEDIUM if self.flow.is_device(function.value, place.scope) else LOW
            name = option_name(where.call)
            if fits(name) and name != text and (where.kind == "keyword" or where.position <= 2) and where.name != "help":
                return MEDIUM
            if where.kind == "argument" and self._parameter_fits(where, fits):
                return MEDIUM
        if where.kind in ("key", "item"):
            return ""
        if kind == DEVICE and (is_indexed_device(text) or is_tensor_type(text)) and self._imports_torch:
            return MEDIUM
        if where.kind == "argument" and where.name in (
            "eval",
            "exec",
            "open",
            "join",
            "Path",
            "import_module",
            "find_library",
            "add_mark",
        ):
            return ""
        return LOW

    def _compared(self, place: Place, where: Context, kind: str) -> str:
        for other in where.other:
            if kind == DEVICE and self.flow.is_device(other, place.scope):
                return MEDIUM
            name = dotted(other).rsplit(".", 1)[-1]
            if kind == BACKEND and (names_backend(name) or (isinstance(other, cst.Call) and "backend" in dotted(other.func))):
                return MEDIUM
            if kind == DEVICE and any(string_value(each) is not None for each in where.other):
                return ""
        return LOW

    def _parameter_fits(self, where: Context, fits: object) -> bool:
        """Whether every function of the project with this name has a device parameter at this position."""
        every = self.project.parameters.get(where.name, [])
        assert callable(fits)
        return bool(every) and all(fits(names[where.position]) if where.position < len(names) else False for names in every)


def _formatting(place: Place) -> Node:
    """The whole of "cuda:%d" % index, "cuda:" + str(index) or "cuda:{}".format(index)."""
    node: Node = place.node
    for parent in reversed(place.path):
        formats = isinstance(parent, cst.Attribute) and parent.attr.value == "format" and parent.value is node
        added = isinstance(parent, cst.BinaryOperation) and parent.left is node
        if not (added or formats or (isinstance(parent, cst.Call) and parent.func is node)):
            break
        node = parent
    return node


def _is_stored(place: Place) -> bool:
    parent = place.path[-1] if place.path else None
    if isinstance(parent, (cst.Assign, cst.AnnAssign, cst.AugAssign)):
        return parent.value is not place.node
    return isinstance(parent, (cst.For, cst.Del))


def _moves(method: cst.FunctionDef) -> bool:
    code = _code(method)
    return ".cuda(" in code or ".to(" in code or ".npu(" in code


def _code(node: Node) -> str:
    return cst.Module(body=[node]).code  # type: ignore[list-item]


def _on_npu(qualified: str) -> str:
    """The name after all rules of RENAMED."""
    parts = qualified.split(".")
    new = [RENAMED.get(".".join(parts[: index + 1]), part) for index, part in enumerate(parts)]
    return ".".join(new)


def _imported(model: Model) -> Iterator[str]:
    for place in model.imports:
        if isinstance(place.node, cst.Import):
            yield from (dotted(alias.name) for alias in place.node.names)
        elif not place.node.relative:
            yield dotted(place.node.module)
