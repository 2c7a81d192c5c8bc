import torch
import torch.cuda.nvtx as marks
from torch.cuda import nvtx

nvtx.mark("start")
torch.cuda.nvtx.range_push("x")
marks.range_pop()
