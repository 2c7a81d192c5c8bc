from torch import cuda, device, nn

if cuda.is_available():
    cuda.manual_seed_all(1)
    model = nn.Linear(2, 2).cuda()


def name(cuda):
    return cuda.is_available()  # a parameter
