"""Overflows: the report about a skipped step, and the overflow flag of devices that saturate."""

import json

import pytest
import torch
from apex import amp
from torch import nn

SATURATION = {"INF_NAN_MODE_ENABLE": "0", "INF_NAN_MODE_FORCE_DISABLE": "1"}


class Deep(nn.Module):
    """The gradient of `middle` overflows first; those before it in the network get its infinities."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.last(self.middle(self.first(x)) * 1e-3)


@pytest.mark.parametrize("device", ["npu", "cpu"])
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_the_report_names_what_overflowed_first(device, level):
    torch.manual_seed(0)
    model = Deep().to(device)
    with torch.no_grad():
        model.middle.weight.fill_(1.0)
        model.first.weight.fill_(1.0)
        model.first.bias.fill_(60000.0)
    model, optimizer = amp.initialize(
        model, torch.optim.SGD(model.parameters(), lr=0.1), opt_level=level, dynamic_init_scale=65536.0, verbosity=0
    )
    assert amp.overflow_report() is None
    with amp.scale_loss(model(torch.ones(2, 4, device=device)).float().sum() * 30, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    report = amp.overflow_report()
    assert (report.parameter, report.module, report.kind) in [
        ("last.weight", "last", "Linear"),
        ("last.bias", "last", "Linear"),
    ]
    assert report.operator == "Addmm"
    assert (report.loss_id, report.loss_scale, report.total) == (0, 65536.0, model.get_parameter(report.parameter).numel())
    assert 0 < report.overflowed <= report.total
    assert report.parameters[0] == report.parameter and "first.weight" in report.parameters
    assert report.parameters.index("middle.weight") < report.parameters.index("first.weight")
    assert f"gradient of {report.parameter} in last (Linear), used by Addmm, overflowed" in str(report)


def test_a_parameter_outside_the_models():
    weight = nn.Parameter(torch.ones(2).npu())
    model = nn.Linear(2, 2).npu()
    model, optimizer = amp.initialize(model, torch.optim.SGD([weight], lr=0.1), opt_level="O1", verbosity=0)
    with amp.scale_loss((weight * float("inf")).sum(), optimizer) as scaled_loss:
        scaled_loss.backward()
    assert amp.overflow_report().parameter is None and amp.overflow_report().operator == "Mul"
    assert "a parameter outside the models" in str(amp.overflow_report())


PROGRAM = """
import json, torch, torch_npu
from apex import amp

def run(level, loss_scale, combine=False, delay=False):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    model, optimizer = amp.initialize(model, optimizer, opt_level=level, loss_scale=loss_scale, combine_grad=combine, verbosity=0)
    x = torch.ones(2, 4).npu()
    torch.full((1,), 6e4).npu().half().mul(2)     # an overflow before the backward pass does not count
    steps = []
    for factor in (1e-4, 3.0, 1e-4, 1e-4):
        before = [p.detach().clone() for p in amp.master_params(optimizer)]
        for last in ((False, True) if delay else (True,)):
            loss = model(x).float().sum() * (factor if last != delay or not delay else 1e-4)
            with amp.scale_loss(loss, optimizer, delay_unscale=not last) as scaled_loss:
                scaled_loss.backward()
        finite = all(bool(p.grad.isfinite().all()) for p in model.parameters())
        optimizer.step()
        optimizer.zero_grad()
        same = all(a.equal(b) for a, b in zip(before, amp.master_params(optimizer)))
        steps.append([finite, same, amp._amp_state.loss_scalers[0].loss_scale()])
    report = amp.overflow_report()
    amp.uninitialize()
    return steps, report and [report.parameter, report.overflowed > 0]

print(json.dumps([run(level, scale, combine, delay) for level in ("O1", "O2") for scale, combine, delay in
                  (("dynamic", False, False), ("dynamic", True, False), ("dynamic", False, True), (1024.0, False, False))]))
"""


def test_the_flag_of_a_device_that_saturates_decides(child):
    done = child(PROGRAM, **SATURATION)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    for steps, report in results[:3] + results[4:7]:
        assert [same for _, same, _ in steps] == [False, True, False, False], results
        assert all(finite for finite, _, _ in steps)
        assert [scale for _, _, scale in steps] == [65536.0, 32768.0, 32768.0, 32768.0]
        assert report is not None and report[1]
    for steps, report in (results[3], results[7]):
        assert [same for _, same, _ in steps] == [False] * 4 and report is None
