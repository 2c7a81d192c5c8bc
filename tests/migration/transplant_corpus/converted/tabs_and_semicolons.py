import torch
def f(x):
	if torch.cuda.is_available(): x = x.cuda(); y = x.is_cuda
	return (x
		.cuda()
		.to("cuda", non_blocking=True))
