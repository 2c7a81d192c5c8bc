from torch import *

d = device("cuda")
x = zeros(2, device="cuda:1")
