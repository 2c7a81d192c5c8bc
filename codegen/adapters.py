"""The adapters of all rows of the plugin table, and the files that hold them.

A row becomes every form of its operator that ATen does not compose from another one: functional, in-place and out=.
"""

from collections.abc import Sequence
from dataclasses import replace

import torchgen.local
from adapter_foreach import foreach_adapter
from adapter_plain import plain_adapter
from adapter_structured import structured_adapter
from adapter_text import Adapter, signature, tensor_names
from plugin_calls import GENERATED
from plugin_table import PluginOp
from torchgen.model import NativeFunction, SchemaKind


def forms(op: PluginOp) -> list[NativeFunction]:
    """The overloads that a row registers: its own, and the others of its group that ATen does not compose."""
    if op.native is None:
        return []
    if op.group is None:
        return [op.native]
    if op.group.structured:
        if op.native is not op.group.out:
            op.row.fail(f"a structured operator is named by its out= overload, which is `{op.group.out.func.name}`")
        return [function for function in (op.group.functional, op.group.inplace, op.group.out) if function]
    others = [function for function in op.group.functions() if function is not op.native and not function.has_composite_kernel]
    if op.foreach:
        others = [op.group.inplace] if op.group.inplace and op.group.inplace is not op.native else []
    return [op.native, *(function for function in others if function.func.kind() in
                         (SchemaKind.functional, SchemaKind.inplace, SchemaKind.out))]  # fmt: skip


def adapters(op: PluginOp) -> list[Adapter]:
    made: list[Adapter] = []
    if op.fast and not op.structured:
        op.row.fail("`fast` is for operators with a shape function in ATen")
    if op.native is None:
        with torchgen.local.parametrize(use_const_ref_for_mutable_tensors=False, use_ilistref_for_tensor_lists=False):
            return [plain_adapter(op, None, op.schema, prefix="npu_")]
    for function in forms(op):
        with torchgen.local.parametrize(
            use_const_ref_for_mutable_tensors=function.use_const_ref_for_mutable_tensors,
            use_ilistref_for_tensor_lists=function.part_of_structured_group,
        ):
            if op.foreach:
                made.append(foreach_adapter(op, function))
            elif op.group is not None and op.group.structured:
                made.append(with_bypass(structured_adapter(op, op.group, function), function))
            else:
                made.append(with_bypass(plain_adapter(op, function, function.func), function))
    return made


def with_bypass(adapter: Adapter, function: NativeFunction) -> Adapter:
    """Adds the bypass of autograd (aten/machinery/autograd_bypass.h) if the overload returns new tensors and writes to none."""
    schema = function.func
    has_symbols = any("SymInt" in str(argument.type) for argument in schema.arguments.flat_all)
    if schema.kind() != SchemaKind.functional or has_symbols or not tensor_names(schema):
        return adapter
    names = ", ".join(argument.name for argument in schema.arguments.flat_all)
    bypass = f"{adapter.symbol}_autograd"
    head = signature(schema, bypass).replace(f"{bypass}(", f"{bypass}(c10::DispatchKeySet keys, ", 1)
    tracked = ", ".join(["keys", *tensor_names(schema)])
    redispatch = f"at::_ops::{schema.name.unambiguous_name()}::redispatch"
    text = f"""

const AutogradKernel {adapter.symbol}_kernel("aten::{schema.name.name}", "{schema.name.overload_name}");

{head} {{
  if (!{adapter.symbol}_kernel.may_be_skipped({tracked})) return {redispatch}(with_autograd(keys), {names});
  const at::AutoDispatchBelowADInplaceOrView below;
  return {redispatch}(kDeviceKeys, {names});
}}"""
    headers = (*adapter.headers, f"ATen/ops/{function.root_name}_ops.h")
    return replace(adapter, text=adapter.text + text, headers=headers, bypass=bypass)


def adapters_source(made: Sequence[Adapter]) -> str:
    headers = sorted({header for adapter in made for header in adapter.headers})
    includes = "\n".join(f"#include <{header}>" if header.startswith("ATen") else f'#include "{header}"' for header in headers)
    own = [adapter for adapter in made if adapter.definition]
    aten_lines = "\n".join(f'  m.impl("{item.schema_name}", TORCH_FN({item.symbol}));' for item in made if not item.definition)
    bypass_lines = "\n".join(f'  m.impl("{item.schema_name}", TORCH_FN({item.bypass}));' for item in made if item.bypass)
    text = f"""\
// {GENERATED}
#include <ATen/core/op_registration/adaption.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>
{includes}

#include "aten/machinery/autograd_bypass.h"
#include "aten/machinery/cube_math.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/fast.h"
#include "aten/machinery/float_rounding.h"
#include "aten/machinery/infer.h"
#include "aten/machinery/structured.h"
#include "plugin/calls.h"

namespace torch_npu {{
namespace {{

{chr(10).join(adapter.text + chr(10) for adapter in made)}
}}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {{
{aten_lines}
}}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {{
{bypass_lines}
}}
"""
    if own:
        blocks = {
            "TORCH_LIBRARY_FRAGMENT(npu, m)": [f'  m.def("{item.definition}");' for item in own],
            "TORCH_LIBRARY_IMPL(npu, PrivateUse1, m)": [
                f'  m.impl("{item.schema_name}", TORCH_FN({item.symbol}));' for item in own
            ],
            "TORCH_LIBRARY_IMPL(npu, Meta, m)": [
                f'  m.impl("{item.schema_name}", TORCH_FN({item.meta_symbol}));' for item in own
            ],
        }
        text += "".join(f"\n{head} {{\n{chr(10).join(body)}\n}}\n" for head, body in blocks.items())
    return text + "\n}  // namespace torch_npu\n"
