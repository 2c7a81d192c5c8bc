"""torch.load, and torch.save that does not wait for the disk.

writing = save_async(model.state_dict(), "checkpoint.pt")    # the values of now, whatever is trained on
writing.join()                                               # where the file is needed at once
"""

import io
import os
import pickle
import threading

import torch
from torch import load

__all__ = ["load", "save_async"]


def save_async(
    obj,
    f,
    pickle_module=pickle,
    pickle_protocol=2,
    _use_new_zipfile_serialization=True,
    _disable_byteorder_record=False,
    model=None,
):
    """torch.save(obj, f): what is saved is taken before it returns, and written by the thread that it returns.

    The process does not end before that thread. model is not needed, and may be left out: nothing of it is read later."""
    if model is not None and not isinstance(model, torch.nn.Module):
        raise TypeError(f"save_async: model must be a torch.nn.Module or None, not {type(model).__name__}")
    taken = io.BytesIO()
    torch.save(obj, taken, pickle_module, pickle_protocol, _use_new_zipfile_serialization, _disable_byteorder_record)
    file = open(f, "wb") if isinstance(f, (str, os.PathLike)) else f  # noqa: SIM115 (the thread closes it)
    thread = threading.Thread(target=_write, args=(taken, file, file is not f), name="torch_npu.save_async")
    thread.start()
    return thread


def _write(taken, file, close):
    try:
        file.write(taken.getbuffer())
        file.flush()
    finally:
        if close:
            file.close()
