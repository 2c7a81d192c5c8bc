"""run_distributed_npu.sh: starts the converted program once per NPU. It runs as it is."""

from __future__ import annotations

import libcst as cst

from .model import build, string_value

NAME = "run_distributed_npu.sh"


def required_arguments(text: str) -> list[str]:
    """The arguments without which the program's argparse would refuse to start."""
    try:
        model = build(cst.parse_module(text), lambda _: False)
    except Exception:  # a file that cannot be parsed was reported
        return []
    found = []
    for place in model.calls:
        function = place.node.func
        if not (isinstance(function, cst.Attribute) and function.attr.value == "add_argument"):
            continue
        names = [string_value(arg.value) for arg in place.node.args if arg.keyword is None]
        given = {arg.keyword.value: arg.value for arg in place.node.args if arg.keyword is not None}
        name = next((name for name in names if name and name.startswith("--")), names[0] if names else None)
        if not name:
            continue
        required, nargs = given.get("required"), string_value(given.get("nargs"))
        if name.startswith("-"):
            if isinstance(required, cst.Name) and required.value == "True":
                found.append(f"{name} {name.lstrip('-').upper().replace('-', '_')}")
        elif nargs not in ("?", "*") and "default" not in given:
            found.append(name)
    return found


def script(main: str, text: str) -> str:
    needed = required_arguments(text)
    usage = " ".join(["bash", NAME, *needed, "[ARGUMENTS]"])
    check = ""
    if needed:
        minimum = sum(len(argument.split()) for argument in needed)
        check = f'if [ $# -lt {minimum} ]; then\n  echo "usage: {usage}" >&2\n  exit 2\nfi\n'
    return f"""\
#!/bin/bash
# Starts {main} once per NPU: {usage}
# NPUS="0 1" selects devices; the default is all. The output of each process is in output_npu_<device>.log.
cd "$(dirname "${{BASH_SOURCE[0]}}")" || exit 1
{check}\
export MASTER_ADDR="${{MASTER_ADDR:-127.0.0.1}}"
export MASTER_PORT="${{MASTER_PORT:-29688}}"
export HCCL_WHITELIST_DISABLE=1

PYTHON="${{PYTHON:-python3}}"
if [ -z "$NPUS" ]; then
  count=$("$PYTHON" -c "import torch, torch_npu; print(torch.npu.device_count())") || exit 1
  NPUS=$(seq 0 $((count - 1)))
fi
read -r -a devices <<< "$(echo $NPUS)"
export WORLD_SIZE=${{#devices[@]}}
export NPU_WORLD_SIZE=$WORLD_SIZE RANK_SIZE=$WORLD_SIZE LOCAL_WORLD_SIZE=$WORLD_SIZE

processes=()
rank=0
for device in "${{devices[@]}}"; do
  NPU_CALCULATE_DEVICE=$device DEVICE_ID=$device LOCAL_RANK=$device RANK=$rank RANK_ID=$rank \\
    "$PYTHON" {_quoted(main)} "$@" > "output_npu_$device.log" 2>&1 &
  processes+=($!)
  rank=$((rank + 1))
done

status=0
for index in "${{!processes[@]}}"; do
  if ! wait "${{processes[$index]}}"; then
    echo "the process on NPU ${{devices[$index]}} failed: see output_npu_${{devices[$index]}}.log" >&2
    status=1
  fi
done
exit $status
"""


def _quoted(name: str) -> str:
    import shlex

    return shlex.quote(name)
