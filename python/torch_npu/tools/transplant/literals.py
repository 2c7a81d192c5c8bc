"""Which text names a device of CUDA, a backend or an environment variable, and what it is on npu."""

from __future__ import annotations

import re

DEVICE = "device"
BACKEND = "backend"

_DEVICE_TEXT = re.compile(r"cuda(?=$|:(?:\d+|%[dsi]|\{[^{}]*\}|)$)")
_TENSOR_TYPE = re.compile(r"torch\.cuda(?=\.(?:Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)?Tensor$|\.$)")
_BACKEND_TEXT = re.compile(r"(?i:nccl)")
_BACKEND_WHOLE = re.compile(r"(?i)nccl|(?:\w+:\w+,)*cuda:nccl(?:,\w+:\w+)*")
VARIABLES = {
    "CUDA_VISIBLE_DEVICES": "ASCEND_RT_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING": "ASCEND_LAUNCH_BLOCKING",
    "NCCL_SOCKET_IFNAME": "HCCL_SOCKET_IFNAME",
}
_VARIABLE = re.compile(r"(?<![A-Za-z0-9_])(" + "|".join(VARIABLES) + r")(?![A-Za-z0-9_])")
_DEVICE_NAME = re.compile(r"(?i)device|map_?location|^dev$|_dev$|^accelerator$")
_NOT_DEVICE_NAME = re.compile(r"(?i)visible_devices|device_?count|num_?devices|n_?devices")
_BACKEND_NAME = re.compile(r"(?i)backend")
WORDS = re.compile(r"(?i)cuda|nccl")


def device(text: str) -> str | None:
    """ "cuda:1" -> "npu:1"; None for any other text."""
    if _DEVICE_TEXT.match(text):
        return "npu" + text[len("cuda") :]
    changed = _TENSOR_TYPE.sub("torch.npu", text)
    return changed if changed != text else None


def has_index(text: str) -> bool:
    return ":" in text


def is_indexed_device(text: str) -> bool:
    return text.startswith("cuda:") and device(text) is not None


def is_tensor_type(text: str) -> bool:
    return _TENSOR_TYPE.match(text) is not None


def backend(text: str) -> str | None:
    """ "nccl" -> "hccl", "cpu:gloo,cuda:nccl" -> "cpu:gloo,npu:hccl"."""
    if not _BACKEND_WHOLE.fullmatch(text):
        return None
    return _BACKEND_TEXT.sub(lambda found: "HCCL" if found[0].isupper() else "hccl", text).replace("cuda:", "npu:")


def variables(text: str) -> str:
    return _VARIABLE.sub(lambda found: VARIABLES[found[1]], text)


def names_device(name: str) -> bool:
    """Whether the name of a variable, parameter, key or option is that of a device."""
    return _DEVICE_NAME.search(name) is not None and _NOT_DEVICE_NAME.search(name) is None


def names_backend(name: str) -> bool:
    return _BACKEND_NAME.search(name) is not None
