"""C++ of the adapters of structured operators: at::meta gives the shapes of the results."""

from adapter_text import (
    Adapter,
    call_text,
    infer_text,
    inputs_of,
    out_names,
    prologue,
    result_text,
    signature,
    slow_call,
    symbol_of,
    tensor_names,
)
from plugin_table import DeviceCall, PluginOp
from torchgen.api import meta, structured
from torchgen.api.translate import translate
from torchgen.api.types import NativeSignature
from torchgen.model import NativeFunction, NativeFunctionsGroup, SchemaKind

# Word behind `fast` in the table -> rule of aten/machinery/fast.h.
RULES = {
    "promote": "fast::Rule::kPromote",
    "same": "fast::Rule::kSame",
    "floating": "fast::Rule::kFloating",
    "truth": "fast::Rule::kTruth",
}
OVERLAP_CHECKS = {"none": "at::assert_no_overlap", "whole": "at::assert_no_partial_overlap"}


def fast_lines(op: PluginOp, group: NativeFunctionsGroup, kind: SchemaKind, target: str | None) -> list[str]:
    """The cheap shape path; `target` is the written tensor of an in-place or out= form, None in a functional one."""
    if op.fast is None:
        return []
    rule = RULES[op.fast]
    inputs = inputs_of(group.out.func)
    tensors = [argument.name for argument in inputs if str(argument.type) == "Tensor"]
    scalars = [argument.name for argument in inputs if str(argument.type) in ("Scalar", "Scalar?")]
    out = out_names(group.out.func)[0]
    fits = [f"fast::fit({tensors[0]}, {', '.join(scalars)})"] if scalars and op.fast != "truth" else []
    cases: list[tuple[list[str], DeviceCall, list[str], dict[str, str]]] = [
        ([f"fast::applies<{rule}>({', '.join(tensors)})", *fits], op.call, tensors, {})
    ]
    if "other" in op.scalar and len(tensors) == 2:
        names = {"other": "host_scalar(other)"}
        test = [f"fast::is_fitting_number(other, {tensors[0]})", f"fast::applies<{rule}>({tensors[0]})", *fits]
        cases += [(test, op.scalar["other"], tensors[:1], names)]
    lines: list[str] = []
    for tests, call, operands, names in cases:
        if target is None:
            body = [f"    const DeviceScope scope({operands[0]});",
                    f"    at::Tensor {out} = empty_as({operands[0]}, fast::result_dtype<{rule}>({operands[0]}));",
                    f"    {call_text(call, names)}", f"    return {out};"]  # fmt: skip
        else:
            tests = [*tests, f"fast::can_write<{rule}>({target}, {', '.join(operands)})"]
            call = op.inplace if kind == SchemaKind.inplace and op.inplace and call is op.call else call
            body = [
                f"    const DeviceScope scope({operands[0]});",
                f"    {call_text(call, {**names, out: target})}",
                f"    return {target};",
            ]
        lines += [f"  if ({' && '.join(tests)}) {{", *body, "  }"]
    return lines


def structured_adapter(op: PluginOp, group: NativeFunctionsGroup, function: NativeFunction) -> Adapter:
    schema = function.func
    kind = schema.kind()
    symbol = symbol_of(schema.name)
    sig = NativeSignature(schema, prefix="", symint=False)
    meta_arguments = ", ".join(
        item.expr for item in translate(list(sig.arguments()), structured.meta_arguments(group), method=False)
    )
    outs = out_names(group.out.func)
    names = {name: f"op.output({index})" for index, name in enumerate(outs)}
    meta_class = f"at::meta::structured_{meta.name(group)}"
    if kind == SchemaKind.functional:
        given: list[str] = []
        build = f"  Functional<{meta_class}, {len(outs)}> op;"
    else:
        given = ["self"] if kind == SchemaKind.inplace else out_names(schema)
        form = "Form::kInplace" if kind == SchemaKind.inplace else "Form::kOut"
        build = f"  Into<{meta_class}, {len(outs)}, {form}> op({{{', '.join(given)}}});"
    call = op.inplace if kind == SchemaKind.inplace and op.inplace else op.call
    lines = [
        f"{signature(schema, symbol)} {{",
        *fast_lines(op, group, kind, given[0] if given else None),
        *prologue(function, schema),
    ]
    if op.infer:
        lines += [f"  {infer_text(op, schema)};"]
    cast = given[0] if kind == SchemaKind.out and op.fast != "truth" else None
    lines += [build, f"  (void)op.meta({meta_arguments});"]
    if kind == SchemaKind.out:
        lines += [f"  {OVERLAP_CHECKS[word]}({given[0]}, {name});" for name, word in op.overlap.items()]
    lines += slow_call(op, call, names, cast)
    if kind != SchemaKind.functional:
        lines += ["  op.finish();"]
    headers: tuple[str, ...] = (f"ATen/ops/{group.root_name}_meta.h",)
    if op.overlap:
        headers += ("ATen/MemoryOverlap.h",)
    if op.errors:
        headers += ("ATen/ops/_linalg_check_errors.h",)
        matrix = tensor_names(schema)[0]
        lines += [f'  if (check_errors) at::_linalg_check_errors({names["info"]}, "{op.errors}", {matrix}.dim() == 2);']
    if kind == SchemaKind.functional:
        lines += [result_text(schema, [f"std::move(op.take({index}))" for index in range(len(outs))], moved=True)]
    else:
        lines += [result_text(schema, given, moved=False)]
    return Adapter(str(schema.name), symbol, "\n".join([*lines, "}"]), headers)
