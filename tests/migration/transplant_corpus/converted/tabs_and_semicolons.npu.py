import torch_npu
import torch
def f(x):
	if torch.npu.is_available(): x = x.npu(); y = x.is_npu
	return (x
		.npu()
		.to("npu", non_blocking=True))
