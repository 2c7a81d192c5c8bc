"""Captures operators and backward nodes with their tensors or statistics, on npu, CPU and CUDA.

with Capture(Hdf5Writer("step.h5")):                              # every outermost operator and every backward node
    step()
with Capture(JsonWriter("dump/step0/rank0", tensors=False), mode="statistics", operators="linear|.*Backward0"):
    step()
with Capture(AclWriter("output")):                                # dump files of operators, as the device writes them
    step()

A separate thread passes Record objects to the writer. The files are complete when the block ends, also after an exception,
exit(), Ctrl-C and SIGTERM."""

from ._acl import AclWriter
from ._hdf5 import Hdf5Writer, read_entries
from ._json import JsonWriter
from ._record import Record, TensorValue
from ._session import Capture

__all__ = ["AclWriter", "Capture", "Hdf5Writer", "JsonWriter", "Record", "TensorValue", "read_entries"]
