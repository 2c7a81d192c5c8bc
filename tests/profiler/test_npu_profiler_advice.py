"""Each rule of the advisor finds its cause in a small program, and names the Python line of the cause."""

import inspect
import json
import time
from pathlib import Path

import pytest
import torch
import torch_npu
from torch_npu import profiler
from torch_npu.profiler import advise, collect, findings, names, profile
from torch_npu.profiler.folder import read_any
from torch_npu.profiler.records import Call, Operator, Records, Task

MS = 1_000_000
DEVICE = torch.device("npu")


def examined(program, tmp_path, **options):
    handler = profiler.tensorboard_trace_handler(str(tmp_path), "me", analyse_flag=False)
    with profile(with_stack=True, on_trace_ready=handler, **options):
        program()
    return findings.examine(read_any(tmp_path))


def of_kind(found, kind):
    return next((finding for finding in found if finding.kind == kind), None)


def line_of(program, text):
    """The place that a finding must name: the line of the program that contains the text."""
    lines, first = inspect.getsourcelines(program)
    [offset] = [number for number, line in enumerate(lines) if text in line]
    return f"{Path(__file__).name}:{first + offset} {program.__name__}"


def assert_names(finding, program, text):
    assert finding is not None and finding.lines, finding
    assert line_of(program, text) in finding.lines[0], finding.lines


@pytest.mark.fallback
def test_an_operator_on_the_cpu_is_found(tmp_path):
    x = torch.randn(8, 8, device=DEVICE).to_sparse()

    def program():
        torch.sparse.softmax(x, 0)

    finding = of_kind(examined(program, tmp_path), "fallback")
    assert_names(finding, program, "torch.sparse.softmax")
    assert "_sparse_softmax" in finding.title and finding.cost_us > 0 and finding.count >= 1


def test_waiting_calls_are_found_in_the_order_of_their_cost(tmp_path):
    x = torch.ones(600, 600, device=DEVICE)

    def program():
        for _ in range(3):
            y = x @ x @ x
            y.sum().item()
        x[0, 0].cpu()

    finding = of_kind(examined(program, tmp_path), "synchronisation")
    assert_names(finding, program, "y.sum().item()")
    assert any(line_of(program, "x[0, 0].cpu()") in line for line in finding.lines)
    assert finding.count >= 4 and finding.cost_us > 0


def test_copies_to_contiguous_memory_are_found(tmp_path):
    x = torch.ones(300, 200, device=DEVICE)

    def program():
        for _ in range(4):
            x.t().contiguous()

    finding = of_kind(examined(program, tmp_path), "copy")
    assert_names(finding, program, "x.t().contiguous()")
    assert finding.count == 4


def test_conversions_of_data_types_do_not_count_as_contiguous_copies(tmp_path):
    x = torch.ones(300, 200, device=DEVICE)

    def program():
        x.half()
        x.t().to(torch.int64)

    assert of_kind(examined(program, tmp_path), "copy") is None
    with profile() as prof:
        program()
    assert [names.shown(task) for task in prof.npu_records.tasks if task.kind == "kernel"] == ["aclnnInplaceCopy"] * 2


def test_a_waiting_call_that_is_built_in_has_a_short_name():
    name = "<built-in method _npu_synchronize of a_long_name_of_a_record object at 0x7f957baee5b0>"
    records = Records(
        operators=[Operator(name, 1, 0, 10, kind="python", stack=("/home/me/train.py(7): step",))],
        calls=[Call("aclrtSynchronizeDevice", 1, 2, 8)],
    )
    assert of_kind(findings.examine(records), "synchronisation").lines == ["/home/me/train.py:7 step (_npu_synchronize)"]


def test_a_copy_of_the_backward_pass_names_the_line_of_the_forward_pass(tmp_path):
    x = torch.ones(300, 200, device=DEVICE, requires_grad=True)

    def program():
        y = torch.transpose(x, 0, 1)
        z = torch.reshape(y, (-1,))
        torch.sum(torch.mul(z, z)).backward()

    found = examined(program, tmp_path)
    assert_names(of_kind(found, "copy"), program, "torch.reshape")


def test_changes_of_format_are_found(tmp_path):
    x = torch.ones(64, 64, device=DEVICE)

    def program():
        for _ in range(3):
            torch_npu.npu_format_cast(x, 29)

    finding = of_kind(examined(program, tmp_path), "format")
    assert_names(finding, program, "npu_format_cast")
    assert finding.count == 3


def test_slow_first_calls_are_found(tmp_path):
    slept = []

    @torch.library.custom_op("profiled::slow_first", mutates_args=())
    def slow_first(x: torch.Tensor) -> torch.Tensor:
        if not slept:
            time.sleep(0.02)
            slept.append(1)
        return x + 1

    x = torch.ones(4, device=DEVICE)

    def program():
        torch.ops.profiled.slow_first(x)
        for _ in range(6):
            torch.ops.profiled.slow_first(x)

    finding = of_kind(examined(program, tmp_path), "first call")
    assert finding.cost_us > 19_000
    assert "profiled::slow_first" in finding.lines[0] and Path(__file__).name in finding.lines[0]


def test_a_slow_first_call_around_another_one_keeps_the_rest_of_its_time():
    operators = []
    for number in range(6):
        start, outer, inner = number * 100 * MS, 30 * MS if number == 0 else 1000, 10 * MS if number == 0 else 500
        operators += [
            Operator("mine::outer", 1, start, start + outer),
            Operator("aten::add", 1, start + 100, start + 100 + inner),
        ]
    finding = of_kind(findings.examine(Records(operators=operators)), "first call")
    assert finding.count == 2 and finding.lines == ["mine::outer", "aten::add"]
    assert finding.cost_us == pytest.approx(30_000, abs=10)


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.ones(2)


def test_waits_for_the_data_loader_are_found(tmp_path):
    loader = torch.utils.data.DataLoader(Slow(), batch_size=2)

    def program():
        for batch in loader:
            batch.npu()

    finding = of_kind(examined(program, tmp_path), "data loader")
    assert_names(finding, program, "for batch in loader")
    assert finding.cost_us > 19_000 and finding.count in (2, 3)


def test_short_kernels_are_found_and_a_graph_is_advised(tmp_path):
    x = torch.ones(4, device=DEVICE)

    def program():
        for _ in range(150):
            x.sin()

    finding = of_kind(examined(program, tmp_path), "small launches")
    assert_names(finding, program, "x.sin()")
    assert finding.count >= 75 and "NPUGraph" in finding.advice


def test_long_kernels_do_not_count_as_small_launches():
    tasks = [Task("aclnnMm", start_ns=MS * number, end_ns=MS * number + MS // 2) for number in range(200)]
    assert of_kind(findings.examine(Records(tasks=tasks)), "small launches") is None


def test_the_text_names_the_operators_that_take_the_time_of_the_device():
    tasks = [Task("aclnnAdd", end_ns=MS), Task("aclnnMm", end_ns=6 * MS), Task("aclnnMm", start_ns=6 * MS, end_ns=8 * MS)]
    assert "time of devices: 9.000 ms, of it aclnnMm 89 %, aclnnAdd 11 %" in advise.text(Records(tasks=tasks), [])
    assert "time of devices" not in advise.text(Records(), [])


def test_settings_of_the_host_are_found(tmp_path, monkeypatch):
    settings = collect.host_settings() | {"governor": "powersave", "threads": 64, "processors": 2}
    monkeypatch.setattr(collect, "host_settings", lambda: settings)
    found = examined(lambda: torch.ones(3, device=DEVICE).sin(), tmp_path)
    titles = [finding.title for finding in found if finding.kind == "host"]
    assert titles == ["the processors run with the governor powersave", "torch uses 64 threads on 2 processors"]


def test_a_quick_program_has_no_findings(capsys, tmp_path):
    found = examined(lambda: torch.ones(3, device=DEVICE), tmp_path)
    assert [finding.kind for finding in found if finding.kind != "host"] == []
    assert advise.main([str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == [vars(finding) for finding in found]


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        ("/home/me/train.py(7): step", "/home/me/train.py:7 step"),
        ("torch/nn/modules/module.py(1751): _call_impl", ""),
        ("/usr/lib/python3/site-packages/torch/nn/functional.py(3): relu", ""),
        ("/home/me/torch/train.py(3): main", "/home/me/torch/train.py:3 main"),
        ("threading.py(982): run", ""),
        ("<built-in method run of X>", ""),
    ],
)
def test_only_lines_of_the_user_are_named(frame, line):
    records = Records(operators=[Operator("aten::item", 1, 0, 10, stack=(frame,))])
    [finding] = [finding for finding in findings.examine(records) if finding.kind == "synchronisation"]
    assert finding.lines == [f"{line} (aten::item)"] if line else finding.lines == ["aten::item"]


VIEWS = {
    "as_strided": lambda x: x.as_strided((4, 3), (1, 4)),
    "basic indexing": lambda x: x[:, ::2],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "diagonal": lambda x: x.diagonal(),
    "expand": lambda x: x[:1].expand(3, 4),
    "movedim": lambda x: x.movedim(0, 1),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "permute": lambda x: x.permute(1, 0),
    "real": lambda x: torch.view_as_real(x.to(torch.complex64)).select(2, 0),
    "select": lambda x: x.select(1, 0),
    "split": lambda x: x.split(2, 1)[0],
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "t": lambda x: x.t(),
    "tensor_split": lambda x: x.tensor_split(2, 1)[0],
    "transpose": lambda x: x.transpose(0, 1),
    "unbind": lambda x: x.unbind(1)[0],
    "unflatten": lambda x: x.unflatten(1, (2, 2)).transpose(1, 2),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "unsqueeze and squeeze": lambda x: x.t().unsqueeze(0).squeeze(0),
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_contiguous_copy_of_a_view_has_a_documented_name(view):
    x = torch.arange(12.0, device=DEVICE).reshape(3, 4)
    seen = VIEWS[view](x)
    assert not seen.is_contiguous()
    with profile() as prof:
        copy = seen.contiguous()
    assert copy.cpu().equal(VIEWS[view](x.cpu()).contiguous())
    kernels = [task for task in prof.npu_records.tasks if task.kind in ("kernel", "copy") and task.direction in ("", "DtoD")]
    assert [names.shown(task) in names.COPY_NAMES for task in kernels] == [True], kernels
