"""The operator tables are type-checked, and a mistake is one sentence that names file, row, parameter and both types."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torchgen")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "codegen"))

import op_tables  # noqa: E402

DEVICE = {
    "add": "aclnnAdd(Tensor self, Tensor other, Scalar alpha, Tensor! out): add.out(self, other, alpha, out) | engine add",
    "inplace": "aclnnInplaceAdd(Tensor! selfRef, Tensor other, Scalar alpha): add_.Tensor(selfRef, other, alpha)",
    "adds": "aclnnAdds(Tensor self, Scalar other, Scalar alpha, Tensor! out): add.Scalar_out(self, other, alpha, out)",
    "softmax": "aclnnSoftmax(Tensor self, int dim, Tensor! out): _softmax.out(self, dim, false, out) | dtypes floating",
    "mm": "aclnnMm(Tensor self, Tensor mat2, Tensor! out, int8 cubeMathType): mm.out(self, mat2, out)",
    "roll": "aclnnRoll(Tensor x, int[] shifts, int[] dims, Tensor! out): roll(x, shifts, dims)",
    "nonzero": "aclnnNonzero(Tensor self, Tensor! out): nonzero(self) | sync",
    "norm": "aclnnNorm(Tensor x, Tensor? weight, double eps, Tensor! y, Tensor!? mean): kernel norm | shapes broadcast",
    "foreach": "aclnnForeachAdd(Tensor[] x1, Tensor[] x2, Scalar alpha, Tensor![] out): kernel foreach_add(x1, x2, alpha, out)",
    "index": "aclnnIndex(Tensor self, Tensor?[] indices, Tensor! out): index.Tensor_out(self, indices, out)",
    "vector_norm": "aclnnVectorNorm(Tensor self, Scalar ord, int[]? dims, bool keep, dtype dtype, Tensor! out): "
    "linalg_vector_norm.out(self, ord, dims, keep, dtype, out)",
}


def device(tmp_path, *rows):
    path = tmp_path / "aclnn.yaml"
    path.write_text("\n".join(rows or DEVICE.values()))
    return op_tables.read_device_table(path)


def plugin(tmp_path, text):
    functions = device(tmp_path)
    path = tmp_path / "ops.yaml"
    path.write_text(text)
    return op_tables.read_plugin_table(path, functions)


def test_device_rows_of_each_kind(tmp_path):
    table = device(tmp_path)
    assert list(table) == [row.split("(")[0] for row in DEVICE.values()]
    add, roll, norm = table["aclnnAdd"], table["aclnnRoll"], table["aclnnNorm"]
    assert str(add.aten.function.func.name) == "add.out"
    assert [str(parameter.type) for parameter in add.parameters] == ["Tensor", "Tensor", "Scalar", "Tensor!"]
    assert (add.engine, add.sync, add.dtypes, add.results) == ("add", False, (), ())
    assert [result.name for result in roll.results] == ["out"]
    assert (norm.kernel, norm.aten, norm.shapes) == ("norm", None, "broadcast")
    assert [str(item.type) for item in norm.kernel_arguments] == ["Tensor", "Tensor?", "double", "Tensor!", "Tensor!?"]
    assert table["aclnnNonzero"].sync
    assert table["aclnnSoftmax"].dtypes == ("floating",)
    assert [output.name for output in norm.outputs] == ["y", "mean"]


def test_literals_take_the_type_of_the_parameter(tmp_path):
    rows = (
        'aclnnA(Tensor self, Tensor other, Tensor! out): div.out_mode(self, other, "floor", out)',
        "aclnnB(Tensor self, Tensor! out): clamp.out(self, none, -1.5, out)",
        "aclnnC(Tensor self, Tensor! out): sum.IntList_out(self, [0, 1], true, none, out)",
        "aclnnD(Tensor self, Tensor! out): sum.IntList_out(self, [], true, int64, out)",
        "aclnnE(Tensor self, Tensor! out): sum.IntList_out(self, none, true, dtype_of(out), out)",
        "aclnnF(Tensor self, Scalar p, Tensor! out): neg.out(self, out) | unused p",
    )
    assert len(device(tmp_path, *rows)) == 6


DEVICE_MISTAKES = {
    "swapped arguments": (
        "aclnnX(Tensor self, int dim, Tensor! out): _softmax.out(dim, self, false, out)",
        "parameter `self` of `_softmax.out` is Tensor, but it gets `dim` of type int",
    ),
    "missing argument": (
        "aclnnX(Tensor self, int dim, Tensor! out): _softmax.out(self, dim, false)",
        "`out` is missing at the end",
    ),
    "unknown name": (
        "aclnnX(Tensor self, Tensor! out): neg.out(slef, out)",
        "gets `slef`, which is no argument; known: self, out",
    ),
    "unknown overload": (
        "aclnnX(Tensor self, Tensor! out): neg.outt(self, out)",
        "ATen has no overload `neg.outt`; it has neg, neg.out",
    ),
    "unused parameter": (
        "aclnnX(Tensor self, bool flag, Tensor! out): neg.out(self, out)",
        "parameter `flag` does not reach `neg.out`; pass it or add `unused flag`",
    ),
    "unused but used": ("aclnnX(Tensor self, Tensor! out): neg.out(self, out) | unused self", "`self` is called unused"),
    "input as output": (
        "aclnnX(Tensor self, Tensor out): neg.out(self, out)",
        "parameter `out` of `neg.out` is Tensor!, but it gets `out` of type Tensor",
    ),
    "null where none is allowed": (
        "aclnnX(Tensor? self, Tensor! out): neg.out(self, out)",
        "is Tensor, but it gets `self` of type Tensor?",
    ),
    "literal of another type": (
        "aclnnX(Tensor self, int dim, Tensor! out): _softmax.out(self, dim, 1, out)",
        "parameter `half_to_float` of `_softmax.out` is bool, but it gets the literal 1",
    ),
    "results without a place": ("aclnnX(Tensor self): neg(self)", "gives 1 results, but 0 written parameters wait"),
    "unknown type": ("aclnnX(tensor self, Tensor! out): neg.out(self, out)", "`tensor` of parameter `self` is not a type"),
    "written number": ("aclnnX(int! n, Tensor! out): zero_(out)", "`int!` of parameter `n` is not a type"),
    "unknown word": ("aclnnX(Tensor self, Tensor! out): neg.out(self, out) | fast", "unknown word `fast` behind the bar"),
    "unknown dtypes": ("aclnnX(Tensor self, Tensor! out): neg.out(self, out) | dtypes floats", "`dtypes floats` is not"),
    "no call": ("aclnnX(Tensor self, Tensor! out): neg.out", "`neg.out` is not a call"),
    "C++ text": ("aclnnX(Tensor self, Tensor! out): neg.out(self.t(), out)", "`self.t()` is not an argument name"),
    "no signature": ("aclnnX: neg.out(self, out)", "an aclnn signature is expected"),
    "kernel with a literal": ("aclnnX(Tensor! out): kernel zero(1)", "`1` is no parameter"),
    "pattern without a parameter": (
        "aclnnX(Tensor self, Tensor! out): neg.out(self, out) | shapes other[N]",
        "the pattern `other[N]` names no parameter",
    ),
    "pattern of a number": (
        "aclnnX(Tensor self, int n, Tensor! out): kernel x | shapes n[N]",
        "`n` is int; only tensors, lists of tensors and int arrays have patterns",
    ),
    "pattern that is none": ("aclnnX(Tensor self, Tensor! out): kernel x | shapes self", "`self` is not a list of patterns"),
    "size that is none": ("aclnnX(Tensor self, Tensor! out): kernel x | shapes self[n]", "`n` is no size of a pattern"),
    "two open groups": (
        "aclnnX(Tensor self, Tensor! out): kernel x | shapes self[A..., B...]",
        "`self[A..., B...]` has two groups of unknown length",
    ),
    "group of an absent tensor": (
        "aclnnX(Tensor? self, Tensor! out): kernel x | shapes self[A...] out[A..., B...]",
        "`out[A..., B...]` has two groups of unknown length",
    ),
    "letter of two kinds": (
        "aclnnX(Tensor self, Tensor! out): kernel x | shapes self[A] out[A...]",
        "`A` is one size in one place and several in another",
    ),
    "tensor that may be empty": (
        "aclnnX(Tensor self, Tensor! out): kernel x | shapes self[A]?",
        "`self` is Tensor; only a list may be empty",
    ),
    "no condition": ("aclnnX(Tensor self, Tensor! out): kernel x | where rank(self)", "`rank(self)` is not a condition"),
    "C++ condition": (
        "aclnnX(Tensor self, Tensor! out): kernel x | where self.dim() == 2",
        "`self.dim() == 2` is not a condition",
    ),
    "unknown number": (
        "aclnnX(Tensor self, Tensor! out): kernel x | where rank(self) = K",
        "`K` in `rank(self) = K` is no integer parameter, letter or number",
    ),
    "rank of a list": (
        "aclnnX(Tensor[] self, Tensor! out): kernel x | where rank(self) = 1",
        "`rank(self)` in `rank(self) = 1` is not known, or its arguments are of another kind",
    ),
    "axes of a number": (
        "aclnnX(Tensor self, int dim, Tensor! out): kernel x | where axes(dim, self)",
        "`dim` in `axes(dim, self)` is no array",
    ),
    "predicate without a tensor": (
        "aclnnX(Tensor self, int dim, Tensor! out): kernel x | where same(self, dim)",
        "`dim` is no tensor",
    ),
    "predicate with too few": (
        "aclnnX(Tensor self, int dim, Tensor! out): kernel x | where axis(dim)",
        "the number of arguments is wrong",
    ),
    "unknown type of a condition": (
        "aclnnX(Tensor self, Tensor! out): kernel x | where dtype(self) in floats",
        "`floats` in `dtype(self) in floats` is no type",
    ),
    "alternative of two comparisons": (
        "aclnnX(Tensor self, int n, Tensor! out): kernel x | where 0 <= n <= 2 or rank(self) = 0",
        "has an alternative with two comparisons",
    ),
    "two names": ("aclnnX(Tensor a, Tensor! a): neg.out(a, a)", "two parameters have one name"),
}


@pytest.mark.parametrize("row, sentence", DEVICE_MISTAKES.values(), ids=DEVICE_MISTAKES)
def test_device_mistake_is_named(tmp_path, row, sentence):
    with pytest.raises(op_tables.TableError) as failure:
        device(tmp_path, DEVICE["add"], row)
    message = str(failure.value)
    assert sentence in message
    assert message.startswith(f"{tmp_path}/aclnn.yaml, line 2, row `aclnnX")
    assert message.endswith(".") and "\n" not in message


def test_rules_of_a_row(tmp_path):
    row = (
        "aclnnX(Tensor self, int[] dims, Tensor? weight, int k, Tensor! out): kernel x"
        " | shapes self[B..., N] weight[N] | where axes(dims, self), 0 <= k < N, k = 1 or same(self, out)"
    )
    rules = device(tmp_path, row)["aclnnX"].rules
    assert [pattern.text for pattern in rules.patterns] == ["self[B..., N]", "weight[N]"]
    assert rules.letters == ("B", "N")
    assert [[step.code for step in condition.steps] for condition in rules.conditions] == [
        ["kAxes"],
        ["kLiteral", "kInteger", "kLessEqual"],
        ["kInteger", "kLetter", "kLess"],
        ["kInteger", "kLiteral", "kEqual", "kOr", "kSame"],
    ]
    assert rules.conditions[0].steps[0].names == ("dims", "self")
    assert not device(tmp_path)["aclnnAdd"].rules


def test_function_declared_twice_is_named(tmp_path):
    again = "aclnnAdd(Tensor self, Tensor! out): neg.out(self, out)"
    with pytest.raises(op_tables.TableError, match="declared twice, first in line 1"):
        device(tmp_path, DEVICE["add"], again)


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
native_dropout: {hand: random.cpp}
npu::npu_norm(Tensor x, Tensor? weight, float eps=1e-06) -> (Tensor, Tensor):
  call: aclnnNorm(x, weight, eps, y, mean)
  infer: norm
""",
    )
    add, softmax, mm, norm, roll, foreach, dropout, npu = ops
    assert add.structured and add.fast == "promote"
    assert [argument.parameter.name for argument in add.call.arguments] == ["self", "other", "alpha", "out"]
    assert str(add.scalar["other"].arguments[1].type) == "Scalar"
    assert add.inplace.function.name == "aclnnInplaceAdd" and add.inplace.arguments[0].type.written
    assert softmax.unused == ("half_to_float",)
    assert mm.call.arguments[3].expression == op_tables.Expression("constant", "cube_math_type")
    assert norm.call.arguments[4].expression == op_tables.Expression("dtype_of", "out")
    assert [(output.name, str(output.type)) for output in roll.outputs] == [("result", "Tensor!")]
    assert [(output.name, str(output.type)) for output in foreach.outputs] == [("out", "Tensor![]")]
    assert dropout.hand == "random.cpp" and dropout.call is None
    assert npu.native is None and npu.name == "npu::npu_norm" and [output.name for output in npu.outputs] == ["y", "mean"]


PLUGIN_MISTAKES = {
    "swapped arguments": (
        'add.out: {call: "aclnnAdd(self, alpha, other, out)"}',
        "parameter `other` of `aclnnAdd` is Tensor, but it gets `alpha` of type Scalar",
    ),
    "missing argument": ('add.out: {call: "aclnnAdd(self, other, alpha)"}', "`out` is missing at the end"),
    "unknown name": ('add.out: {call: "aclnnAdd(self, othr, alpha, out)"}', "gets `othr`, which is no argument"),
    "dropped argument": ('_softmax.out: {call: "aclnnSoftmax(self, dim, out)"}', "`half_to_float` does not reach `aclnnSoftmax`"),
    "unused that is used": ('add.out: {call: "aclnnAdd(self, other, alpha, out)", unused: other}', "`other` is called unused"),
    "unknown function": ('add.out: {call: "aclnnPlus(self, other, alpha, out)"}', "the device table has no `aclnnPlus`"),
    "unknown operator": ('plus.out: {call: "aclnnAdd(self, other, alpha, out)"}', "ATen has no overload `plus.out`"),
    "unknown key": ('add.out: {call: "aclnnAdd(self, other, alpha, out)", quick: true}', "unknown word"),
    "unknown rule": ('add.out: {call: "aclnnAdd(self, other, alpha, out)", fast: very}', "unknown rule `very`"),
    "neither call nor hand": ("add.out: {fast: promote}", "either `call` or `hand` is expected"),
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
    with pytest.raises(op_tables.TableError) as failure:
        plugin(tmp_path, row)
    message = str(failure.value)
    assert sentence in message
    assert message.startswith(f"{tmp_path}/ops.yaml, line 1")
    assert "\n" not in message


def test_running_statistics_are_written_though_aten_does_not_say_so(tmp_path):
    row = "aclnnBn(Tensor x, Tensor!? mean, Tensor! out): kernel bn"
    path = tmp_path / "ops.yaml"
    path.write_text('npu::bn(Tensor x, Tensor? mean) -> Tensor: {call: "aclnnBn(x, mean, out)", infer: same}')
    assert len(op_tables.read_plugin_table(path, device(tmp_path, row))) == 1
