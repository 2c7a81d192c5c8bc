"""`msaccucmp compare|convert|overflow|file_compare`: see docs/accuracy.md. Needs numpy, h5py and protobuf, but not torch."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_CONFLICTS = ("fusion_rule_file", "quant_fusion_rule_file", "close_fusion_rule_file")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="msaccucmp",
        description="Compares the dumps of two runs, operator by operator.",
        epilog="exit status: 0 the runs agree, 1 they differ, above 1 a file or an argument is wrong",
    )
    commands = made.add_subparsers(dest="command", required=True)
    _compare_arguments(commands.add_parser("compare", help="compare two dumps: .h5 files, or folders of dump files"))
    one = commands.add_parser("convert", help="convert dump files into arrays")
    one.add_argument("-d", "--dump_path", required=True, help="a dump file, several separated by commas, or a folder")
    one.add_argument("-f", "--format", default="", help="the memory format to convert to, such as NCHW")
    one.add_argument("-s", "--shape", default="", help="the shape of the result, such as 1,16,5,5")
    side = one.add_mutually_exclusive_group()
    side.add_argument("-o", "--output_tensor", type=_count, metavar="INDEX")
    side.add_argument("-i", "--input_tensor", type=_count, metavar="INDEX")
    one.add_argument("-c", "--custom_script_path", default="")
    one.add_argument("-out", "--output", default=".", type=Path)
    one.add_argument("-v", "--version", type=int, choices=(1, 2), default=2)
    one.add_argument("-t", "--type", default="npy", choices=("npy", "bin", "msnpy", "pt"))
    two = commands.add_parser("overflow", help="name the operators that overflowed")
    two.add_argument("-d", "--dump_path", required=True, type=Path)
    two.add_argument("-out", "--output", default=Path("."), type=Path)
    two.add_argument("-n", "--top_n", type=int, default=1, choices=range(1, 6))
    three = commands.add_parser("file_compare", help="compare two .npy files")
    three.add_argument("-m", "--my_dump_path", required=True, type=Path)
    three.add_argument("-g", "--golden_dump_path", required=True, type=Path)
    three.add_argument("-out", "--output", type=Path)
    return made


def _compare_arguments(one: argparse.ArgumentParser) -> None:
    one.add_argument("-m", "--my_dump_path", required=True, type=Path, help="the dump to judge")
    one.add_argument("-g", "--golden_dump_path", required=True, type=Path, help="the dump to compare it with")
    one.add_argument("-f", "--fusion_rule_file", default="", help="not offered")
    one.add_argument("-q", "--quant_fusion_rule_file", default="", help="not offered")
    one.add_argument("-cf", "--close_fusion_rule_file", default="", help="not offered")
    one.add_argument("-out", "--output", default=Path("."), type=Path, help="the folder of the results")
    one.add_argument("-c", "--custom_script_path", default="", help="a folder with alg_<Name>.py")
    one.add_argument("-a", "--algorithm_options", default="", help="'Name:key=value,...;...' for algorithms of -c")
    one.add_argument("-alg", "--algorithm", default=["all"], nargs="+", help="numbers 0 to 9 or names, or all")
    one.add_argument("-map", "--mapping", action="store_true", help="also write which operators correspond (dump files)")
    one.add_argument("-overflow_detection", action="store_true", help="add the column OverFlow (dump files)")
    one.add_argument("-r", "--range", help="start,end,step: operators by their number from 1")
    one.add_argument("-s", "--select", help="numbers of operators, separated by commas")
    one.add_argument("-p", "--post_process", type=int, choices=(0, 1), help="1: extract rows with a cosine up to 0.95 (.h5)")
    one.add_argument("-max", "--max_cmp_size", type=_count, default=0, help="compare only so many elements of a tensor")
    one.add_argument("-advisor", action="store_true", help="print what to look at next")
    one.add_argument("-v", "--version", type=int, choices=(1, 2), help="of dump files (default 2)")
    one.add_argument("-op", "--op_name", default="", help="one operator: element by element (dump files)")
    side = one.add_mutually_exclusive_group()
    side.add_argument("-o", "--output_tensor", type=_count, metavar="INDEX")
    side.add_argument("-i", "--input_tensor", type=_count, metavar="INDEX")
    one.add_argument("-n", "--topn", type=_count, default=20, help="elements with the largest errors (default 20)")
    one.add_argument("-ml", "--max_line", type=_count, default=1_000_000, help="elements in the file of -op")
    one.add_argument("--no-html", action="store_true", help="write no HTML page")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number from 0, but is {text!r}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        from .errors import AccuracyError

        run: dict[str, Callable[[argparse.Namespace], int]] = {
            "compare": _compare, "convert": _convert, "overflow": _overflow, "file_compare": _file_compare,
        }  # fmt: skip
        try:
            return run[options.command](options)
        except AccuracyError as error:
            print(f"msaccucmp {options.command}: {error}", file=sys.stderr)
            return error.status
    except ImportError as error:
        print(f"msaccucmp needs {error.name or error}: pip install 'torch_npu[accuracy]'", file=sys.stderr)
        return 1


def _compare(given: argparse.Namespace) -> int:
    from . import custom, tables
    from .compare import Options, compare
    from .errors import CANNOT_WRITE, DIFFERENT, INVALID_PARAMETER, UNSUPPORTED, AccuracyError
    from .html import answer, build
    from .runs import open_run

    for name in _CONFLICTS:
        if getattr(given, name):
            raise AccuracyError(UNSUPPORTED, f"--{name} is not offered: operators are matched by the graph of the run")
    mine, golden = (open_run(path, given.version or 2) for path in (given.my_dump_path, given.golden_dump_path))
    if mine.format != golden.format:
        raise AccuracyError(
            UNSUPPORTED, f"{mine.path} is {mine.format} and {golden.path} is {golden.format}; give two dumps of the same format"
        )
    if mine.format == "h5" and (given.op_name or given.mapping or given.version):
        raise AccuracyError(INVALID_PARAMETER, "-op, -map and -v are for dump files, but two .h5 files were given")
    if mine.format == "binary" and given.post_process is not None:
        raise AccuracyError(INVALID_PARAMETER, "-p is for .h5 files, but dump files were given")
    user = {}
    if given.custom_script_path:
        user = custom.load_algorithms(Path(given.custom_script_path), custom.parse_options(given.algorithm_options))
    builtin, user = custom.choose(",".join(given.algorithm), user)
    result = compare(mine, golden, Options(builtin, user, given.max_cmp_size, _chosen(given)))
    if (given.range or given.select) and not any(item.mine for item in result.items):
        raise AccuracyError(INVALID_PARAMETER, f"-r or -s chooses no operator: {mine.path} has {len(mine.ops)}, from number 1")
    names = [*builtin, *user]
    try:
        given.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AccuracyError(CANNOT_WRITE, f"the folder {given.output} cannot be made: {error.strerror}") from None
    path = given.output / f"result_{time.strftime('%Y%m%d%H%M%S')}.csv"
    if given.op_name:
        return _elements(given, result)
    rows = tables.h5_rows(result, names) if mine.format == "h5" else tables.binary_rows(result, names, given.overflow_detection)
    tables.write_csv(path, rows)
    written = [path]
    if given.mapping:
        written.append(path.with_name(path.name.replace("result_", "mapping_")))
        tables.write_csv(written[-1], tables.mapping_rows(result))
    if given.post_process == 1:
        folder = path.with_name(f"{path.stem}_filtered")
        tables.write_filtered(folder, result, rows)
        written.append(folder / "filtered_result.csv")
    if not given.no_html:
        written.append(path.with_suffix(".html"))
        _write(written[-1], build(result))
    told = answer(result) + (_advice(result) if given.advisor else [])
    print("\n".join([*told, *(f"written: {each}" for each in written)]))
    return 0 if result.agrees else DIFFERENT


def _write(path: Path, text: str) -> None:
    from ..report import write_text
    from .errors import CANNOT_WRITE, AccuracyError

    try:
        write_text(path, text)
    except OSError as error:
        raise AccuracyError(CANNOT_WRITE, str(error.strerror)) from None


def _advice(result: object) -> list[str]:
    first = getattr(result, "first", None)
    if first is None:
        return []
    if first.state == "inherited":
        return ["advice: the inputs differ before any operator ran; give both runs the same seed, weights and data"]
    return [f"advice: run the program with TORCH_NPU_COMPARE='{first.op.name}'; it writes a program that repeats the difference"]


def _chosen(given: argparse.Namespace) -> Callable[[int, int], bool]:
    from .errors import INVALID_PARAMETER, AccuracyError

    if given.range and given.select:
        raise AccuracyError(INVALID_PARAMETER, "-r and -s cannot be given together")
    try:
        if given.select:
            wanted = {int(word) for word in given.select.split(",")}
            return lambda place, count: place in wanted
        if given.range:
            start, end, step = ([int(word) if word.strip() else None for word in given.range.split(",")] + [None] * 3)[:3]
            first, last, by = start or 1, end or -1, step or 1
            if first < 1 or by < 1 or (last != -1 and last < first):
                raise ValueError
            return lambda place, count: first <= place <= (count if last == -1 else last) and (place - first) % by == 0
    except ValueError:
        raise AccuracyError(
            INVALID_PARAMETER, "-r must be start,end,step with 1 <= start <= end (or end -1); -s must be a list of numbers"
        ) from None
    return lambda place, count: True


def _elements(given: argparse.Namespace, result: object) -> int:
    from . import tables
    from .errors import DIFFERENT, INVALID_PARAMETER, AccuracyError

    items = [item for item in result.items if item.op.name == given.op_name and item.rows]  # type: ignore[attr-defined]
    if not items:
        raise AccuracyError(INVALID_PARAMETER, f"-op: both dumps have no operator {given.op_name!r}")
    side = "input" if given.input_tensor is not None else "output"
    index = given.input_tensor if side == "input" else given.output_tensor or 0
    rows = [row for row in items[0].rows if row.side == side and row.place == index and row.mine and row.golden]
    if not rows:
        raise AccuracyError(INVALID_PARAMETER, f"{given.op_name} has no {side} {index} in both dumps")
    elements = tables.element_rows(rows[0].mine, rows[0].golden, given.max_line)
    stem = f"{given.op_name}_{side}_{index}"
    tables.write_csv(given.output / f"{stem}.csv", elements)
    tables.write_csv(given.output / f"{stem}_topn.csv", tables.top_elements(elements, given.topn))
    print(f"{given.op_name} {side} {index}: {rows[0].state} {rows[0].reason}\nwritten: {given.output / stem}.csv")
    return DIFFERENT if rows[0].state == "error" else 0


def _convert(given: argparse.Namespace) -> int:
    from .convert import Wanted, convert
    from .errors import INVALID_PARAMETER, UNSUPPORTED, AccuracyError

    if given.custom_script_path:
        raise AccuracyError(UNSUPPORTED, "-c is not offered: formats are converted by the built-in functions")
    side = "input" if given.input_tensor is not None else "output" if given.output_tensor is not None else ""
    try:
        shape = tuple(int(word) for word in given.shape.split(",") if word)
    except ValueError:
        raise AccuracyError(INVALID_PARAMETER, f"-s must be a list of sizes such as 1,16,5,5, but is {given.shape!r}") from None
    index = given.input_tensor if side == "input" else given.output_tensor
    count = convert(Path(given.dump_path), given.output, Wanted(given.type, given.format, shape, side, index, given.version))
    print(f"{count} files written to {given.output}")
    return 0


def _overflow(given: argparse.Namespace) -> int:
    from .errors import DIFFERENT
    from .overflow import overflow

    text, count = overflow(given.dump_path, given.output, given.top_n)
    print(text)
    return DIFFERENT if count else 0


def _file_compare(given: argparse.Namespace) -> int:
    from . import metrics, tables
    from .errors import DIFFERENT, INVALID_PARAMETER, AccuracyError
    from .folder import load_array
    from .verdict import judge

    mine, golden = load_array(given.my_dump_path), load_array(given.golden_dump_path)
    if mine.size != golden.size:
        raise AccuracyError(
            INVALID_PARAMETER,
            f"{given.my_dump_path} has {mine.size} elements, but {given.golden_dump_path} has {golden.size}",
        )
    numbers, reasons = metrics.measure(mine, golden, list(metrics.ALGORITHMS))
    found = judge(mine, golden, mine.dtype.name, golden.dtype.name)
    told = "; ".join(filter(None, [*reasons, found.reason]))
    rows = [["NPUDump", "GroundTruth", *numbers, "CompareFailReason", "Verdict"]]
    rows.append([str(given.my_dump_path), str(given.golden_dump_path), *numbers.values(), told, found.state])
    print("\n".join(f"{name}: {value}" for name, value in zip(rows[0], rows[1], strict=True)))
    if given.output:
        tables.write_csv(given.output / f"file_result_{time.strftime('%Y%m%d%H%M%S')}.csv", rows)
    return DIFFERENT if found.state == "error" else 0


if __name__ == "__main__":
    sys.exit(main())
