"""The protobuf message `toolkit.dumpdata.DumpData`: the header of a dump file of an operator.

    header = DumpData(version="2.0", op_name="add")
    header.output.add(data_type=1, format=2, size=16).shape.dim.extend([4])
    header.SerializeToString()

The descriptor is built from FIELDS at run time. So there is no generated module that must match the installed version of
protobuf. Numbers and types are those of the public readers of such files. The enums are int32 here, so unknown numbers are kept.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "toolkit.dumpdata"
# message -> (number, name, type); a type with a capital letter is a message, "*" means repeated.
FIELDS: dict[str, list[tuple[int, str, str]]] = {
    "Shape": [(1, "dim", "*uint64")],
    "OriginalOp": [(1, "name", "string"), (2, "output_index", "uint32"), (3, "data_type", "int32"), (4, "format", "int32")],
    "DimRange": [(1, "dim_start", "uint32"), (2, "dim_end", "uint32")],
    "OpOutput": [
        (1, "data_type", "int32"),
        (2, "format", "int32"),
        (3, "shape", "Shape"),
        (4, "original_op", "OriginalOp"),
        (5, "data", "bytes"),
        (6, "size", "uint64"),
        (7, "original_shape", "Shape"),
        (8, "sub_format", "int32"),
        (9, "address", "uint64"),
        (10, "dim_range", "*DimRange"),
        (11, "offset", "uint64"),
    ],
    "OpInput": [
        (1, "data_type", "int32"),
        (2, "format", "int32"),
        (3, "shape", "Shape"),
        (4, "data", "bytes"),
        (5, "size", "uint64"),
        (6, "original_shape", "Shape"),
        (7, "sub_format", "int32"),
        (8, "address", "uint64"),
        (9, "offset", "uint64"),
    ],
    "OpBuffer": [(1, "type", "int32"), (2, "data", "bytes"), (3, "size", "uint64")],
    "OpAttr": [(1, "name", "string"), (2, "value", "string")],
    "Workspace": [(1, "type", "int32"), (2, "data", "bytes"), (3, "size", "uint64")],
    "DumpData": [
        (1, "version", "string"),
        (2, "dump_time", "uint64"),
        (3, "output", "*OpOutput"),
        (4, "input", "*OpInput"),
        (5, "buffer", "*OpBuffer"),
        (6, "op_name", "string"),
        (7, "attr", "*OpAttr"),
        (8, "space", "*Workspace"),
    ],
}


def _class() -> Any:
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="torch_npu/dump_data.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in FIELDS.items():
        made = file.message_type.add(name=message)
        for number, name, kind in fields:
            base = kind.lstrip("*")
            label = field_type.LABEL_REPEATED if kind.startswith("*") else field_type.LABEL_OPTIONAL
            field = made.field.add(name=name, number=number, label=label)
            if base[0].isupper():
                field.type, field.type_name = field_type.TYPE_MESSAGE, f".{_PACKAGE}.{base}"
            else:
                field.type = getattr(field_type, f"TYPE_{base.upper()}")
    pool = descriptor_pool.DescriptorPool()  # not the default pool, in which a module of the vendor may use the same names
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.DumpData"))


DumpData: Any = _class()
