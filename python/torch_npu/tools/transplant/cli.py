"""The command ms_fmk_transplt, also `python -m torch_npu.transplant`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ...version import __version__

_INSTALL = (
    "ms_fmk_transplt needs the packages libcst and openpyxl, but {} is missing: "
    "run `pip install 'libcst>=1.5,<2' 'openpyxl>=3.1,<4'`"
)
_EPILOG = """\
distributed -m FILE [-t VARIABLE] comes last: it converts a program for one GPU into one for several NPUs.
  -m, --main FILE                 the entry file (required)
  -t, --target_model VARIABLE     the variable of the model (default: model)

exit status: 0 converted; 1 bad input or failure; 2 wrong arguments; 3 converted, but findings reach the level of --fail-on,
or --trace or --verify found a difference
"""
_VERSIONS = re.compile(r"1\.(5|8|11)(\.\d+)?|2\.([0-9]|1[0-3])(\.\d+)?")


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        "ms_fmk_transplt",
        description="Converts PyTorch programs for CUDA into programs for npu.",
        usage="ms_fmk_transplt -i INPUT -o OUTPUT [options] [distributed -m FILE [-t VARIABLE]]",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = result.add_argument
    add("-i", "--input", required=True, metavar="PATH", help="folder or file to convert")
    add(
        "-o", "--output", metavar="PATH", help="folder that receives <name>_msft; or the new file, if input and output end in .py"
    )
    add("-r", "--rule", metavar="FILE", help="JSON file with rules of your own")
    add("-s", "--specify-device", action="store_true", help="choose the device by the variable NPU_CALCULATE_DEVICE")
    add("-sim", "--similar", action="store_true", help="replace unsupported functions by similar ones")
    add(
        "-a",
        "--amp_model",
        "--amp-model",
        metavar="VARIABLE",
        default="",
        help="convert torch.cuda.amp to apex.amp for this model",
    )
    add(
        "-v",
        "--version",
        metavar="VERSION",
        default="2.13",
        type=_version,
        help="version of torch on the NPU machine, such as 1.8.1",
    )
    add("--device-agnostic", action="store_true", help="write code that runs on any accelerator and on the CPU")
    add("--dry-run", action="store_true", help="write nothing; print the changes as a unified diff")
    add("--in-place", action="store_true", help="change the files themselves; --undo restores them")
    add("--undo", action="store_true", help="restore the files of the last --in-place")
    add("--force", action="store_true", help="replace an older result")
    add("--report", metavar="FORMATS", type=_formats, default=[], help="more reports: json, html and sarif, separated by commas")
    add(
        "--fail-on",
        choices=("never", "error", "warning"),
        default="error",
        help="when the exit status is 3 (default: %(default)s)",
    )
    add("--no-support-check", action="store_true", help="do not ask torch_npu which functions are supported")
    add("--trace", metavar="FILE", help="list the operators of this program of the project, run on fake tensors")
    add("--verify", metavar="FILE", help="compare a training step of this program on npu with the original on the CPU")
    add("-j", "--jobs", type=_jobs, default=2, metavar="N", help="number of processes (default: %(default)s)")
    add("--tool-version", action="version", version=f"ms_fmk_transplt of torch_npu {__version__}")
    return result


def _distributed_parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser("ms_fmk_transplt ... distributed", allow_abbrev=False)
    result.add_argument("-m", "--main", required=True, metavar="FILE", help="the entry file")
    result.add_argument(
        "-t", "--target_model", "--target-model", default="model", metavar="VARIABLE", help="the variable of the model"
    )
    return result


def _version(text: str) -> str:
    if not _VERSIONS.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no version of torch for npu; allowed are 1.5, 1.8, 1.11 and 2.0 to 2.13")
    return text


def _formats(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in ("json", "html", "sarif"):
            raise argparse.ArgumentTypeError(f"{name!r} is no format; allowed are json, html and sarif")
    return names


def _jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes; allowed are 1 to 64")
    return int(text)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    main, last = _split(arguments)
    command = parser()
    options = command.parse_args(main)
    options.main, options.target_model, options.distributed = "", "model", last is not None
    if last is not None:
        ours, unknown = _distributed_parser().parse_known_args(last)
        if unknown:
            command.error(f"{unknown[0]!r} stands after distributed, but distributed and its options -m and -t come last")
        options.main, options.target_model = ours.main, ours.target_model
        if not options.target_model.isidentifier():
            command.error(f"-t is {options.target_model!r}, but must be the name of a variable")
    if options.amp_model and not options.amp_model.isidentifier():
        command.error(f"-a is {options.amp_model!r}, but must be the name of a variable")
    if not options.output and not (options.dry_run or options.in_place or options.undo):
        command.error("the option -o is missing: the folder that receives the result")
    if sum((options.dry_run, options.in_place, options.undo)) > 1:
        command.error("--dry-run, --in-place and --undo exclude each other")
    if options.verify and (options.dry_run or options.in_place or options.undo):
        command.error("--verify compares the input with the output, so it needs -o, without --dry-run, --in-place and --undo")
    if options.device_agnostic and (options.specify_device or options.distributed):
        command.error("--device-agnostic cannot be combined with -s or distributed")
    return options


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The options, and what follows the word distributed."""
    with_value = {
        "-i",
        "--input",
        "-o",
        "--output",
        "-r",
        "--rule",
        "-a",
        "--amp_model",
        "--amp-model",
        "-v",
        "--version",
        "--report",
    }
    with_value |= {"--fail-on", "-j", "--jobs", "--trace", "--verify"}
    words = list(arguments)
    index = 0
    while index < len(words):
        if words[index] == "distributed":
            return words[:index], words[index + 1 :]
        if words[index] in ("-m", "--main", "-t", "--target_model", "--target-model"):
            parser().error(f"{words[index]} belongs to distributed, which comes last: distributed -m FILE [-t VARIABLE]")
        index += 2 if words[index] in with_value else 1
    return words, None


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        import libcst  # noqa: F401
        import openpyxl  # noqa: F401
    except ImportError as error:
        print(_INSTALL.format(error.name), file=sys.stderr)
        return 1
    from .output import BadInput
    from .session import Session

    try:
        return Session(options).run()
    except BadInput as error:
        print(f"ms_fmk_transplt: {error}", file=sys.stderr)
        print("run failed", file=sys.stderr)
        return 1
    except OSError as error:
        where = f"{Path(error.filename)}: " if isinstance(error.filename, str) else ""
        print(f"ms_fmk_transplt: {where}{error.strerror or error}", file=sys.stderr)
        print("run failed", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
