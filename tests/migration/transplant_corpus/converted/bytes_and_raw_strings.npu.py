import torch_npu
import torch

a = torch.device(r"npu")
b = torch.device(u'npu:0')
c = b"cuda"
d = torch.device("""npu""")
e = torch.device("cu" "da")
