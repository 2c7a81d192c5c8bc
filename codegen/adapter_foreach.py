"""C++ of the adapters of foreach operators: one launch for a list of tensors, or ATen's own loop."""

from adapter_text import Adapter, call_text, is_tensor_like, signature, symbol_of
from aten_schemas import aten
from plugin_table import PluginOp
from torchgen.model import NativeFunction, SchemaKind


def foreach_adapter(op: PluginOp, function: NativeFunction) -> Adapter:
    """One launch for a list of tensors; ATen's own loop for lists that one launch cannot take."""
    schema = function.func
    symbol = symbol_of(schema.name)
    inputs = schema.arguments.flat_all
    lists = [argument.name for argument in inputs if is_tensor_like(argument) and argument.type.is_list_like()]
    scalars = [argument.name for argument in inputs if str(argument.type) == "Scalar"]
    scalar_lists = [argument.name for argument in inputs if str(argument.type) == "Scalar[]"]
    given = ", ".join(argument.name for argument in inputs)
    slow = f"at::native::{slow_kernel(op, function)}({given})"
    scalar_text = scalar_lists[0] if scalar_lists else f"at::ArrayRef<at::Scalar>{{{', '.join(scalars)}}}"
    promotes = "true" if op.foreach == "floating" else "false"
    restriction = ", ".join([*lists, *scalar_lists])
    inplace = schema.kind() == SchemaKind.inplace
    lines = [f"{signature(schema, symbol)} {{", f"  at::native::check_foreach_api_restrictions({restriction});"]
    tests = [f"!can_use_one_launch({{{', '.join(lists)}}}, {scalar_text}, {promotes})"]
    if inplace and len(lists) > 1:
        tests += [f"overlaps_in_part(self, {{{', '.join(lists[1:])}}})"]
    lines += [f"  if ({' || '.join(tests)}) return {slow};"]
    lines += [f"  const DeviceScope scope({lists[0]});"]
    result = op.outputs[0].name if op.outputs else None
    if inplace:
        names = {result: "self"} if result else {}
        lines += ["  increment_versions(self);", f"  {call_text(op.inplace or op.call, names)}"]
    else:
        lines += [
            f"  std::vector<at::Tensor> {result} = empty_as({lists[0]});",
            f"  {call_text(op.call, {})}",
            f"  return {result};",
        ]
    headers = ("ATen/native/ForeachUtils.h", f"ATen/ops/{function.root_name}_native.h", "aten/ops/foreach.h")
    return Adapter(str(schema.name), symbol, "\n".join([*lines, "}"]), headers)


def slow_kernel(op: PluginOp, function: NativeFunction) -> str:
    found = aten().composite.get_kernel(function)
    if found is None:
        op.row.fail(f"ATen has no loop for `{function.func.name}`, which is needed for lists that one launch cannot take")
    return found.kernel
