import torch_npu
import torch
import torch.npu.mstx as marks
from torch.npu import mstx

mstx.mark("start")
torch.npu.mstx.range_push("x")
marks.range_pop()
