"""-sim: replaces functions that npu does not support by similar ones. Results may differ; each replacement is reported."""

from __future__ import annotations

import libcst as cst

from .changes import LOW, MEDIUM
from .edits import Edits
from .model import Model, string_value
from .names import Names

# Qualified name -> the similar function of the same module.
SIMILAR = {
    "torch.nn.ReflectionPad1d": "ConstantPad1d",
    "torch.nn.ReflectionPad2d": "ZeroPad2d",
    "torch.nn.ReplicationPad2d": "ZeroPad2d",
    "torch.nn.SyncBatchNorm": "BatchNorm2d",
    "torch.nn.functional.pad": "pad",
}
OLD_VERSIONS = ("1.5", "1.8")
"""For these versions of torch_npu the documents name the functions above as not supported."""


class SimilarRules:
    def __init__(self, model: Model, names: Names, edits: Edits, replaceable: frozenset[str]) -> None:
        self.model = model
        self.names = names
        self.edits = edits
        self.replaceable = replaceable

    def run(self) -> None:
        for place in self.model.calls:
            qualified = self.names.qualify(place.node.func, place.scope) or ""
            if qualified == "torch.nn.SyncBatchNorm.convert_sync_batchnorm" and "torch.nn.SyncBatchNorm" in self.replaceable:
                if len(place.node.args) == 1:
                    code = cst.Module(body=[]).code_for_node(place.node.args[0].value)
                    self.edits.replace(place.node, code, "convert_sync_batchnorm is dropped: npu does not support it", MEDIUM, 3)
            elif qualified in self.replaceable:
                self._replace(place.node, qualified)

    def _replace(self, call: cst.Call, qualified: str) -> None:
        new = SIMILAR[qualified]
        message = f"{qualified} is not supported: the similar {new} gives other values"
        if qualified == "torch.nn.functional.pad":
            for arg in call.args:
                if arg.keyword is not None and arg.keyword.value == "mode" and string_value(arg.value) not in (None, "constant"):
                    self.edits.replace(arg.value, '"constant"', message, MEDIUM, 3)
        elif new == "ConstantPad1d":
            self.edits.todo(call, f"{qualified} is not supported: write torch.nn.ConstantPad1d(padding, 0)", LOW)
        elif isinstance(call.func, cst.Attribute):
            self.edits.replace(call.func.attr, new, message, MEDIUM, 3)
        else:
            self.edits.replace(call.func, f"torch.nn.{new}", message, MEDIUM, 3)
