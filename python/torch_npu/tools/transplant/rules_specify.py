"""-s: the device is chosen by the environment variable NPU_CALCULATE_DEVICE; distributed: by LOCAL_RANK.

The entry file selects the device when it runs; importing other files has no effect. Device names lose their index ("npu:1" and
.npu(1) become "npu" and .npu()), so that they mean the selected device.
"""

from __future__ import annotations

import re

import libcst as cst

from .changes import HIGH, MEDIUM
from .edits import Edits
from .model import Model, Node, dotted
from .names import Names

VARIABLE = "NPU_CALCULATE_DEVICE"
RANK = "LOCAL_RANK"
"""The variable of the distributed mode."""


class SpecifyRules:
    def __init__(self, model: Model, names: Names, edits: Edits, text: str, is_entry: bool, variable: str) -> None:
        self.model = model
        self.names = names
        self.edits = edits
        self.text = text
        self.is_entry = is_entry
        self.variable = variable
        self.selected = f'int(os.environ.get("{variable}", "0"))'

    def run(self) -> set[str]:
        """Returns the modules that the new code needs."""
        needed: set[str] = set()
        for place in self.model.calls:
            qualified = self.names.qualify(place.node.func, place.scope)
            args = [arg for arg in place.node.args if arg.keyword is None and not arg.star]
            if qualified in ("torch.cuda.set_device", "torch.npu.set_device") and args:
                code = cst.Module(body=[]).code_for_node(args[0].value)
                if "rank" not in code.lower() and self.variable not in code:
                    self.edits.replace(
                        args[0].value, self.selected, f"set_device({code}) -> the device that {self.variable} names", MEDIUM, 2
                    )
                    needed.add("os")
            elif qualified == "torch.device" and len(args) == 2:
                self.edits.remove_last(
                    args[1], args[0].value, "the index of torch.device is dropped: the current device", HIGH, 1
                )
        if self.is_entry and self.variable not in self.text and self._imports_torch():
            self.edits.before(
                entry_point(self.model.module, self.text),
                f"torch.npu.set_device({self.selected})",
                f"select the device that {self.variable} names",
                HIGH,
            )
            needed |= {"os", "torch"}
        return needed

    def _imports_torch(self) -> bool:
        return any(name.startswith("torch") for place in self.model.imports for name in _modules(place.node))


def entry_point(module: cst.Module, text: str) -> Node:
    """The statement before which code runs once when the program starts: the first one under `if __name__ == "__main__"`, or the
    first one after the imports."""
    for statement in module.body:
        if isinstance(statement, cst.If) and re.match(r"__name__\s*==", module.code_for_node(statement.test)):
            first = statement.body.body[0]
            return first if isinstance(statement.body, cst.IndentedBlock) else statement
    after = 0
    for index, statement in enumerate(module.body):
        small = statement.body if isinstance(statement, cst.SimpleStatementLine) else []
        if any(isinstance(each, (cst.Import, cst.ImportFrom)) for each in small) or isinstance(statement, cst.Try):
            after = index + 1
        elif not (isinstance(statement, cst.SimpleStatementLine) and isinstance(small[0], (cst.Expr, cst.Assign))):
            break
    return module.body[min(after, len(module.body) - 1)]


def _modules(node: cst.Import | cst.ImportFrom) -> list[str]:
    return [dotted(alias.name) for alias in node.names] if isinstance(node, cst.Import) else [dotted(node.module)]
