"""The command line of PyTorch's own tests: `scripts/upstream --help`."""

import argparse
import collections
import os
import random
import re
import sys
import time
from pathlib import Path

from tests.ops import gaps, runner

from . import distributed
from .files import EXPECTED_FAILURE, NO_COLLECTIVE, Files

ROOT = Path(__file__).resolve().parents[2]
KNOWN = Path(__file__).with_name("known_failures.yaml")
FILES = """
test_view_ops test_indexing test_shape_ops test_sort_and_select test_scatter_gather_ops test_reductions test_unary_ufuncs
test_binary_ufuncs test_type_promotion test_tensor_creation_ops test_torch test_nn nn/test_convolution nn/test_dropout
nn/test_embedding nn/test_init nn/test_multihead_attention nn/test_packed_sequence nn/test_parametrization nn/test_pooling
test_linalg test_spectral_ops test_modules test_optim test_foreach test_autograd test_accelerator test_ops test_ops_gradients
""".split()  # noqa: SIM905
# Folders and files of `distributed/`: DTensor, meshes, fully_shard, checkpoints, functional collectives.
DISTRIBUTED = """
tensor tensor/parallel tensor/experimental tensor/debug test_device_mesh.py _composable/fsdp checkpoint checkpoint/e2e
checkpoint/fsdp test_c10d_functional_native.py test_functional_api.py
""".split()  # noqa: SIM905


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/upstream", description="PyTorch's own tests on npu.")
    parser.add_argument("checkout", type=Path, help="a checkout of PyTorch, of the version that is installed")
    parser.add_argument("file", nargs="*", help=f"relative to its folder test; `distributed`; else {', '.join(FILES)}")
    parser.add_argument("--only", metavar="REGEX", default="", help="the tests whose ids, FILE::CLASS::METHOD, match")
    parser.add_argument("--fraction", type=float, metavar="F", default=1, help="of the tests of each class, drawn at random")
    parser.add_argument("--count", type=int, metavar="N", help="run only N of the remaining tests, drawn at random")
    parser.add_argument("--seed", default="0", help="the seed of the draws")
    parser.add_argument("--retry", action="store_true", help="only the tests that did not pass in the last run")
    parser.add_argument("--report", type=Path, metavar="FILE", help="everything unexpected and the table, to this file too")
    parser.add_argument("--jobs", type=int, metavar="N", default=os.cpu_count(), help="processes at a time")
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="time after which a test counts as hung (default 120, for distributed tests 300)",
    )
    return parser.parse_args()


def draw(tests, fraction, seed):
    """At least one test of each class."""
    classes = collections.defaultdict(list)
    for test in tests:
        classes[test.rsplit("::", 1)[0]].append(test)
    chosen = set()
    for name, members in classes.items():
        count = max(1, round(fraction * len(members)))
        chosen.update(random.Random(f"{seed} {name}").sample(members, count))
    return [test for test in tests if test in chosen]


def files_of(names, folder):
    """Names of test files, relative to the folder."""
    if "distributed" in names:
        found = [folder / "distributed" / name for name in DISTRIBUTED]
        paths = [path for each in found for path in (sorted(each.glob("test_*.py")) if each.is_dir() else [each])]
        paths = [path for path in paths if "compile" not in path.name]  # compiled by Inductor, which generates no code for npu
        names = [*(name for name in names if name != "distributed"), *(str(path.relative_to(folder)) for path in paths)]
    return [name if name.endswith(".py") else name + ".py" for name in names]


def judge(records, entries, tests, full):
    """Changes a distributed test that its file skipped to a failed one, unless it is listed."""
    judged = {}
    for id, record in records.items():
        own = record["detail"] in (NO_COLLECTIVE, EXPECTED_FAILURE)
        if record["status"] == "skipped" and not own and distributed.is_distributed(id):
            record = record | {"status": "failed", "detail": f"skipped: {record['detail']}"}
        judged[id] = record
    return gaps.judge(judged, entries, tests, full)


def table(files, records, verdict):
    lines = [f"{'file':54}{'passed':>8}{'failed':>8}{'known':>8}{'skipped':>8}{'CPU s':>8}{'rate':>9}"]
    for file in [*files, "all"]:
        mine = [record for id, record in records.items() if file in ("all", id.split("::")[0])]
        if not mine:
            continue
        passed = sum(record["status"] == "passed" for record in mine)
        skipped = sum(record["status"] == "skipped" for record in mine)
        known = sum(record["case"] in verdict.gaps and record["status"] != "skipped" for record in mine)
        seconds = sum(record["seconds"] for record in mine)
        ran = len(mine) - skipped
        rate = f"{passed / ran:9.2%}" if ran else f"{'-':>9}"
        lines.append(f"{file:54}{passed:8}{ran - passed - known:8}{known:8}{skipped:8}{seconds:8.0f}{rate}")
    return lines


def upstream(options):
    folder = options.checkout.resolve() / "test"
    names = files_of(options.file or FILES, folder)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        print(f"{folder} has no {', '.join(missing)}: name a checkout of PyTorch", file=sys.stderr)
        return 2

    import torch

    torch.set_num_threads(1)  # the processes of the runner are forks of this one
    if any(map(distributed.is_distributed, names)):
        distributed.preload()
    begin = time.monotonic()
    build = ROOT / "build" / "upstream"
    files = Files(folder)
    limits = runner.Limits(options.jobs, 1, 1e9, 600)
    collected = runner.run(names, files.collect, build / "files.jsonl", limits)
    for name, record in collected.items():
        if record["status"] != "passed":
            print(f"{name} cannot be loaded: {record['detail']}", file=sys.stderr)
            return 1
    tests = [test for name in names for test in collected[name]["tests"]]
    chosen = [test for test in draw(tests, options.fraction, options.seed) if re.search(options.only, test)]
    if options.count is not None and options.count < len(chosen):
        drawn = set(random.Random(options.seed).sample(chosen, options.count))
        chosen = [test for test in chosen if test in drawn]
    journal = build / "tests.jsonl"
    if options.retry:
        bad = {id for id, record in runner.load(journal).items() if record["status"] not in ("passed", "skipped")}
        chosen = [test for test in tests if test in bad]

    def progress(record, done):
        if record["status"] not in ("passed", "skipped"):
            print(f"[{done}/{len(chosen)}] {record['case']}: {record['status']}", flush=True)

    # Each process imports the file again, so a process runs many tests.
    size = min(400, -(-len(chosen) // options.jobs) or 1)
    patience = 300 if any(map(distributed.is_distributed, names)) else 120
    limits = runner.Limits(options.jobs, size, 1e9, options.seconds or patience)
    records = runner.run(chosen, files.execute, journal, limits, progress=progress)
    entries = [entry for entry in gaps.load(KNOWN) if str(entry.get("id")).split("::")[0] in names]
    verdict = judge(records, entries, tests, options.fraction == 1 and options.count is None)
    return runner.report(verdict.wrong, table(names, records, verdict), begin, options.report)


def main():
    options = arguments()
    with runner.private_device():
        os.environ.update(distributed.RECORDER)
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.environ.setdefault("PYTORCH_PRINT_REPRO_ON_FAILURE", "0")
        return upstream(options)


if __name__ == "__main__":
    sys.exit(main())
