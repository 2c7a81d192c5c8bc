"""The names that torch_npu.contrib.transfer_to_npu replaces in torch. csrc/aten/ops/cuda_alias.h replaces the rest.

for owner, name, value in replacements():
    setattr(owner, name, value)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from . import graphs, libraries, profilers, tensors, torch_cuda
from .device_name import Name
from .replacement import REMOVED, Replacement, Replacements

__all__ = ["AFTER_IMPORT", "REMOVED", "Name", "Replacement", "Replacements", "replacements"]


def replacements() -> Iterator[Replacement]:
    """The replacements in modules that `import torch` imports."""
    yield from torch_cuda.replacements()
    yield from profilers.replacements()
    yield from tensors.replacements()
    yield from graphs.fake_tensors()
    yield from graphs.scripts()
    yield from libraries.process_groups()
    # torch's own warns that it was built without cuDNN.
    yield torch.backends.cudnn, "is_acceptable", lambda tensor: False


AFTER_IMPORT: dict[str, Callable[[], Replacements]] = {
    "torch._dynamo.utils": graphs.dynamo_constants,
    "torch.fx.experimental.proxy_tensor": graphs.exported_graphs,
    "torch.fx.graph_module": graphs.symbolic_traces,
    "torch.utils.cpp_extension": libraries.extensions,
    "torch_npu._dynamo": graphs.compiled_without_backend,
    "yaml": libraries.yaml_strings,
}
"""The replacements in modules that few programs import, by the name of the module. They are made right after its import."""
