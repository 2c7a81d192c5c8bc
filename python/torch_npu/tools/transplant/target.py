"""What converted code says instead of CUDA: npu itself, or whatever accelerator the machine has (--device-agnostic)."""

from __future__ import annotations

import libcst as cst

from .changes import LOW
from .edits import Edits
from .flow import literal_text
from .literals import DEVICE, backend, device, has_index, is_tensor_type
from .model import Node

TYPE = "DEVICE_TYPE"
PREAMBLE = 'DEVICE_TYPE = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"'


class Npu:
    """ "cuda" becomes "npu", .cuda() becomes .npu(), torch.cuda becomes torch.npu."""

    import_line = "import torch_npu"

    def __init__(self, drop_index: bool = False, version: str = "", scripted: bool = False) -> None:
        self.drop_index = drop_index
        self.scripted = scripted
        if version.startswith("1.5"):
            self.import_line = "import torch.npu"

    def literal(self, edits: Edits, node: Node, whole: Node, kind: str, confidence: str) -> None:
        """whole: the expression that formats the literal, such as "cuda:%d" % index."""
        text = literal_text(node) or ""
        new = (device if kind == DEVICE else backend)(text)
        if new is None:
            return
        message = f"{text!r} -> {new!r}"
        if self.drop_index and kind == DEVICE and has_index(text):
            edits.replace(whole, '"npu"', f"{text!r} -> 'npu': the current device", confidence, 1)
        elif isinstance(node, cst.SimpleString):
            edits.replace(node, f"{node.prefix}{node.quote}{new}{node.quote}", message, confidence)
        elif isinstance(node, cst.FormattedString):
            first = node.parts[0]
            if isinstance(first, cst.FormattedStringText):
                edits.replace(first, "npu" + first.value[len("cuda") :], message, confidence)

    def method(self, edits: Edits, call: cst.Call | None, attribute: cst.Attribute, confidence: str) -> None:
        if self.scripted and call is not None and not call.args:
            edits.replace(attribute.attr, "to", ".cuda() -> .to('npu'), which TorchScript knows", confidence)
            edits.insert(call, "before_end", '"npu"', "", confidence)
            return
        edits.replace(attribute.attr, "npu", ".cuda -> .npu", confidence)
        if self.drop_index and call is not None and call.args and call.args[0].keyword is None and not call.args[0].star:
            edits.remove(call.args[0], "the index of .cuda() is dropped: the current device", confidence, 1)

    def is_on(self, edits: Edits, attribute: cst.Attribute, confidence: str) -> None:
        edits.replace(attribute.attr, "is_npu", ".is_cuda -> .is_npu", confidence)

    def module(self, edits: Edits, attribute: cst.Attribute, confidence: str) -> None:
        edits.replace(attribute.attr, "npu", "torch.cuda -> torch.npu", confidence)


class Agnostic:
    """Code that runs on any accelerator and on the CPU: torch.accelerator and torch.get_device_module()."""

    import_line = ""
    drop_index = False

    def literal(self, edits: Edits, node: Node, whole: Node, kind: str, confidence: str) -> None:
        text = literal_text(node) or ""
        if kind != DEVICE:
            if backend(text) is not None and ":" not in text:
                new = f"torch.distributed.get_default_backend_for_device({TYPE})"
                edits.replace(node, new, f"{text!r} -> the backend of the accelerator", confidence)
            return
        if device(text) is None:
            return
        if is_tensor_type(text) or isinstance(node, cst.ConcatenatedString):
            edits.todo(node, f"{text!r} has no device-agnostic form: use a dtype and a device", LOW)
            return
        message = f"{text!r} -> the accelerator of the machine"
        rest = text[len("cuda") :]
        if isinstance(node, cst.FormattedString):
            first = node.parts[0]
            if isinstance(first, cst.FormattedStringText):
                edits.replace(first, f"{{{TYPE}}}" + first.value[len("cuda") :], message, confidence)
        elif not rest:
            edits.replace(node, TYPE, message, confidence)
        elif "%" in rest or "{" in rest or rest == ":" or whole is not node:
            edits.replace(node, f'({TYPE} + "{rest}")', message, confidence)
        else:
            edits.replace(node, f'f"{{{TYPE}}}{rest}"', message, confidence)

    def method(self, edits: Edits, call: cst.Call | None, attribute: cst.Attribute, confidence: str) -> None:
        if call is None:
            edits.todo(attribute, "write .to(DEVICE_TYPE) for this .cuda", LOW)
            return
        edits.replace(attribute.attr, "to", ".cuda() -> .to(DEVICE_TYPE)", confidence)
        positional = [arg for arg in call.args if arg.keyword is None or arg.keyword.value == "device"]
        if positional:
            if isinstance(positional[0].value, cst.Integer):
                new = f'f"{{{TYPE}}}:{positional[0].value.value}"'
                edits.replace(positional[0].value, new, "the index of the accelerator", confidence)
            return
        if call.args:
            edits.insert(call.args[0], "outer_start", f"{TYPE}, ", ".cuda() -> .to(DEVICE_TYPE)", confidence)
        else:
            edits.insert(call, "before_end", TYPE, ".cuda() -> .to(DEVICE_TYPE)", confidence)

    def is_on(self, edits: Edits, attribute: cst.Attribute, confidence: str) -> None:
        edits.insert(attribute, "start", "(", "", confidence)
        edits.replace(attribute.attr, f"device.type == {TYPE})", ".is_cuda -> .device.type == DEVICE_TYPE", confidence)

    def module(self, edits: Edits, attribute: cst.Attribute, confidence: str) -> None:
        edits.replace(attribute.attr, "get_device_module()", "torch.cuda -> torch.get_device_module()", confidence)
