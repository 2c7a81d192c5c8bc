import torch_npu
import torch

s = torch.npu.Stream()
with torch.npu.stream(s):
    e = torch.npu.Event(enable_timing=True)
g = torch.npu.NPUGraph()
with torch.npu.graph(g):
    pass
torch.npu.current_stream().wait_stream(s)
