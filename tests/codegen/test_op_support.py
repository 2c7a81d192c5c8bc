"""codegen/op_support.py: the facts that the coverage tools read are those of docs/ops.md and the tables."""

import json
from pathlib import Path

import op_support
import ops_docs

ROOT = Path(__file__).resolve().parents[2]


def test_a_row_gives_its_facts():
    row = ops_docs.Row("exp", "aclnn", "aclnnExp", "new", "f16 f32", "fails: i64 bool")
    assert op_support.row_facts(row) == {
        "runs": "aclnn", "by": "aclnnExp", "ran": ["float16", "float32"], "failed": ["int64", "bool"],
    }  # fmt: skip


def test_words_of_the_device_table_are_expanded():
    assert op_support.expanded(["floating", "bool"]) == ["bfloat16", "bool", "float16", "float32", "float64"]


def test_the_file_holds_what_is_published_and_nothing_contradicts_it(tmp_path):
    out = tmp_path / "facts.json"
    op_support.main(["--out", str(out)])
    facts = json.loads(out.read_text())
    table = ops_docs.parse((ROOT / "docs" / "ops.md").read_text())
    assert {op_support.qualified(name) for name in table.rows} <= set(facts["overloads"])
    assert facts["overloads"]["aten::to_mkldnn"]["runs"] == "fallback"
    for name, known in facts["overloads"].items():
        if "takes" in known:
            assert set(known.get("ran", ())) <= set(known["takes"]), name
