"""Which strings end up as the name of a device or of a communication backend.

    flow = Flow(model, names)
    flow.run()
    flow.found[node]        # (DEVICE or BACKEND, confidence)

The search starts where a device is expected, such as the argument of torch.device, and follows assignments, defaults, arguments,
returns, loops and attributes backwards to the literals. Then names decide: device="cuda" of an unknown function, args.device.
"""

from __future__ import annotations

import libcst as cst

from .changes import HIGH, MEDIUM
from .literals import BACKEND, DEVICE, backend, device, names_backend, names_device
from .model import Binding, Model, Node, Place, Scope, dotted, string_value, subscript_key
from .names import FOREIGN, USER, Names
from .words import words

_KEYWORDS = words(
    "device devices map_location device_type device_ids output_device device_map storage_device accelerator offload_device"
)
_FIRST = words(
    "torch.device torch.set_default_device torch.autocast torch.amp.autocast torch.amp.GradScaler torch.Generator torch.Stream "
    "torch.Event torch.set_default_tensor_type torch.get_device_module torch.distributed.device_mesh.init_device_mesh "
    "torch.distributed.init_device_mesh torch.amp.autocast_mode.autocast torch.is_autocast_enabled torch.get_autocast_dtype "
    "torch.amp.custom_fwd torch.amp.is_autocast_available torch.set_autocast_dtype torch.set_autocast_enabled"
)
_SECOND = words("torch.load torch.jit.load safetensors.torch.load_file torch.nn.parallel.scatter")
_BACKEND_FIRST = words("torch.distributed.init_process_group torch.distributed.Backend")
_METHODS = words("to to_empty type cuda npu pin_memory is_pinned")
_STRING_METHODS = words("format lower upper strip split startswith replace rstrip lstrip partition")
_OTHER_LIBRARIES = words("tensorflow jax cupy numba mxnet paddle onnxruntime faiss")
_DEFAULTS = words("get getattr getenv pop setdefault")
_DEPTH = 40


class Flow:
    def __init__(self, model: Model, names: Names) -> None:
        self.model = model
        self.names = names
        self.found: dict[Node, tuple[str, str]] = {}
        self.device_names: set[tuple[Scope, str]] = set()
        self.device_attributes: set[str] = set()
        self._seen: set[tuple[object, str, str]] = set()
        self._options: dict[str, list[Place]] = {}
        self._calls_by_name: dict[str, list[Place]] = {}

    def run(self) -> None:
        for place in self.model.calls:
            name = _last(place.node.func)
            self._calls_by_name.setdefault(name, []).append(place)
            if name in ("add_argument", "add_option", "option"):
                self._read_option(place)
        for place in self.model.calls:
            self._sinks(place)

    def _read_option(self, place: Place) -> None:
        """argparse, optparse, click: the name of the attribute that an option sets."""
        names = [string_value(arg.value) for arg in place.node.args if arg.keyword is None]
        explicit = [string_value(arg.value) for arg in place.node.args if arg.keyword is not None and arg.keyword.value == "dest"]
        chosen = [name for name in explicit or names if name]
        long = [name for name in chosen if name.startswith("--")] or chosen
        for name in long[:1]:
            self._options.setdefault(name.lstrip("-").replace("-", "_"), []).append(place)

    # where devices are expected

    def _sinks(self, place: Place) -> None:
        call: cst.Call = place.node
        qualified = self.names.qualify(call.func, place.scope) or ""
        torch = qualified.startswith("torch.")
        if qualified.split(".")[0] in _OTHER_LIBRARIES:
            return
        if qualified.endswith(".ProcessGroupNCCL"):
            return
        name = _last(call.func)
        position = 0
        for arg in call.args:
            keyword = arg.keyword.value if arg.keyword is not None else ""
            if arg.star:
                continue
            kind, confidence = self._expected(call, qualified, torch, name, keyword, position, place.scope)
            if kind:
                self.mark(arg.value, place.scope, kind, confidence)
            if not keyword:
                position += 1

    def _expected(
        self, call: cst.Call, qualified: str, torch: bool, name: str, keyword: str, position: int, scope: Scope
    ) -> tuple[str, str]:
        if keyword:
            if keyword == "backend" and (torch or name in ("init_process_group", "new_group")):
                return BACKEND, HIGH
            if torch and keyword in _KEYWORDS:
                return DEVICE, HIGH
            if keyword in _KEYWORDS or (keyword == "device_name" and torch):
                return DEVICE, MEDIUM
            return "", ""
        if qualified in _BACKEND_FIRST and position == 0:
            return BACKEND, HIGH
        if position == 0 and (qualified in _FIRST or qualified.startswith(("torch.cuda.", "torch.npu."))):
            return DEVICE, HIGH
        if position == 1 and qualified in _SECOND:
            return DEVICE, HIGH
        if position == 0 and name in _METHODS and isinstance(call.func, cst.Attribute) and not torch:
            kind = self.names.kind(call.func.value, scope)
            if kind not in (USER, FOREIGN):
                return DEVICE, HIGH if kind else MEDIUM
        return "", ""

    # backwards to the literals

    def mark(self, node: Node | None, scope: Scope, kind: str, confidence: str, depth: int = 0) -> None:
        if node is None or depth > _DEPTH or (node, kind, confidence) in self._seen:
            return
        self._seen.add((node, kind, confidence))
        depth += 1
        if isinstance(node, (cst.SimpleString, cst.FormattedString)):
            self._literal(node, scope, kind, confidence, depth)
        elif isinstance(node, cst.ConcatenatedString):
            self.mark(node.left, scope, kind, confidence, depth)
        elif isinstance(node, cst.IfExp):
            self.mark(node.body, scope, kind, confidence, depth)
            self.mark(node.orelse, scope, kind, confidence, depth)
        elif isinstance(node, cst.BooleanOperation):
            self.mark(node.left, scope, kind, confidence, depth)
            self.mark(node.right, scope, kind, confidence, depth)
        elif isinstance(node, cst.NamedExpr):
            self.mark(node.value, scope, kind, confidence, depth)
        elif isinstance(node, cst.BinaryOperation):
            if isinstance(node.operator, (cst.Add, cst.Modulo)):
                self.mark(node.left, scope, kind, confidence, depth)
        elif isinstance(node, (cst.List, cst.Tuple, cst.Set)):
            for element in node.elements:
                self.mark(element.value, scope, kind, confidence, depth)
        elif isinstance(node, cst.Dict):
            for entry in node.elements:
                if isinstance(entry, cst.DictElement):
                    self.mark(entry.key, scope, kind, confidence, depth)
                self.mark(entry.value, scope, kind, confidence, depth)
        elif isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp)):
            self.mark(node.elt, scope, kind, confidence, depth)
        elif isinstance(node, cst.Lambda):
            self.mark(node.body, self.model.function_scopes[node], kind, confidence, depth)
        elif isinstance(node, cst.Name):
            self._name(node, scope, kind, confidence, depth)
        elif isinstance(node, cst.Attribute):
            self._attribute(node, scope, kind, confidence, depth)
        elif isinstance(node, cst.Subscript):
            self._subscript(node, scope, kind, confidence, depth)
        elif isinstance(node, cst.Call):
            self._call(node, scope, kind, confidence, depth)

    def _literal(self, node: Node, scope: Scope, kind: str, confidence: str, depth: int) -> None:
        known = self.found.get(node)
        if known is None or (known[0] == kind and known[1] == MEDIUM):
            self.found[node] = (kind, confidence)
        if isinstance(node, cst.FormattedString) and node.parts and isinstance(node.parts[0], cst.FormattedStringExpression):
            self.mark(node.parts[0].expression, scope, kind, confidence, depth)  # f"{device_type}:{index}"

    def _name(self, node: cst.Name, scope: Scope, kind: str, confidence: str, depth: int) -> None:
        name = node.value
        for binding in scope.find(name):
            if kind == DEVICE:
                self.device_names.add((binding.scope, name))
            if binding.kind == "assign":
                self.mark(binding.value, binding.scope, kind, confidence, depth)
            elif binding.kind == "element":
                self._elements(binding.value, binding.scope, kind, confidence, depth)
            elif binding.kind == "parameter":
                self._parameter(name, binding, kind, confidence, depth)

    def _parameter(self, name: str, binding: Binding, kind: str, confidence: str, depth: int) -> None:
        self.mark(binding.value.default, binding.scope, kind, confidence, depth)
        function = binding.function
        if not isinstance(function, cst.FunctionDef):
            return
        key = (function, name, kind + confidence)
        if key in self._seen:
            return
        self._seen.add(key)
        called = function.name.value
        if called == "__init__" and isinstance(binding.scope.node, cst.ClassDef):
            called = binding.scope.node.name.value
        parameters = [each.name.value for each in (*function.params.posonly_params, *function.params.params)]
        if binding.scope.kind == "class" and parameters:
            parameters = parameters[1:]
        for place in self._calls_by_name.get(called, ()):
            for position, arg in enumerate(place.node.args):
                named = arg.keyword.value if arg.keyword is not None else None
                if named == name or (named is None and not arg.star and parameters[position : position + 1] == [name]):
                    self.mark(arg.value, place.scope, kind, confidence, depth)

    def _elements(self, node: Node | None, scope: Scope, kind: str, confidence: str, depth: int) -> None:
        if isinstance(node, (cst.List, cst.Tuple, cst.Set, cst.ListComp, cst.GeneratorExp, cst.Name)):
            self.mark(node, scope, kind, confidence, depth)
        elif isinstance(node, cst.Call) and _last(node.func) in ("enumerate", "zip", "product", "list", "sorted", "tuple"):
            for arg in node.args:
                self._elements(arg.value, scope, kind, confidence, depth)

    def _attribute(self, node: cst.Attribute, scope: Scope, kind: str, confidence: str, depth: int) -> None:
        name = node.attr.value
        if name in ("type", "device") and isinstance(node.value, (cst.Name, cst.Attribute)) and name == "type":
            self.mark(node.value, scope, kind, confidence, depth)
            return
        if self.names.is_torch(node, scope):
            return
        key = (name, "attribute", kind + confidence)
        if key in self._seen:
            return
        self._seen.add(key)
        if kind == DEVICE:
            self.device_attributes.add(name)
        receiver = dotted(node.value)
        for place in self.model.attribute_values.get(name, ()):
            same = dotted(place.path[-1].value) == receiver  # type: ignore[attr-defined]
            self.mark(place.node, place.scope, kind, confidence if same else MEDIUM, depth)
        for place in self._options.get(name, ()):
            for arg in place.node.args:
                if arg.keyword is not None and arg.keyword.value in ("default", "choices", "const"):
                    self.mark(arg.value, place.scope, kind, confidence, depth)
        for place in self.model.functions.get(name, ()):
            if any(
                dotted(each.decorator) in ("property", "cached_property", "functools.cached_property")
                for each in place.node.decorators
            ):
                self._returns(place.node, kind, confidence, depth)

    def _subscript(self, node: cst.Subscript, scope: Scope, kind: str, confidence: str, depth: int) -> None:
        key = subscript_key(node)
        if key is None:
            self.mark(node.value, scope, kind, confidence, depth)
            return
        bases = scope.find(node.value.value) if isinstance(node.value, cst.Name) else []
        dicts = [each.value for each in bases if isinstance(each.value, cst.Dict)]
        for place in self.model.item_values.get(key, ()):
            certain = any(place.node is entry.value for each in dicts for entry in each.elements)
            if certain or names_device(key) or names_backend(key):
                self.mark(place.node, place.scope, kind, confidence if certain else MEDIUM, depth)

    def _call(self, node: cst.Call, scope: Scope, kind: str, confidence: str, depth: int) -> None:
        name = _last(node.func)
        if isinstance(node.func, cst.Attribute) and name in _STRING_METHODS:
            self.mark(node.func.value, scope, kind, confidence, depth)
            return
        if name == "str" and node.args:
            self.mark(node.args[0].value, scope, kind, confidence, depth)
            return
        if name in _DEFAULTS and node.args:
            default = node.args[-1]
            if len(node.args) > (2 if name == "getattr" else 1) and not default.star:
                self.mark(default.value, scope, kind, confidence, depth)
            return
        if self.names.is_torch(node.func, scope):
            return
        if name == "dict":
            for arg in node.args:
                self.mark(arg.value, scope, kind, confidence, depth)
            return
        for place in self.model.functions.get(name, ()):
            self._returns(place.node, kind, confidence, depth)

    def _returns(self, function: Node, kind: str, confidence: str, depth: int) -> None:
        for place in self.model.returns.get(function, ()):
            self.mark(place.node, place.scope, kind, confidence, depth)

    # questions

    def is_device(self, node: Node | None, scope: Scope) -> bool:
        """Whether an expression is a device or the name of one, by flow or by its name."""
        if isinstance(node, cst.NamedExpr):
            node = node.target
        if isinstance(node, cst.Name):
            if names_device(node.value):
                return True
            return any((binding.scope, node.value) in self.device_names for binding in scope.find(node.value))
        if isinstance(node, cst.Attribute):
            name = node.attr.value
            if name == "type":
                return self.is_device(node.value, scope)
            return names_device(name) or name in self.device_attributes
        if isinstance(node, cst.Subscript):
            key = subscript_key(node)
            return names_device(key) if key is not None else self.is_device(node.value, scope)
        if isinstance(node, cst.Call):
            name = _last(node.func)
            if name == "str" and node.args:
                return self.is_device(node.args[0].value, scope)
            if name in _DEFAULTS and node.args:
                return any(names_device(string_value(arg.value) or "") for arg in node.args[:2])
            if isinstance(node.func, cst.Attribute) and name in _STRING_METHODS:
                return self.is_device(node.func.value, scope)
            if name == "type" and isinstance(node.func, cst.Attribute):
                return True  # x.type() == "torch.cuda.FloatTensor"
            return self.names.qualify(node.func, scope) == "torch.device" or names_device(name)
        return False


def _last(node: Node | None) -> str:
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def convertible(node: Node, kind: str) -> bool:
    """Whether a literal that was found has text to convert."""
    convert = device if kind == DEVICE else backend
    text = literal_text(node)
    return text is not None and convert(text) is not None


def literal_text(node: Node) -> str | None:
    """The text of a literal; an f-string's fields appear as {}."""
    if isinstance(node, cst.SimpleString):
        return string_value(node)
    if isinstance(node, cst.FormattedString):
        return "".join(part.value if isinstance(part, cst.FormattedStringText) else "{}" for part in node.parts)
    return None
