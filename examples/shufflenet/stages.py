"""The stages of the tuning example, from torchvision's network to the tuned one. README.md explains them.

work = Workload(STAGES["fused functions"], images, targets)
loss = work.step()
"""

import contextlib
from dataclasses import dataclass

import torch
from torch import nn

from . import joins
from .network import shufflenet_v2_x1_0


@dataclass(frozen=True)
class Stage:
    """What differs between the stages.

    layout: "NCHW", "private" (the formats of hardware, by npu_format_cast) or "channels_last".
    level: the opt_level of apex.amp; None for float32.
    """

    name: str
    join: type
    layout: str = "NCHW"
    fused_optimizer: bool = False
    level: str | None = None
    combine_grad: bool = False


_TUNED = {"join": joins.InterleaveShuffle, "layout": "channels_last"}
_ALL = [
    Stage("plain", joins.PlainShuffle),
    Stage("index_select", joins.IndexSelectShuffle),
    Stage("index buffers", joins.BufferShuffle),
    Stage("tuples", joins.SplitShuffle),
    Stage("fused functions", joins.FusedShuffle),
    Stage("formats", joins.FormatShuffle, layout="private"),
    Stage("channels last", joins.FusedShuffle, layout="channels_last"),
    Stage("interleave", **_TUNED),
    Stage("fused optimizer", **_TUNED, fused_optimizer=True),
    Stage("O1", **_TUNED, fused_optimizer=True, level="O1"),
    Stage("O2", **_TUNED, fused_optimizer=True, level="O2"),
    Stage("combine_grad", **_TUNED, fused_optimizer=True, level="O2", combine_grad=True),
]
STAGES = {stage.name: stage for stage in _ALL}
FIRST, LAST_FLOAT32 = "plain", "fused optimizer"


class Workload:
    """A network of a stage with its optimizer and a batch. The weights depend on the seed only, not on the stage."""

    def __init__(self, stage, images, targets, device="npu", num_classes=1000, seed=0):
        torch.manual_seed(seed)
        self.net = shufflenet_v2_x1_0(join=stage.join, num_classes=num_classes).to(device)
        self.images, self.targets = images.to(device), targets.to(device)
        self.criterion = nn.CrossEntropyLoss()
        self._lay_out(stage.layout)
        self.optimizer = _optimizer_class(stage)(self.net.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
        self.amp = None
        if stage.level is not None:
            from apex import amp

            options = {"combine_grad": True} if stage.combine_grad else {}
            self.amp = amp
            self.net, self.optimizer = amp.initialize(
                self.net, self.optimizer, opt_level=stage.level, loss_scale=128.0, verbosity=0, **options
            )

    def _lay_out(self, layout):
        if layout == "channels_last":
            self.net.to(memory_format=torch.channels_last)
            self.images = self.images.contiguous(memory_format=torch.channels_last)
        if layout == "private":
            import torch_npu

            for module in self.net.modules():
                if isinstance(module, nn.Conv2d):
                    module.weight.data = torch_npu.npu_format_cast(module.weight.data, torch_npu.Format.FRACTAL_Z)
            self.images = torch_npu.npu_format_cast(self.images, torch_npu.Format.NC1HWC0)

    def forward(self):
        return self.net(self.images)

    def infer(self):
        """A forward pass without autograd; waits for the device."""
        with torch.no_grad():
            return self.net(self.images).float().sum().item()

    def backward(self):
        """Forward and backward pass. Returns the output and the loss."""
        self.optimizer.zero_grad()
        output = self.forward()
        loss = self.criterion(output.float(), self.targets)
        with self.amp.scale_loss(loss, self.optimizer) if self.amp else contextlib.nullcontext(loss) as scaled:
            scaled.backward()
        return output, loss

    def gradients(self):
        """The gradients that the optimizer sees, by name. With O2 they are those of the float32 copies of the parameters."""
        (group,) = self.optimizer.param_groups
        return {name: own.grad for (name, _), own in zip(self.net.named_parameters(), group["params"], strict=True)}

    def step(self):
        """A training step; waits for the device. Returns the loss."""
        _, loss = self.backward()
        self.optimizer.step()
        return loss.item()


def _optimizer_class(stage):
    if not stage.fused_optimizer:
        return torch.optim.SGD
    from torch_npu.optim import NpuFusedSGD

    return NpuFusedSGD
