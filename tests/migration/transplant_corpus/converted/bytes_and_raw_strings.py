import torch

a = torch.device(r"cuda")
b = torch.device(u'cuda:0')
c = b"cuda"
d = torch.device("""cuda""")
e = torch.device("cu" "da")
