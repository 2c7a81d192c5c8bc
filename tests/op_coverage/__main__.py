"""The command line: see the package."""

import argparse
import contextlib
import os
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
os.environ["ASCEND_LAUNCH_BLOCKING"] = "1"  # launches are recorded, and an operator fails in its own call
os.environ.setdefault("ASCEND_PROCESS_LOG_PATH", str(ROOT / "build" / "log"))
sys.path.insert(0, str(ROOT / "codegen"))

import ops_docs  # noqa: E402
import torch  # noqa: E402

from .forms import Forms  # noqa: E402
from .record import Recorder  # noqa: E402
from .samples import samples  # noqa: E402

DTYPES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64", torch.complex64: "c64",
    torch.complex128: "c128",
}  # fmt: skip
PUBLISHED = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool,
             torch.complex64]  # fmt: skip
QUICK = [torch.float32, torch.int64]


def run(recorder, calls):
    """Makes the calls; pending device errors are cleared before each."""
    for title, call in calls:
        torch.manual_seed(0)
        try:
            call()
            torch.npu.synchronize()
        except Exception as error:
            recorder.failed(error)
            wait_quietly()
            recorder.ended[title] = f"{type(error).__name__}: {error}".splitlines()[0]


def wait_quietly():
    with contextlib.suppress(RuntimeError):
        torch.npu.synchronize()


def short(name):
    return name.removeprefix("aten::")


def words(dtypes):
    return " ".join(text for dtype, text in DTYPES.items() if dtype in dtypes)


def result_of(op):
    returns = op._schema.returns
    if any(item.alias_info is not None and not item.alias_info.is_write for item in returns):
        return "view"
    if any(item.alias_info is not None and item.alias_info.is_write for item in op._schema.arguments):
        return "in place"
    return "new" if returns else "nothing"


def status_of(record):
    told = [f"{word}: {words(dtypes)}" for word, dtypes in (("differs", record.differs), ("fails", record.fails)) if dtypes]
    return "; ".join(told) or ("equal" if record.compared else "not compared")


def runs_as(record, registration, op, fell_back):
    if fell_back:
        return "fallback"
    if registration == "composite":
        return "composite"
    several = {count: calls for count, calls in record.launches.items() if count > 0}
    if not several:
        return "view" if result_of(op) == "view" else "host"
    return "aclnn" if several.get(1, 0) * 2 >= sum(several.values()) else "composition"


def by_what(record, runs, reason):
    if runs == "fallback":
        return reason
    if record.fallbacks:
        return "falls back: " + " ".join(sorted(map(short, record.fallbacks)))
    return "" if runs == "composite" else " ".join(sorted(record.functions))


def rows_of(recorder, facts):
    """One row per overload that ran, has a kernel of the plugin, or has a CPU kernel only."""
    from torch_npu.npu import _watch

    fell_back = torch.npu.fallback_stats()
    rows = {}
    for name, record in recorder.records.items():
        if not name.startswith(("aten::", "npu::")) or not record.calls:
            continue
        op = _watch.overload(name)
        runs = runs_as(record, recorder.registrations[name], op, name in fell_back)
        by = by_what(record, runs, facts.fallbacks.get(short(name), ""))
        rows[short(name)] = ops_docs.Row(short(name), runs, by, result_of(op), words(record.dtypes), status_of(record))
    for name, by in facts.natives.items():
        rows.setdefault(name, ops_docs.Row(name, "not exercised", by))
    for name, reason in facts.fallbacks.items():
        rows.setdefault(name, ops_docs.Row(name, "fallback", reason))
    return rows


def otherwise(rows, table):
    """One sentence per overload that did not run as the table says."""
    found = []
    for name, row in rows.items():
        known = table.rows.get(name)
        if not row.dtypes and row.runs in ("not exercised", "fallback"):
            continue
        if known is None:
            if row.runs == "fallback":
                found.append(f"{name} falls back to the CPU, and is not in the published table")
        elif (row.runs == "fallback") != (known.runs == "fallback"):
            found.append(f"{name} runs as {row.runs}, but is published as {known.runs}")
        elif row.by.startswith("falls back: ") and not known.by.startswith("falls back: "):
            found.append(f"{name} {row.by}, but is published as {known.runs}")
        elif known.runs == "not exercised":
            continue  # --check takes fewer samples than the whole run
        elif row.runs in ("aclnn", "composition") and not set(row.by.split()) <= set(known.by.split()):
            found.append(f"{name} calls {row.by}, but is published with {known.by or 'no device call'}")
    return sorted(found)


def measure(dtypes, count, look, compares, only):
    forms = Forms()
    recorder = Recorder(compares=compares, on_call=forms.note if compares else None)
    with warnings.catch_warnings(), recorder:
        warnings.simplefilter("ignore")
        for sample in samples(dtypes, count, look, only):
            run(recorder, [sample])
            run(recorder, forms.take())
    return recorder


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.op_coverage", description="How each overload runs on npu.")
    parser.add_argument("--docs", type=Path, help="write the table, after a run with all dtypes")
    parser.add_argument("--check", type=Path, help="compare a quick run with the table")
    parser.add_argument("--only", default="", help="only entries of the databases whose names contain this")
    parser.add_argument("--details", type=Path, help="also write what differed, failed or ended early, a line each")
    options = parser.parse_args()
    facts = ops_docs.read_facts(ROOT / "softnpu/ops/aclnn.yaml", ROOT / "csrc/aten/ops.yaml", ROOT / "csrc/aten")
    torch.npu.reset_fallback_stats()
    if options.docs:
        recorder = measure(PUBLISHED, 1, 30, True, options.only)
        rows = rows_of(recorder, facts)
        options.docs.write_text(ops_docs.render(rows.values(), len(facts.called), len(facts.offered)))
    if options.check:
        recorder = measure(QUICK, 1, 1, False, options.only)
        found = otherwise(rows_of(recorder, facts), ops_docs.parse(options.check.read_text()))
        print(f"{len(recorder.records)} overloads ran; {len(found)} otherwise than {options.check.name} says")
        if found:
            sys.exit("\n".join(f"error: {sentence}" for sentence in found) + "\nIf the change is intended, run scripts/ops-docs.")
    if options.details:
        lines = [line for record in recorder.records.values() for line in record.details]
        lines += [f"sample {title}: {error}" for title, error in recorder.ended.items()]
        options.details.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
