"""The device table is type-checked, and a mistake is one sentence that names file, line, row, parameter and both types."""

from pathlib import Path

import device_table
import pytest
import table_rows

from tests.codegen.device_rows import DEVICE, device


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


# ATen has no other out= overload for these.
COPYING = {"prod.out", "std_mean.correction_out", "tril_indices.out", "triu_indices.out", "var_mean.correction_out"}


def test_no_row_names_an_overload_that_copies_its_result():
    """torchgen writes the overload from the functional one: it computes a new tensor and copies it."""
    table = device_table.read_device_table(Path(__file__).parents[2] / "softnpu/ops/aclnn.yaml")
    named = [function.aten.function for function in table.values() if function.aten]
    assert {str(native.func.name) for native in named if "generated" in native.tags} == COPYING


def test_widened_takes_words_and_tensors(tmp_path):
    row = DEVICE["mm"]
    expected = {
        "": (False, False, (), ()),
        " native": (True, False, (), ()),
        " mixed by self": (False, True, ("self",), ()),
        " native mixed by self?, mat2, out": (True, True, ("self", "mat2", "out"), ("self",)),
    }
    for words, fields in expected.items():
        widening = device(tmp_path, f"{row} | widened{words}")["aclnnMm"].widening
        assert (widening.native, widening.mixed, widening.parts, widening.broadcasts) == fields
    assert device(tmp_path, row)["aclnnMm"].widening is None


def test_reads_names_tensors_and_a_flag(tmp_path):
    row = "aclnnX(Tensor!? mean, Tensor!? var, bool training, Tensor! out): kernel x"
    assert device(tmp_path, row)["aclnnX"].written_if == {}
    found = device(tmp_path, f"{row} | reads mean, var unless training")["aclnnX"].written_if
    assert found == {"mean": "training", "var": "training"}


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
    "unused but used": ("aclnnX(Tensor self, Tensor! out): neg.out(self, out) | unused self", "`self` is listed as unused"),
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
    "results without a place": (
        "aclnnX(Tensor self): neg(self)",
        "gives 1 results, but 0 written parameters are left to take them",
    ),
    "unknown type": ("aclnnX(tensor self, Tensor! out): neg.out(self, out)", "`tensor` of parameter `self` is not a type"),
    "written number": ("aclnnX(int! n, Tensor! out): zero_(out)", "`int!` of parameter `n` is not a type"),
    "unknown word": ("aclnnX(Tensor self, Tensor! out): neg.out(self, out) | fast", "unknown word `fast` behind the bar"),
    "read input": (
        "aclnnX(Tensor x, bool b, Tensor! out): kernel x | reads x unless b",
        "`x` behind `reads` is no written tensor of the function",
    ),
    "read by no flag": (
        "aclnnX(Tensor! x, int b, Tensor! out): kernel x | reads x unless b",
        "`b` behind `unless` is no bool of the function",
    ),
    "unknown dtypes": (
        "aclnnX(Tensor self, Tensor! out): neg.out(self, out) | dtypes floats",
        "`dtypes` is followed by `floats`, but one or more of floating, ",
    ),
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
    "word with a value": (
        "aclnnX(Tensor self, Tensor! out): neg.out(self, out) | sync later",
        "`sync` is followed by `later`, but nothing is expected",
    ),
    "widened tensor that is none": (
        "aclnnX(Tensor self, Tensor! out): neg.out(self, out) | widened by self, other",
        "`other` behind `widened` is no tensor of the function",
    ),
    "widened with another word": (
        "aclnnX(Tensor self, Tensor! out): neg.out(self, out) | widened always",
        "`widened` is followed by `always`, but any of native, mixed, by a, b is expected",
    ),
    "widened and sync": (
        "aclnnX(Tensor self, Tensor! out): nonzero.out(self, out) | sync | widened",
        "`widened` and `sync` exclude each other",
    ),
    "word twice": ("aclnnX(Tensor self, Tensor! out): neg.out(self, out) | sync | sync", "`sync` is given twice"),
    "list for a kernel": ("aclnnX(Tensor self, Tensor! out): [neg.out]", "a single value is expected"),
    "two names": ("aclnnX(Tensor a, Tensor! a): neg.out(a, a)", "two parameters have one name"),
}


@pytest.mark.parametrize("row, sentence", DEVICE_MISTAKES.values(), ids=DEVICE_MISTAKES)
def test_device_mistake_is_named(tmp_path, row, sentence):
    with pytest.raises(table_rows.TableError) as failure:
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


@pytest.mark.parametrize("again", ["aclnnAdd(Tensor self, Tensor! out): neg.out(self, out)", DEVICE["add"]])
def test_function_declared_twice_is_named(tmp_path, again):
    with pytest.raises(
        table_rows.TableError, match=r"aclnn.yaml, line 2, row `aclnnAdd.*`: it is declared twice, first in line 1"
    ):
        device(tmp_path, DEVICE["add"], again)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\n- aclnnAdd", "aclnn.yaml, line 2: rows such as `key: value` are expected."),
        (b"aclnnAdd", "aclnn.yaml, line 1: rows such as `key: value` are expected."),
        (b"a: b\n  c: d\n", "aclnn.yaml, line 2: not YAML, mapping values are not allowed in this context."),
        (b"a: \xff", "aclnn.yaml: not YAML, it holds bytes that are not text."),
    ],
)
def test_a_file_without_rows_is_named(tmp_path, content, sentence):
    (tmp_path / "aclnn.yaml").write_bytes(content)
    with pytest.raises(table_rows.TableError) as failure:
        device_table.read_device_table(tmp_path / "aclnn.yaml")
    assert str(failure.value) == f"{tmp_path}/{sentence}"
