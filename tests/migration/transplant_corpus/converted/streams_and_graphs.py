import torch

s = torch.cuda.Stream()
with torch.cuda.stream(s):
    e = torch.cuda.Event(enable_timing=True)
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    pass
torch.cuda.current_stream().wait_stream(s)
