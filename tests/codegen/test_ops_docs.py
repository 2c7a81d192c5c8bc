"""docs/ops.md can be read back, and the check finds operators that the sources have lost since it was written."""

import dataclasses
from pathlib import Path

import ops_docs
import pytest
from ops_docs import Facts, Row

ROOT = Path(__file__).resolve().parents[2]

ROWS = [
    Row("add.Tensor", "aclnn", "aclnnAdd aclnnAdds", "new", "i64 f32", "equal"),
    Row("clone", "composite", "", "new", "f32", "equal"),
    Row("hypot.out", "fallback", "no such device function", "in place", "f32", "differs: f32"),
    Row("mode", "fallback"),
    Row("npu::fast", "not exercised", "aclnnFast"),
    Row("view", "view", "", "view", "f32", "equal"),
]
FACTS = Facts(
    natives={"add.Tensor": "aclnnAdd", "npu::fast": "aclnnFast", "view": "views.cpp"},
    fallbacks={"hypot.out": "no such device function", "mode": ""},
    called={"aclnnAdd", "aclnnAdds", "aclnnFast"},
    offered={"aclnnAdd", "aclnnAdds", "aclnnFast", "aclnnMore"},
)


def published():
    return ops_docs.parse(ops_docs.render(ROWS, called=3, offered=4))


def test_a_table_is_read_as_it_is_written():
    table = published()
    assert table.called == 3
    assert list(table.rows.values()) == ROWS


def test_the_summary_counts_overloads_by_kind():
    text = ops_docs.render(ROWS[::-1], called=3, offered=4)
    assert text == ops_docs.render(ROWS, called=3, offered=4)
    assert "The plugin calls 3 of the 4 aclnn functions" in text
    assert "| fallback | 2 | " in text and "| composition | 0 | " in text


def test_unchanged_sources_have_no_losses():
    assert ops_docs.losses(published(), FACTS) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"natives": {"npu::fast": "", "view": ""}, "fallbacks": {"hypot.out": "", "mode": "", "add.Tensor": ""}},
            "add.Tensor ran as aclnn, but now falls back to the CPU",
        ),
        ({"fallbacks": {"clone": ""}}, "clone ran as composite, but now falls back to the CPU"),
        ({"natives": {"add.Tensor": "", "npu::fast": ""}}, "view ran as view, but has no kernel of the plugin any more"),
        ({"natives": {**FACTS.natives, "sub.out": ""}}, "sub.out is not in the published table"),
        ({"natives": {**FACTS.natives, "mode": ""}, "fallbacks": {}}, "mode has a kernel, but is published as fallback"),
        ({"called": {"aclnnAdd", "aclnnFast"}}, "the plugin calls 2 aclnn functions, fewer than the published 3"),
    ],
)
def test_each_loss_is_one_sentence(change, sentence):
    assert ops_docs.losses(published(), dataclasses.replace(FACTS, **change)) == [sentence]


def test_the_published_table_is_current():
    ops_docs.main(["--check", str(ROOT / "docs" / "ops.md")])


def test_a_removed_kernel_is_named(tmp_path):
    rows = (ROOT / "csrc/aten/ops.yaml").read_text().splitlines(keepends=True)
    (tmp_path / "ops.yaml").write_text("".join(row for row in rows if not row.startswith("atan.out:")))
    with pytest.raises(SystemExit) as stop:
        ops_docs.main(["--plugin-table", str(tmp_path / "ops.yaml"), "--check", str(ROOT / "docs" / "ops.md")])
    assert "fallbacks.yaml: `atan.out` falls back to CPU, but no reason is given" in stop.value.code
