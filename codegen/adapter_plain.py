"""C++ of the adapters of operators without a shape function in ATen: aten/machinery/infer.h gives the shapes of the results."""

from adapter_text import Adapter, infer_text, moved_all, out_names, prologue, result_text, signature, slow_call, symbol_of
from plugin_table import PluginOp
from torchgen.model import FunctionSchema, NativeFunction, SchemaKind

BROADCASTING = ("promoted", "truth_of_two")  # shape functions of operators that broadcast `other`
EXPANDING = ("addbmm", "addr")  # shape functions of operators that expand `self`


def plain_adapter(op: PluginOp, function: NativeFunction | None, schema: FunctionSchema, prefix: str = "") -> Adapter:
    """An overload of an operator without a shape function in ATen."""
    kind = schema.kind()
    symbol = prefix + symbol_of(schema.name)
    names = [output.name for output in op.outputs] or out_names(op.schema)
    lines = [f"{signature(schema, symbol)} {{", *prologue(function, schema)]
    if op.outputs and kind not in (SchemaKind.out, SchemaKind.inplace):
        if op.infer is None:
            op.row.fail("`infer` must name the function of aten/machinery/infer.h that gives the shapes of the new tensors")
        lines += [f"  auto [{', '.join(names)}] = allocate({infer_text(op, schema)});", *slow_call(op, op.call, {})]
        lines += [result_text(schema, moved_all(names), moved=True)]
    elif kind == SchemaKind.out:
        given = out_names(schema)
        targets = given
        if op.infer in BROADCASTING:  # ATen calls the out= form for its in-place forms, too
            lines += [f"  if (self.is_same({given[0]})) check_inplace_broadcast(self, other);"]
        if op.infer:
            lines += [f"  const Results<{len(given)}> results({infer_text(op, schema)}, {{{', '.join(given)}}});"]
            targets = [f"results.output({index})" for index in range(len(given))]
        lines += slow_call(op, op.call, dict(zip(names, targets, strict=True)))
        lines += ["  results.finish();"] * bool(op.infer)
        lines += [result_text(schema, given, moved=False)]
    else:
        target = schema.arguments.flat_all[0].name
        call, renamed = op.call, dict.fromkeys(names, target)
        if op.inplace:
            call, renamed = op.inplace, {}
        if op.outputs and op.infer in BROADCASTING:
            lines += [f"  check_inplace_broadcast({target}, other);"]
        elif op.outputs and op.infer in EXPANDING:
            lines += [f"  check_inplace_sizes({target}, {infer_text(op, schema)}[0].sizes);"]
        elif op.infer and not op.outputs:
            lines += [f"  {infer_text(op, schema)};"]
        lines += [*slow_call(op, call, renamed), result_text(schema, [target] if schema.returns else [], moved=False)]
    text = "\n".join([*lines, "}"])
    if prefix:
        definition = str(op.schema)
        shapes = f"  auto [{', '.join(names)}] = allocate_meta({infer_text(op, schema)});"
        results = result_text(schema, moved_all(names), moved=True)
        text += f"\n\n{signature(schema, f'{symbol}_meta')} {{\n{shapes}\n{results}\n}}"
        return Adapter(str(schema.name), symbol, text, (), definition, f"{symbol}_meta")
    return Adapter(str(schema.name), symbol, text, ())
