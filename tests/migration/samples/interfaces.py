"""The interfaces that CUDA and npu have in common, by their npu names."""

import torch

device = torch.device("npu:0")
stream = torch.npu.Stream(device)
torch.npu.set_device(device)
torch.npu.synchronize()
assert torch.npu.is_available() and torch.npu.current_device() == 0 < torch.npu.device_count()
assert not torch.tensor([1, 2, 3]).is_npu
assert torch.tensor([1, 2, 3]).npu().is_npu and torch.tensor([1, 2, 3]).to("npu").is_npu
with torch.npu.stream(stream):
    assert torch.npu.current_stream() == stream != torch.npu.default_stream()
torch.npu.Event().record()
for dtype, kind in ((torch.long, "Long"), (torch.int, "Int"), (torch.half, "Half"), (torch.float, "Float"), (torch.bool, "Bool")):
    tensor = torch.tensor([1, 2, 3], dtype=dtype, device="npu")
    assert torch.equal(tensor, getattr(torch.npu, f"{kind}Tensor")([1, 2, 3]))
with torch.npu.device(0):
    torch.npu.set_option({"ACL_OP_SELECT_IMPL_MODE": "high_precision"})
