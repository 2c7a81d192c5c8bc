"""distributed: turns a program for one device into one for several.

The entry file starts the process group and wraps the model; data loaders get a DistributedSampler, and loops over epochs call
set_epoch. What is there already is left alone, so that a second run changes nothing.
"""

from __future__ import annotations

import re

import libcst as cst

from .changes import HIGH, LOW, MEDIUM
from .edits import Edits
from .model import Model, Node, Place, Scope, children, dotted
from .names import Names
from .rules_specify import entry_point
from .words import words

_DDP = "torch.nn.parallel.DistributedDataParallel"
_SAMPLER = "torch.utils.data.distributed.DistributedSampler"
_PARALLEL = frozenset(("torch.nn.DataParallel", "torch.nn.parallel.DataParallel"))
_EVALUATION = re.compile(r"(?i)val|test|eval|infer")
# Attributes that a DistributedDataParallel object has itself.
_OWN = words(
    "train eval parameters named_parameters zero_grad forward module modules named_modules children named_children "
    "to npu cuda cpu half float double type apply requires_grad_ training no_sync register_forward_hook "
    "register_full_backward_hook buffers named_buffers require_backward_grad_sync __class__"
)
_WRAP = """\
{0} = {1}(
    {0}.npu(), device_ids=[torch.npu.current_device()], broadcast_buffers=False
)"""
_START = """\
if not torch.distributed.is_initialized():
    torch.npu.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    torch.distributed.init_process_group("hccl")"""


class DistributedRules:
    def __init__(self, model: Model, names: Names, edits: Edits, text: str, target: str, is_main: bool) -> None:
        self.model = model
        self.names = names
        self.edits = edits
        self.text = text
        self.target = target
        self.is_main = is_main
        self.needed: set[str] = set()
        self._statements: dict[Node, int] = {}

    def run(self) -> set[str]:
        if self.is_main and not self._calls("torch.distributed.init_process_group"):
            self.edits.before(entry_point(self.model.module, self.text), _START, "start the process group", HIGH)
            self.needed |= {"os", "torch"}
        loaders = [loader for place in self._calls("torch.utils.data.DataLoader") for loader in self._loader(place)]
        self._epochs(loaders)
        if self.is_main:
            self._model()
        return self.needed

    def _calls(self, *wanted: str) -> list[Place]:
        return [place for place in self.model.calls if self.names.qualify(place.node.func, place.scope) in wanted]

    # data

    def _loader(self, place: Place) -> list[tuple[str, Scope]]:
        call: cst.Call = place.node
        target = _assigned_to(place)
        given = {arg.keyword.value: arg for arg in call.args if arg.keyword is not None}
        if any(arg.star for arg in call.args) or not call.args:
            self.edits.todo(call, "give this DataLoader a DistributedSampler: its arguments are not written out")
            return []
        if "sampler" in given or "batch_sampler" in given:
            sampler = given.get("sampler")
            if sampler is None or "DistributedSampler" not in _code(sampler.value):
                self.edits.todo(call, "this DataLoader has a sampler of its own: shard the data by rank there")
            return []
        shuffle = given.get("shuffle")
        positional = [arg for arg in call.args if arg.keyword is None]
        if len(positional) > 2:
            self.edits.todo(call, "give this DataLoader a DistributedSampler: shuffle is a positional argument")
            return []
        shuffled = _code(shuffle.value) if shuffle is not None else "False"
        if shuffled == "False" and _EVALUATION.search(target):
            return []
        dataset = _code(given["dataset"].value) if "dataset" in given else _code(positional[0].value)
        if not re.fullmatch(r"[\w.]+", dataset):
            self.edits.todo(call, "give this DataLoader a DistributedSampler: assign its dataset to a name first")
            return []
        self._use_sampler(call, shuffle, given, dataset, shuffled)
        self.needed.add("torch")
        return [(target, place.scope)] if target else []

    def _use_sampler(
        self, call: cst.Call, shuffle: cst.Arg | None, given: dict[str, cst.Arg], dataset: str, shuffled: str
    ) -> None:
        sampler = f"sampler={_SAMPLER}({dataset}, shuffle={shuffled})"
        message = "DataLoader: data of this rank by DistributedSampler"
        extra = [sampler]
        if shuffled != "False":
            extra += [f"{name}=True" for name in ("pin_memory", "drop_last") if name not in given]
        if shuffle is not None:
            assert shuffle.keyword is not None
            self.edits.replace(shuffle.keyword, ", ".join(extra) + ", shuffle", message, HIGH)
            self.edits.replace(shuffle.value, "False", "shuffle is done by the sampler", HIGH, 3)
        else:
            self.edits.insert(call.args[-1].value, "end", ", " + ", ".join(extra), message, HIGH)

    def _epochs(self, loaders: list[tuple[str, Scope]]) -> None:
        done: set[str] = set()
        for place in self.model.loops:
            loop: cst.For = place.node
            epoch = next((name for name in _target_names(loop.target) if "epoch" in name.lower()), "")
            if not epoch or not isinstance(loop.body, cst.IndentedBlock):
                continue
            visible = [name for name, scope in loaders if _sees(place.scope, scope) and name not in done]
            for name in visible:
                if f"{name}.sampler.set_epoch(" not in self.text:
                    line = f"{name}.sampler.set_epoch({epoch})"
                    self.edits.before(loop.body.body[0], line, f"shuffle {name} anew in each epoch", MEDIUM)
                    done.add(name)
        for name, _ in loaders:
            if name not in done and f"{name}.sampler.set_epoch(" not in self.text:
                self.edits.todo(self.model.module.body[0], f"call {name}.sampler.set_epoch(epoch) at the start of each epoch")

    # the model

    def _model(self) -> None:
        if any(_DDP.rsplit(".", 1)[1] in _code(place.node.func) for place in self.model.calls):
            return
        assigned = [place for place in self.model.assigns if self.target in _names_of(place.node)]
        if not assigned:
            self.edits.todo(
                self.model.module.body[0], f"no variable {self.target!r} is assigned here: name the model with -t", LOW
            )
            return
        scope = assigned[-1].scope
        last = [place for place in assigned if place.scope is scope and len(place.path) == len(assigned[0].path)] or assigned[-1:]
        place = last[-1]
        for each in assigned:
            self._drop_parallel(each)
        statement = self._after_moves(place)
        wrap = _WRAP.format(self.target, _DDP)
        self.edits.after(statement, wrap, f"wrap {self.target} in DistributedDataParallel", HIGH)
        self.needed.add("torch")
        self._module_attributes(scope, place.node)

    def _drop_parallel(self, place: Place) -> None:
        value = place.node.value
        if isinstance(value, cst.Call) and self.names.qualify(value.func, place.scope) in _PARALLEL and value.args:
            self.edits.replace(value, _code(value.args[0].value), "DataParallel is removed", HIGH, 3)

    def _after_moves(self, place: Place) -> Node:
        """The statement after which the model is complete: its last assignment, or calls such as model.cuda() that follow it."""
        statement = place.path[-1]
        block = place.path[-2] if len(place.path) > 1 else self.model.module
        body = list(getattr(block, "body", []))
        if statement not in body:
            return statement
        for following in body[body.index(statement) + 1 :]:
            code = _code(following).strip()
            if not re.match(rf"{re.escape(self.target)}\.(cuda|npu|to|apply|half|float|load_state_dict)\(", code):
                break
            statement = following
        return statement

    def _module_attributes(self, scope: Scope, wrapped: Node) -> None:
        """Attributes of the model itself are those of model.module from here on."""
        for place in self.model.attributes:
            root = place.node
            previous = root
            while isinstance(root, cst.Attribute):
                previous, root = root, root.value
            if not (isinstance(root, cst.Name) and root.value == self.target and place.scope is scope):
                continue
            if previous.attr.value in _OWN or self._is_before(place, wrapped):
                continue
            self.edits.insert(root, "end", ".module", f"{self.target}.{previous.attr.value} is that of the wrapped model", MEDIUM)
        for place in self.model.calls:
            first = place.node.args[0].value if place.node.args else None
            asks = dotted(place.node.func) in ("hasattr", "getattr", "setattr") and isinstance(first, cst.Name)
            if asks and first.value == self.target and place.scope is scope and not self._is_before(place, wrapped):  # type: ignore[union-attr]
                self.edits.insert(first, "end", ".module", "attributes of the wrapped model", MEDIUM)  # type: ignore[arg-type]

    def _is_before(self, place: Place, wrapped: Node) -> bool:
        if not self._statements:
            self._statements = {statement: index for index, statement in enumerate(_statements(self.model.module))}
        own = [self._statements[node] for node in place.path if node in self._statements]
        return bool(own) and own[-1] <= self._statements[wrapped]


def _statements(node: Node) -> list[Node]:
    found: list[Node] = []
    for child in children(node):
        if isinstance(child, cst.BaseSmallStatement):
            found.append(child)
        else:
            found += _statements(child)
    return found


def _assigned_to(place: Place) -> str:
    for node in reversed(place.path):
        if isinstance(node, cst.Assign):
            return dotted(node.targets[-1].target)
        if isinstance(node, cst.BaseSmallStatement):
            break
    return ""


def _names_of(node: cst.Assign) -> list[str]:
    return [name for target in node.targets for name in _target_names(target.target)]


def _target_names(node: Node) -> list[str]:
    if isinstance(node, cst.Name):
        return [node.value]
    if isinstance(node, (cst.Tuple, cst.List)):
        return [name for element in node.elements for name in _target_names(element.value)]
    return []


def _sees(inner: Scope, outer: Scope) -> bool:
    scope: Scope | None = inner
    while scope is not None:
        if scope is outer:
            return True
        scope = scope.parent
    return False


def _code(node: Node) -> str:
    return cst.Module(body=[]).code_for_node(node)
