"""What names stand for, and what kind of object an expression is.

names.qualify(node, scope)    # "torch.cuda.is_available", through imports, aliases and re-exports; None if it is not known
names.kind(node, scope)       # TORCH, USER, FOREIGN or None
"""

from __future__ import annotations

import builtins

import libcst as cst

from .model import Binding, Model, Node, Scope, dotted, string_value
from .project import Project
from .words import words

TORCH = "torch"
"""A tensor, a module or another object of torch that has .cuda() and .to()."""
USER = "user"
"""An instance of a class of the project that does not derive from one of torch."""
FOREIGN = "foreign"
"""Something of another library or of Python."""

_DEPTH = 12
# `from torch import *` binds these, among others.
_STAR = words(
    "device tensor Tensor zeros ones empty full rand randn randint arange linspace eye as_tensor from_numpy load save Generator "
    "autocast set_default_device set_default_tensor_type no_grad nn optim cuda"
)
_TORCH_LIBRARIES = words("torch torchvision torchaudio timm transformers diffusers segmentation_models_pytorch monai")
# Functions of torch whose results are no tensors, modules or the like.
_PLAIN_RESULTS = (
    "torch.cuda.",
    "torch.npu.",
    "torch.device",
    "torch.backends.",
    "torch.distributed.",
    "torch.version.",
    "torch.Size",
)
_PLAIN_FUNCTIONS = words(
    "torch.is_tensor torch.numel torch.load torch.save torch.get_rng_state torch.utils.data.DataLoader "
    "torch.utils.data.TensorDataset torch.utils.data.random_split torch.initial_seed torch.Generator "
    "torch.get_num_threads torch.is_grad_enabled torch.jit.load"
)
_OTHER_GPU_LIBRARIES = words("cupy numba tensorflow jax mxnet paddle pycuda cudf onnxruntime faiss tensorrt nvidia cuda")
_PURE_NAMES = frozenset(dir(builtins))


class Names:
    def __init__(self, model: Model, project: Project) -> None:
        self.model = model
        self.project = project
        self._kinds: dict[Node, str | None] = {}
        self._foreign_star = any(not origin.startswith("torch") for origin in model.star_imports)
        self._torch_star = "torch" in model.star_imports

    # qualified names

    def qualify(self, node: Node | None, scope: Scope, depth: int = 0) -> str | None:
        if depth > _DEPTH:
            return None
        if isinstance(node, cst.Name):
            return self._name(node.value, scope, depth)
        if isinstance(node, cst.Attribute):
            base = self.qualify(node.value, scope, depth + 1)
            return f"{base}.{node.attr.value}" if base else None
        if isinstance(node, cst.Call) and node.args:
            function = self.qualify(node.func, scope, depth + 1)
            first = string_value(node.args[0].value)
            if function in ("importlib.import_module", "builtins.__import__") and first:
                return first
            if function == "builtins.getattr" and len(node.args) > 1:
                base = self.qualify(node.args[0].value, scope, depth + 1)
                name = string_value(node.args[1].value)
                return f"{base}.{name}" if base and name else None
        return None

    def _name(self, name: str, scope: Scope, depth: int) -> str | None:
        bindings = scope.find(name)
        if not bindings:
            return self._unbound(name)
        found: str | None = None
        for binding in bindings:
            target = self._binding(name, binding, depth)
            if target == "":
                continue
            if target is None or (found is not None and found != target and not _same_origin(found, target)):
                return None
            if found is None or target.startswith("torch"):
                found = target
        return found

    def _binding(self, name: str, binding: Binding, depth: int) -> str | None:
        """The qualified name, an empty string for a placeholder such as `torch = None`, or None."""
        if binding.kind == "import":
            return self._imported(binding)
        if binding.kind == "assign":
            if isinstance(binding.value, cst.Name) and binding.value.value in ("None", name):
                return ""
            if isinstance(binding.value, (cst.Name, cst.Attribute, cst.Call)):
                return self.qualify(binding.value, binding.scope, depth + 1)
        return None

    def _imported(self, binding: Binding) -> str:
        """The qualified name of an import. `from .common import torch` gives torch, `import horovod.torch` does not."""
        origin, _, name = binding.qualified.rpartition(".")
        of_project = origin.startswith(".") or binding.qualified.split(".")[0] in self.project.modules
        plain = isinstance(binding.value, cst.ImportAlias) and isinstance(binding.value.name, cst.Name)
        return "torch" if name == "torch" and origin and plain and of_project else binding.qualified

    def _unbound(self, name: str) -> str | None:
        if self._torch_star and name in _STAR:
            return f"torch.{name}"
        if self._foreign_star and name == "torch":
            return "torch"
        if self._foreign_star and name == "nn":
            return "torch.nn"
        if name in _PURE_NAMES:
            return f"builtins.{name}"
        return None

    def is_torch(self, node: Node | None, scope: Scope) -> bool:
        name = self.qualify(node, scope)
        return name is not None and (name == "torch" or name.startswith("torch."))

    # kinds of objects

    def kind(self, node: Node | None, scope: Scope, depth: int = 0) -> str | None:
        if node is None or depth > _DEPTH:
            return None
        if node not in self._kinds:
            self._kinds[node] = None  # ends recursion through loops such as x = x.view(1)
            self._kinds[node] = self._kind(node, scope, depth)
        return self._kinds[node]

    def _kind(self, node: Node, scope: Scope, depth: int) -> str | None:
        if isinstance(node, cst.Name):
            return self._kind_of_name(node, scope, depth)
        if isinstance(node, cst.Attribute):
            return self._kind_of_attribute(node, scope, depth)
        if isinstance(node, cst.Call):
            return self._kind_of_call(node, scope, depth)
        if isinstance(node, cst.BinaryOperation):
            kinds = {self.kind(node.left, scope, depth + 1), self.kind(node.right, scope, depth + 1)}
            return TORCH if TORCH in kinds else None
        if isinstance(node, cst.Subscript):
            return TORCH if self.kind(node.value, scope, depth + 1) == TORCH else None
        if isinstance(node, cst.IfExp):
            kinds = {self.kind(node.body, scope, depth + 1), self.kind(node.orelse, scope, depth + 1)}
            return kinds.pop() if len(kinds) == 1 else None
        if isinstance(
            node, (cst.SimpleString, cst.FormattedString, cst.Integer, cst.Float, cst.Dict, cst.List, cst.Tuple, cst.Set)
        ):
            return FOREIGN
        return None

    def _kind_of_name(self, node: cst.Name, scope: Scope, depth: int) -> str | None:
        bindings = scope.find(node.value)
        kinds = {self._kind_of_binding(node.value, binding, depth) for binding in bindings}
        kinds.discard("placeholder")
        if not kinds and not bindings:
            # A name of Python itself; a name that a star import may have bound is unknown.
            return FOREIGN if node.value in _PURE_NAMES and not self.model.star_imports else None
        return kinds.pop() if len(kinds) == 1 else None

    def _kind_of_binding(self, name: str, binding: Binding, depth: int) -> str | None:
        if binding.kind == "import":
            return self._kind_of_qualified(self._imported(binding))
        if binding.kind == "assign":
            if isinstance(binding.value, cst.Name) and binding.value.value == "None":
                return "placeholder"
            return self.kind(binding.value, binding.scope, depth + 1)
        if binding.kind == "parameter":
            return self._kind_of_parameter(name, binding)
        if binding.kind == "class":
            return FOREIGN
        return None

    def _kind_of_parameter(self, name: str, binding: Binding) -> str | None:
        param = binding.value
        if name == "self" and binding.scope.kind == "class" and isinstance(binding.scope.node, cst.ClassDef):
            return self._kind_of_instance(binding.scope.node.name.value)
        if param.annotation is not None:
            annotation = param.annotation.annotation
            qualified = self.qualify(annotation, binding.scope) or ""
            if qualified.startswith("torch."):
                return TORCH if qualified.rsplit(".", 1)[-1][:1].isupper() else None
            if isinstance(annotation, cst.Name):
                return self._kind_of_instance(annotation.value)
        return None

    def _kind_of_instance(self, name: str) -> str | None:
        derives = self.project.is_torch_class(name)
        if derives is None:
            return None
        if derives:
            return TORCH
        return None if self.project.unknown_base(name) else USER

    def _kind_of_attribute(self, node: cst.Attribute, scope: Scope, depth: int) -> str | None:
        qualified = self.qualify(node, scope)
        if qualified is not None:
            return self._kind_of_qualified(qualified)
        name = node.attr.value
        if isinstance(node.value, cst.Name) and node.value.value == "self":
            owner = scope.enclosing("class")
            kinds = set()
            for place in self.model.attribute_values.get(name, ()):
                if dotted(place.path[-1]) == f"self.{name}" and place.scope.enclosing("class") is owner:
                    value = place.node
                    if not (isinstance(value, cst.Name) and value.value == "None"):
                        kinds.add(self.kind(value, place.scope, depth + 1))
            return kinds.pop() if len(kinds) == 1 else None
        if self.kind(node.value, scope, depth + 1) == TORCH and name in ("data", "grad", "T", "weight", "bias", "module"):
            return TORCH
        return None

    def _kind_of_call(self, node: cst.Call, scope: Scope, depth: int) -> str | None:
        qualified = self.qualify(node.func, scope)
        if qualified is not None:
            if qualified == "builtins.super":
                owner = scope.enclosing("class")
                return self._kind_of_instance(owner.node.name.value) if owner and isinstance(owner.node, cst.ClassDef) else None
            root = qualified.split(".")[0]
            if root in _OTHER_GPU_LIBRARIES:
                return FOREIGN
            if root in _TORCH_LIBRARIES:
                plain = qualified in _PLAIN_FUNCTIONS or qualified.startswith(_PLAIN_RESULTS)
                return None if plain else TORCH
            return self._kind_of_instance(qualified.rsplit(".", 1)[-1])
        if isinstance(node.func, cst.Name):
            return self._kind_of_instance(node.func.value)
        if isinstance(node.func, cst.Attribute) and self.kind(node.func.value, scope, depth + 1) == TORCH:
            no_tensors = (
                "item",
                "tolist",
                "numpy",
                "size",
                "dim",
                "numel",
                "state_dict",
                "type",
                "parameters",
                "get_device",
                "named_parameters",
            )
            return None if node.func.attr.value in no_tensors else TORCH
        return None

    def _kind_of_qualified(self, qualified: str) -> str | None:
        root = qualified.split(".")[0]
        if root == "torch":
            return TORCH if qualified in ("torch.Tensor", "torch.nn.Module") else FOREIGN
        if not root or root in self.project.classes or qualified.rsplit(".", 1)[-1] in self.project.classes:
            return None
        return FOREIGN if root in _OTHER_GPU_LIBRARIES or root == "builtins" else None


def _same_origin(one: str, other: str) -> bool:
    """Two imports of one name, as in try: from torch.cuda.amp import autocast; except: from torch import autocast."""
    return one.startswith("torch") and other.startswith("torch")
