import horovod.torch as hvd
from safetensors import torch as st

print(hvd.cuda.is_available(), st.cuda, hvd.local_rank())
