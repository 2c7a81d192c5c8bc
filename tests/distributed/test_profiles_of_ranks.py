"""Profiles of several ranks: files with the number of the rank, collectives, advice about collectives, and unchanged results."""

import csv
import json
from pathlib import Path

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.modes import setting


def train(rank):
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(64, 64).to(rank.device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.full((8, 64), step + 1.0 + rank.rank, device=rank.device)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


def train_and_profile(rank, folder):
    from torch_npu import profiler

    expected = train(rank)
    handler = profiler.tensorboard_trace_handler(folder, f"rank{rank.rank}")
    config = profiler._ExperimentalConfig(export_type=["text", "db"])
    with profiler.profile(with_stack=True, experimental_config=config, on_trace_ready=handler) as prof:
        prof.add_metadata("model", "one layer")
        found = train(rank)
        for _ in range(3):
            dist.all_reduce(torch.ones(100_000, device=rank.device))
        torch.npu.synchronize()
    assert all(one.equal(other) for one, other in zip(expected, found, strict=True))


def test_each_rank_writes_its_own_files_and_results_stay(rank_sets, tmp_path):
    from torch_npu.profiler.findings import examine
    from torch_npu.profiler.folder import read_any

    rank_sets.get(setting("hccl", 2)).run(train_and_profile, str(tmp_path))
    for rank in (0, 1):
        [folder] = tmp_path.glob(f"rank{rank}_*_ascend_pt")
        output = folder / "ASCEND_PROFILER_OUTPUT"
        assert json.loads((folder / f"profiler_info_{rank}.json").read_text())["rank_id"] == rank
        assert (output / f"ascend_pytorch_profiler_{rank}.db").is_file()
        metadata = json.loads((folder / "profiler_metadata.json").read_text())
        assert metadata["model"] == "one layer"
        group = next(iter(metadata["parallel_group_info"].values()))
        assert (group["group_rank"], group["global_ranks"]) == (rank, [0, 1])
        [step] = json.loads((output / "communication.json").read_text()).values()
        reductions = [name for name in step["collective"] if name.startswith("HcclAllReduce")]
        assert len(reductions) >= 6
        with (output / "step_trace_time.csv").open() as file:
            [row] = csv.DictReader(file)
        assert float(row["Communication"]) > 0 and float(row["Computing"]) > 0
        records = read_any(folder)
        assert json.loads((output / "trace_view.json").read_text())["distributedInfo"]["rank"] == rank
        finding = next(finding for finding in examine(records) if finding.kind == "communication")
        assert finding.count >= 6 and finding.cost_us > 0
        assert any(Path(__file__).name in line and "train_and_profile" in line for line in finding.lines), finding.lines
