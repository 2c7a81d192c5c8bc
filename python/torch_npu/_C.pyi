# The bindings of csrc/bindings. mypy takes every name in them as Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
