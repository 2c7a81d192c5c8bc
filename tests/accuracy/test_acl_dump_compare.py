"""`msaccucmp compare` of two dumps first names the operator that the fault rule `wrong` has changed."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path

import torch
from torch_npu import softnpu
from torch_npu.tools.accuracy import cli, dump_data


def dumped_steps(folder: Path, rule: str = "") -> list[str]:
    """Trains two steps. Returns the dumped operators in their order."""
    config = folder.with_suffix(".json")
    config.write_text(json.dumps({"dump": {"dump_path": str(folder), "dump_mode": "all", "dump_op_switch": "on"}}))
    torch.manual_seed(0)
    norm, gelu = torch.nn.LayerNorm(16), torch.nn.GELU()
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), norm, gelu, torch.nn.Linear(16, 4)).npu()
    data, target = torch.randn(5, 8).npu(), torch.randint(0, 4, (5,)).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with softnpu.faults(rule) if rule else contextlib.nullcontext():
        torch.npu.init_dump()
        torch.npu.set_dump(config)
        for _ in range(2):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(data), target).backward()
            optimizer.step()
        torch.npu.finalize_dump()
    names = [dump_data.parse_name(path.name) for path in folder.rglob("*") if path.is_file()]
    return [name.type for name in sorted(names, key=lambda name: name.time)]


def test_equal_runs_agree(tmp_path):
    assert dumped_steps(tmp_path / "mine") == dumped_steps(tmp_path / "golden")
    assert cli.main(["compare", "-m", str(tmp_path / "mine"), "-g", str(tmp_path / "golden"), "-out", str(tmp_path)]) == 0


def test_a_wrong_operator_is_named_first_in_20_of_20_places(tmp_path, capsys):
    operators = dumped_steps(tmp_path / "golden")
    assert len(operators) > 30
    for place in random.Random(1).sample(range(len(operators)), 20):
        name = operators[place]
        launch = operators[: place + 1].count(name)
        mine = tmp_path / f"mine_{place}"
        assert dumped_steps(mine, f"wrong:{name}:{launch}") == operators
        assert cli.main(["compare", "-m", str(mine), "-g", str(tmp_path / "golden"), "-out", str(tmp_path)]) == 1
        assert f"the first wrong operator is {name} aclnn{name} (number {place + 1}):" in capsys.readouterr().out
