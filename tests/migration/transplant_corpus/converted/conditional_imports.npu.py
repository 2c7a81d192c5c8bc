try:
    import torch_npu
    import torch
except ImportError:
    torch = None
try:
    from torch.npu.amp import autocast
except ImportError:
    autocast = None
if torch is not None and torch.npu.is_available():
    print("ok")
