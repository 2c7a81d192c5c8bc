"""-a MODEL: torch.cuda.amp becomes apex.amp. Runs before the other rules and gives new text to them.

GradScaler disappears, the backward pass runs in amp.scale_loss, autocast blocks are unwrapped, and amp.initialize follows the
creation of the optimizer.
"""

from __future__ import annotations

from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from .changes import DELETE, HIGH, INSERT, LOW, MEDIUM, MODIFY, TODO, Change
from .model import Model, Node, build, dotted
from .names import Names
from .project import Project

_SCALERS = frozenset(("torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"))
_AUTOCASTS = frozenset(
    ("torch.cuda.amp.autocast", "torch.amp.autocast", "torch.autocast", "torch.cuda.amp.autocast_mode.autocast")
)


def convert(file: str, text: str, module: cst.Module, model_name: str, project: Project) -> tuple[str, list[Change]]:
    """The new text, and the changes."""
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    model = build(module, lambda _: False)
    names = Names(model, project)
    transformer = _Transformer(file, model, names, model_name, wrapper.resolve(PositionProvider))
    if not transformer.scalers:
        return text, []
    new = module.visit(transformer)
    code = new.code
    if transformer.initialized and "from apex import amp" not in code:
        code = _with_import(new)
        transformer.changes.append(Change(file, 1, 1, INSERT, "add from apex import amp", HIGH))
    if not transformer.initialized:
        reason = f"amp.initialize was not added: no optimizer is created beside the model {model_name!r}; see -a"
        transformer.changes.append(Change(file, 1, 1, TODO, reason, LOW))
    return code, transformer.changes


def _with_import(module: cst.Module) -> str:
    line = cst.parse_statement("from apex import amp\n")
    body = list(module.body)
    for index, statement in enumerate(body):
        if isinstance(statement, cst.SimpleStatementLine) and any(
            isinstance(each, (cst.Import, cst.ImportFrom)) and "torch" in module.code_for_node(each) for each in statement.body
        ):
            body.insert(index, line)
            break
    return module.with_changes(body=body).code


class _Transformer(cst.CSTTransformer):
    def __init__(self, file: str, model: Model, names: Names, model_name: str, positions: Any) -> None:
        self.file = file
        self.names = names
        self.model_name = model_name
        self.positions = positions
        self.changes: list[Change] = []
        self.initialized = False
        self._passes: set[Node] = set()
        self.scopes = {place.node: place.scope for place in model.calls}
        self.scalers = {
            target.target.value
            for place in model.assigns
            for target in place.node.targets
            if isinstance(target.target, cst.Name) and self._is_one_of(place.node.value, _SCALERS)
        }
        self.optimizer = next((optimizer for optimizer in map(self._stepped, self.scopes) if optimizer), "optimizer")

    def _is_one_of(self, node: Node | None, wanted: frozenset[str]) -> bool:
        if not isinstance(node, cst.Call) or node not in self.scopes:
            return False
        return self.names.qualify(node.func, self.scopes[node]) in wanted

    def _stepped(self, call: cst.Call) -> str:
        """The optimizer of scaler.step(optimizer)."""
        if self._method(call) == "step" and call.args:
            return dotted(call.args[0].value)
        return ""

    def _method(self, node: Node) -> str:
        """The method of a scaler that a call calls."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and dotted(node.func.value) in self.scalers:
            return node.func.attr.value
        return ""

    def _note(self, node: Node, kind: str, message: str, confidence: str = MEDIUM) -> None:
        span = self.positions[node]
        self.changes.append(Change(self.file, span.start.line, span.end.line, kind, message, confidence))

    def leave_SimpleStatementLine(self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine) -> Any:
        if len(original_node.body) != 1:
            return updated_node
        statement = original_node.body[0]
        if isinstance(statement, cst.Assign):
            return self._assigned(statement, updated_node)
        if not isinstance(statement, cst.Expr) or not isinstance(statement.value, cst.Call):
            return updated_node
        call = statement.value
        method = self._method(call)
        if method in ("update", "unscale_"):
            self._note(original_node, DELETE, f"GradScaler.{method} is removed: apex has no such step")
            return self._nothing(updated_node)
        if method == "step":
            self._note(original_node, MODIFY, "scaler.step(optimizer) -> optimizer.step()")
            return self._line(f"{self._stepped(call)}.step()", updated_node)
        loss = self._scaled(call)
        if loss is not None:
            code = cst.Module(body=[]).code_for_node(loss)
            self._note(original_node, MODIFY, "scaler.scale(loss).backward() -> amp.scale_loss")
            lines = f"with amp.scale_loss({code}, {self.optimizer}) as scaled_loss:\n    scaled_loss.backward()\n"
            block = cst.parse_statement(lines)
            return block.with_changes(leading_lines=updated_node.leading_lines)
        return updated_node

    def _assigned(self, statement: cst.Assign, updated: cst.SimpleStatementLine) -> Any:
        targets = [dotted(target.target) for target in statement.targets]
        if self._is_one_of(statement.value, _SCALERS):
            self._note(statement, DELETE, "GradScaler is removed: amp.initialize sets the loss scale")
            return self._nothing(updated)
        if targets == [self.optimizer] and not self.initialized and isinstance(statement.value, cst.Call):
            self.initialized = True
            model, optimizer = self.model_name, self.optimizer
            self._note(statement, INSERT, f"add amp.initialize for {model} and {optimizer}")
            line = f'{model}, {optimizer} = amp.initialize({model}, {optimizer}, opt_level="O2", loss_scale=32.0)'
            return cst.FlattenSentinel([updated, self._line(line, None)])
        return updated

    def _scaled(self, call: cst.Call) -> cst.BaseExpression | None:
        """The loss of scaler.scale(loss).backward()."""
        function = call.func
        if isinstance(function, cst.Attribute) and function.attr.value == "backward" and self._method(function.value) == "scale":
            assert isinstance(function.value, cst.Call)
            return function.value.args[0].value
        return None

    def _nothing(self, updated: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        line = self._line("pass", updated)
        self._passes.add(line)
        return line

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock) -> cst.IndentedBlock:
        kept = [statement for statement in updated_node.body if statement not in self._passes]
        return updated_node.with_changes(body=kept) if kept else updated_node

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        return updated_node.with_changes(body=[statement for statement in updated_node.body if statement not in self._passes])

    def _line(self, code: str, like: cst.SimpleStatementLine | None) -> cst.SimpleStatementLine:
        line = cst.parse_statement(code)
        assert isinstance(line, cst.SimpleStatementLine)
        if like is None:
            return line
        return line.with_changes(leading_lines=like.leading_lines, trailing_whitespace=like.trailing_whitespace)

    def leave_With(self, original_node: cst.With, updated_node: cst.With) -> Any:
        items = original_node.items
        if len(items) != 1 or items[0].asname is not None or not self._is_one_of(items[0].item, _AUTOCASTS):
            return updated_node
        if not isinstance(updated_node.body, cst.IndentedBlock):
            return updated_node
        self._note(original_node, MODIFY, "the autocast block is unwrapped: amp.initialize casts", HIGH)
        body: list[Any] = list(updated_node.body.body)
        body[0] = body[0].with_changes(leading_lines=[*updated_node.leading_lines, *body[0].leading_lines])
        return cst.FlattenSentinel(body)
