"""Mixed precision by three APIs, on the CPU without it. Prints the losses."""

import json

import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_amp = device.type == "cuda"


def train(context, scaler):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    inputs, labels = torch.randn(64, 16), torch.randint(0, 4, (64,))
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        with context():
            output = model(inputs.to(device, non_blocking=True))
            loss = torch.nn.functional.cross_entropy(output, labels.to(device))
        if use_amp:
            assert output.dtype != torch.float32 and loss.dtype == torch.float32
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    if use_amp:
        assert scaler.get_scale() > 1 and GradScaler().state_dict().keys() == scaler.state_dict().keys()
    return losses


class Square(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]


def squares():
    x = torch.arange(4.0).to(device).requires_grad_()
    with torch.autocast(device_type=x.device.type, dtype=torch.bfloat16, enabled=use_amp):
        y = Square.apply(x.bfloat16())
    y.sum().backward()
    assert not use_amp or y.dtype == torch.float32
    return x.grad.tolist()


print(
    json.dumps(
        {
            "torch.cuda.amp": train(lambda: autocast(enabled=use_amp), GradScaler(enabled=use_amp)),
            "torch.amp": train(
                lambda: torch.autocast("cuda", dtype=torch.float16, enabled=use_amp),
                torch.amp.GradScaler("cuda", enabled=use_amp),
            ),
            "bfloat16": train(
                lambda: torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=use_amp),
                torch.amp.GradScaler(enabled=use_amp),
            ),
            "custom function": squares(),
        }
    )
)
