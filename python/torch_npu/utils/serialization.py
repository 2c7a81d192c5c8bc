"""torch.load, and a torch.save that writes in a thread.

writing = save_async(model.state_dict(), "checkpoint.pt")    # saves the current values
writing.join()                                               # waits for the file
"""

from __future__ import annotations

import io
import os
import pickle
import threading
from typing import IO, Any

import torch
from torch import load

__all__ = ["load", "save_async"]


def save_async(
    obj: object,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
    model: torch.nn.Module | None = None,
) -> threading.Thread:
    """torch.save(obj, f) in two parts: it copies the values before it returns, and returns the thread that writes the file.

    The process does not end before that thread. model is checked and not used."""
    if model is not None and not isinstance(model, torch.nn.Module):
        raise TypeError(f"save_async: model must be a torch.nn.Module or None, not {type(model).__name__}")
    taken = io.BytesIO()
    torch.save(obj, taken, pickle_module, pickle_protocol, _use_new_zipfile_serialization, _disable_byteorder_record)
    file = open(f, "wb") if isinstance(f, (str, os.PathLike)) else f  # noqa: SIM115 (the thread closes it)
    thread = threading.Thread(target=_write, args=(taken, file, file is not f), name="torch_npu.save_async")
    thread.start()
    return thread


def _write(taken: io.BytesIO, file: IO[bytes], close: bool) -> None:
    try:
        file.write(taken.getbuffer())
        file.flush()
    finally:
        if close:
            file.close()
