"""The plugin table is type-checked, and a mistake is one sentence that names file, line, row, argument and both types."""

import op_calls
import plugin_table
import pytest
import table_rows

from tests.codegen.device_rows import device


def plugin(tmp_path, text):
    functions = device(tmp_path)
    path = tmp_path / "ops.yaml"
    path.write_text(text)
    return plugin_table.read_plugin_table(path, functions)


def test_plugin_rows_of_each_kind(tmp_path):
    ops = plugin(
        tmp_path,
        """
add.out:
  call: aclnnAdd(self, other, alpha, out)
  inplace: aclnnInplaceAdd(self, other, alpha)
  scalar: {other: "aclnnAdds(self, other, alpha, out)"}
  fast: promote
_softmax.out: {call: "aclnnSoftmax(self, dim, out)", unused: half_to_float}
mm.out: {call: "aclnnMm(self, mat2, out, cube_math_type)"}
linalg_vector_norm.out: {call: "aclnnVectorNorm(self, ord, dim, keepdim, dtype_of(out), out)", unused: dtype}
roll: {call: "aclnnRoll(self, shifts, dims, result)", infer: same}
_foreach_add.List: {call: "aclnnForeachAdd(self, other, alpha, out)", foreach: list}
npu::npu_norm(Tensor x, Tensor? weight, float eps=1e-06) -> (Tensor, Tensor):
  call: aclnnNorm(x, weight, eps, y, mean)
  infer: norm
""",
    )
    add, softmax, mm, norm, roll, foreach, npu = ops
    assert add.structured and add.fast == "promote"
    assert [argument.parameter.name for argument in add.call.arguments] == ["self", "other", "alpha", "out"]
    assert str(add.scalar["other"].arguments[1].type) == "Scalar"
    assert add.inplace.function.name == "aclnnInplaceAdd" and add.inplace.arguments[0].type.written
    assert softmax.unused == ("half_to_float",)
    assert mm.call.arguments[3].expression == op_calls.Expression("constant", "cube_math_type")
    assert norm.call.arguments[4].expression == op_calls.Expression("dtype_of", "out")
    assert [(output.name, str(output.type)) for output in roll.outputs] == [("result", "Tensor!")]
    assert [(output.name, str(output.type)) for output in foreach.outputs] == [("out", "Tensor![]")]
    assert npu.native is None and npu.name == "npu::npu_norm" and [output.name for output in npu.outputs] == ["y", "mean"]


PLUGIN_MISTAKES = {
    "swapped arguments": (
        'add.out: {call: "aclnnAdd(self, alpha, other, out)"}',
        "parameter `other` of `aclnnAdd` is Tensor, but it gets `alpha` of type Scalar",
    ),
    "missing argument": ('add.out: {call: "aclnnAdd(self, other, alpha)"}', "`out` is missing at the end"),
    "unknown name": ('add.out: {call: "aclnnAdd(self, othr, alpha, out)"}', "gets `othr`, which is no argument"),
    "dropped argument": ('_softmax.out: {call: "aclnnSoftmax(self, dim, out)"}', "`half_to_float` does not reach `aclnnSoftmax`"),
    "unused that is used": ('add.out: {call: "aclnnAdd(self, other, alpha, out)", unused: other}', "`other` is listed as unused"),
    "unknown function": ('add.out: {call: "aclnnPlus(self, other, alpha, out)"}', "the device table has no `aclnnPlus`"),
    "unknown operator": ('plus.out: {call: "aclnnAdd(self, other, alpha, out)"}', "ATen has no overload `plus.out`"),
    "unknown key": ('add.out: {call: "aclnnAdd(self, other, alpha, out)", quick: true}', "unknown word"),
    "unknown rule": (
        'add.out: {call: "aclnnAdd(self, other, alpha, out)", fast: very}',
        "unknown word `very` for `fast`; known are promote, ",
    ),
    "no call": ("add.out: {fast: promote}", "`call` is missing beside it"),
    "no rows": ("add.out: aclnnAdd", "indented rows are expected"),
    "key twice": (
        'add.out: {call: "aclnnAdd(self, other, alpha, out)", fast: same, fast: promote}',
        "row `fast`: it is declared twice, first in line 1",
    ),
    "row twice": (
        "add.out: {call: x}\nadd.out: {call: x}",
        "row `add.out`: it is declared twice, first in line 1",
    ),
    "unknown kind of list": (
        '_foreach_add.List: {call: "aclnnForeachAdd(self, other, alpha, out)", foreach: lists}',
        "unknown word `lists` for `foreach`; known are list, floating",
    ),
    "unknown overlap": (
        'add.out: {call: "aclnnAdd(self, other, alpha, out)", overlap: {other: half}}',
        "unknown overlap `half`; known are none, whole",
    ),
    "unused that is no name": (
        '_softmax.out: {call: "aclnnSoftmax(self, dim, out)", unused: [[half_to_float]]}',
        "a list of names is expected",
    ),
    "errors without a code": (
        'add.out: {call: "aclnnAdd(self, other, alpha, out)", errors: add}',
        "`errors` is for an operator with the argument `check_errors` and the result `info`",
    ),
    "scalar of the only tensor": (
        'roll: {call: "aclnnRoll(self, shifts, dims, out)", scalar: {self: "aclnnRoll(self, shifts, dims, out)"}, infer: same}',
        "`scalar` names `self`, but the operator has no other tensor",
    ),
    "too few results": ('roll: {call: "aclnnNonzero(self, self)"}', "the schema gives 1 results, but the call has 0 names"),
    "optional into plain": (
        'linalg_vector_norm.out: {call: "aclnnVectorNorm(self, ord, dim, keepdim, dtype, out)"}',
        "parameter `dtype` of `aclnnVectorNorm` is dtype, but it gets `dtype` of type dtype?",
    ),
    "scalar of a number": (
        'add.out: {call: "aclnnAdd(self, other, alpha, out)", scalar: {alpha: "aclnnAdds(self, other, alpha, out)"}}',
        "`scalar` names `alpha`, which is no tensor argument",
    ),
    "no in-place form": (
        'mm.out: {call: "aclnnMm(self, mat2, out, 0)", inplace: "aclnnMm(self, mat2, self, 0)"}',
        "no in-place form",
    ),
    "bad schema": ('npu::x(Tensr self) -> Tensor: {call: "aclnnRoll(self, out)"}', "the schema cannot be parsed"),
}


@pytest.mark.parametrize("row, sentence", PLUGIN_MISTAKES.values(), ids=PLUGIN_MISTAKES)
def test_plugin_mistake_is_named(tmp_path, row, sentence):
    with pytest.raises(table_rows.TableError) as failure:
        plugin(tmp_path, row)
    message = str(failure.value)
    assert sentence in message
    assert message.startswith(f"{tmp_path}/ops.yaml, line {len(row.splitlines())}, row `")
    assert message.endswith(".") and "\n" not in message


def test_running_statistics_are_written_though_aten_does_not_say_so(tmp_path):
    row = "aclnnBn(Tensor x, Tensor!? mean, Tensor! out): kernel bn"
    path = tmp_path / "ops.yaml"
    path.write_text('npu::bn(Tensor x, Tensor? mean) -> Tensor: {call: "aclnnBn(x, mean, out)", infer: same}')
    assert len(plugin_table.read_plugin_table(path, device(tmp_path, row))) == 1
