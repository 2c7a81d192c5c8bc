"""Shell scripts, YAML, JSON, TOML, INI and Dockerfiles: lines are edited, everything else stays as it is."""

from __future__ import annotations

import json
import re

from .changes import HIGH, LOW, MEDIUM, MODIFY, TODO, Change, FileResult
from .literals import VARIABLES, WORDS, backend, device, names_backend, names_device, variables

SHELL = (".sh", ".bash", ".zsh", ".slurm", ".sbatch", ".env")
CONFIGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf")
HINTS = ("requirements.txt", "environment.yml", "environment.yaml")

_OPTION = re.compile(r"""(--?|\+|(?<=[\s"']))([\w.-]+)([ =]+)(["']?)([\w:,]+)\4(?=[\s"'\\)]|$)""")
_MODULE = re.compile(r"(?<![\w.])torch\.cuda(?=\.\w)")
_PAIR = re.compile(
    r"""^(\s*(?:-\s+)?)(["']?)([\w.\- ]+?)\2(\s*=\s*|\s*:\s+|\s*:(?=["']))(["']?)([\w:,{}$%]+)\5(\s*(?:[,#;].*)?)$"""
)
_KEY = re.compile(r"""^(\s*)(?:-\s+)?["']?([\w.\-]+)["']?\s*:\s*(?:#.*)?$""")
_ITEM = re.compile(r"""^(\s*-\s+)(["']?)([\w:]+)\2(\s*(?:#.*)?)$""")
_LIST = re.compile(r"""^(\s*(?:-\s+)?["']?([\w.\-]+)["']?\s*[:=]\s*\[)(.*?)(\].*)$""")
_JSON_VALUE = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:\s*)("(?:[^"\\]|\\.)*"|\[[^\[\]{}]*\])')
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


def kind(name: str) -> str:
    """shell, config, json, docker, hints or an empty string."""
    base = name.rsplit("/", 1)[-1]
    if name.endswith(SHELL):
        return "shell"
    if base in HINTS or re.fullmatch(r"requirements[\w.-]*\.txt", base):
        return "hints"
    if name.endswith(".json"):
        return "json"
    if name.endswith(CONFIGS):
        return "config"
    if base.startswith("Dockerfile") or name.endswith(".dockerfile"):
        return "docker"
    return ""


def convert(file: str, text: str) -> FileResult:
    result = FileResult(file)
    what = kind(file)
    if WORDS.search(text) is None and "nvidia" not in text:
        return result
    if what == "json":
        try:
            json.loads(text)
        except ValueError:
            result.problem = "it is not valid JSON"
            return result
        new = _json(file, text, result.changes)
    else:
        edit = {"shell": _shell, "docker": _shell, "config": _Config().line, "hints": _hint}[what]
        lines = text.splitlines(keepends=True)
        for index, line in enumerate(lines):
            body = line.rstrip("\r\n")
            lines[index] = edit(file, index + 1, body, result.changes) + line[len(body) :]
        new = "".join(lines)
    result.text = new if new != text else None
    return result


def shell_line(file: str, number: int, line: str, changes: list[Change]) -> str:
    return _shell(file, number, line, changes)


def _shell(file: str, number: int, line: str, changes: list[Change]) -> str:
    if line.lstrip().startswith("#"):
        return line
    code, comment = _split_comment(line)
    new = variables(code)
    new = _OPTION.sub(_option, new)
    new = _MODULE.sub("torch.npu", new)
    if new != code:
        changes.append(
            Change(file, number, number, MODIFY, f"{code.strip()} -> {new.strip()}", HIGH if variables(code) == new else MEDIUM)
        )
    for word, tip in (
        ("nvidia-smi", "npu-smi info shows the NPUs"),
        ("NCCL_", "variables of NCCL have no effect; HCCL has its own"),
        ("nvidia/cuda", "use an image without CUDA"),
        ("nvcc", "CUDA kernels do not run on npu"),
        ("-cuda", "this image or package is built for CUDA"),
    ):
        if word in new:
            changes.append(Change(file, number, number, TODO, f"{word}: {tip}", LOW))
    return new + comment


def _split_comment(line: str) -> tuple[str, str]:
    match = re.search(r"\s#(?![^'\"]*['\"][^'\"]*$).*$", line)
    return (line[: match.start()], line[match.start() :]) if match else (line, "")


def _option(match: re.Match[str]) -> str:
    new = _value(match[2], match[5])
    return match[0] if new is None else f"{match[1]}{match[2]}{match[3]}{match[4]}{new}{match[4]}"


def _value(name: str, value: str) -> str | None:
    """The new value of a setting, chosen by its name; None if it does not change."""
    last = name.replace("-", "_").rsplit(".", 1)[-1]
    if names_device(last):
        return device(value)
    return backend(value) if names_backend(last) else None


class _Config:
    """YAML, TOML and INI by lines. Text blocks (key: |) are left alone."""

    def __init__(self) -> None:
        self.parents: list[tuple[int, str]] = []
        self.block = -1

    def line(self, file: str, number: int, line: str, changes: list[Change]) -> str:
        indent = len(line) - len(line.lstrip())
        if self.block >= 0:
            if not line.strip() or indent > self.block:
                return line
            self.block = -1
        if not line.strip() or line.lstrip().startswith("#"):
            return line
        if re.search(r":\s*[|>][+-]?\d*\s*$", line):
            self.block = indent
        while self.parents and self.parents[-1][0] >= indent and not line.lstrip().startswith("-"):
            self.parents.pop()
        key = _KEY.match(line)
        if key:
            self.parents.append((indent, key[2]))
        new, confidence = self._convert(line)
        if new != line:
            changes.append(Change(file, number, number, MODIFY, f"{line.strip()} -> {new.strip()}", confidence))
        elif re.search(r"""[:=]\s*["']?(cuda(:\d+)?|nccl)["']?\s*(#.*)?$""", line):
            changes.append(
                Change(file, number, number, TODO, f"{line.strip()}: write npu or hccl if this names a device or backend", LOW)
            )
        return new

    def _convert(self, line: str) -> tuple[str, str]:
        changed = variables(line)
        if changed != line:
            return changed, HIGH
        match = _PAIR.match(line)
        if match:
            new = _value(match[3], match[6])
            return (
                (f"{match[1]}{match[2]}{match[3]}{match[2]}{match[4]}{match[5]}{new}{match[5]}{match[7]}", MEDIUM)
                if new
                else (line, "")
            )
        match = _ITEM.match(line)
        if match and self.parents:
            new = _value(self.parents[-1][1], match[3])
            return (f"{match[1]}{match[2]}{new}{match[2]}{match[4]}", MEDIUM) if new else (line, "")
        match = _LIST.match(line)
        if match:
            name = str(match[2])
            return match[1] + re.sub(r"[\w:]+", lambda found: _value(name, str(found[0])) or str(found[0]), match[3]) + match[
                4
            ], MEDIUM
        return line, ""


def _json(file: str, text: str, changes: list[Change]) -> str:
    def value(match: re.Match[str]) -> str:
        key, between, content = match[1], match[2], match[3]
        new = _TEXT.sub(lambda found: f'"{_value(key, found[1]) or found[1]}"', content)
        name = VARIABLES.get(key, key)
        if new != content or name != key:
            number = text.count("\n", 0, match.start()) + 1
            message = f'"{key}": {content} -> "{name}": {new}'
            changes.append(Change(file, number, number, MODIFY, message, MEDIUM if name == key else HIGH))
        elif re.fullmatch(r'"(cuda(:\d+)?|nccl)"', content):
            number = text.count("\n", 0, match.start()) + 1
            changes.append(Change(file, number, number, TODO, f'"{key}": {content}: write npu or hccl if this names one', LOW))
        return f'"{name}"{between}{new}'

    new = _JSON_VALUE.sub(value, text)
    return re.sub(r'"(CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING)"(?=\s*:)', lambda found: f'"{VARIABLES[found[1]]}"', new)


def _hint(file: str, number: int, line: str, changes: list[Change]) -> str:
    if re.match(
        r"\s*-?\s*(cupy|nvidia-|pynvml|tensorrt|bitsandbytes|flash[-_]attn|xformers|cudatoolkit|pytorch-cuda)|.*\+cu\d+", line
    ):
        changes.append(Change(file, number, number, TODO, f"{line.strip()}: this package is built for CUDA", LOW))
    return line
