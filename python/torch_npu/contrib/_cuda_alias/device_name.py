"""The names of devices while "cuda" means npu: a str that equals both."""

from __future__ import annotations

import codecs
from typing import Any


class Name(str):
    """A name such as "npu", "npu:0" or "torch.npu.FloatTensor" that also compares equal to the same name with "cuda" in it.

    ==, `in` and startswith() accept both forms. hash() is that of the npu form, so dicts and sets find it as npu. It is pickled
    as a plain str, which torch.load(weights_only=True) reads without torch_npu."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True or (isinstance(other, str) and str.__eq__(self._of_cuda(), other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __contains__(self, part: str) -> bool:  # type: ignore[override]
        return str.__contains__(self, part) or part in self._of_cuda()

    def startswith(self, prefix: str | tuple[str, ...], *limits: Any) -> bool:
        return str.startswith(self, prefix, *limits) or self._of_cuda().startswith(prefix, *limits)

    def _of_cuda(self) -> str:
        return self.replace("npu", "cuda", 1)

    def __reduce__(self) -> tuple[Any, ...]:
        # codecs.encode is the only function that weights_only admits and that returns a str. rot13 twice gives the same text.
        return codecs.encode, (codecs.encode(str(self), "rot13"), "rot13")

    def __copy__(self) -> Name:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Name:
        return self
