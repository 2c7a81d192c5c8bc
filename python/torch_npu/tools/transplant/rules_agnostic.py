"""--device-agnostic: torch.cuda.amp becomes torch.amp, whose functions take the type of the device."""

from __future__ import annotations

import libcst as cst

from .changes import HIGH
from .edits import Edits
from .model import Model, Node, dotted
from .names import Names
from .target import TYPE

_NAMES = frozenset(("autocast", "GradScaler"))
_QUALIFIED = frozenset(f"torch.cuda.amp.{name}" for name in _NAMES)


class AgnosticAmp:
    def __init__(self, model: Model, names: Names, edits: Edits) -> None:
        self.model = model
        self.names = names
        self.edits = edits

    def run(self) -> set[Node]:
        """Returns the nodes torch.cuda that it has replaced."""
        replaced: set[Node] = set()
        for place in self.model.imports:
            node = place.node
            if not isinstance(node, cst.ImportFrom) or dotted(node.module) != "torch.cuda.amp":
                continue
            names = set() if isinstance(node.names, cst.ImportStar) else {dotted(alias.name) for alias in node.names}
            if names and names <= _NAMES and isinstance(node.module, cst.Attribute):
                self.edits.replace(node.module, "torch.amp", "torch.cuda.amp -> torch.amp", HIGH, 4)
                replaced.add(node.module.value)
        for place in self.model.calls:
            if self.names.qualify(place.node.func, place.scope) in _QUALIFIED:
                replaced |= self._call(place.node)
        return replaced

    def _call(self, call: cst.Call) -> set[Node]:
        message = "torch.cuda.amp -> torch.amp, which takes the type of the device"
        scaler = dotted(call.func).endswith("GradScaler")
        first = call.args[0] if call.args else None
        if first is None:
            self.edits.insert(call, "before_end", TYPE, message, HIGH)
        else:
            named = first.keyword is not None or scaler
            self.edits.insert(first, "outer_start", f"{TYPE}, " if named else f"{TYPE}, enabled=", message, HIGH)
        module = call.func.value if isinstance(call.func, cst.Attribute) else None
        if dotted(module) == "torch.cuda.amp" and isinstance(module, cst.Attribute):
            self.edits.replace(module, "torch.amp", message, HIGH, 4)
            return {module.value}
        return set()
