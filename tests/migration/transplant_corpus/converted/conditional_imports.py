try:
    import torch
except ImportError:
    torch = None
try:
    from torch.cuda.amp import autocast
except ImportError:
    autocast = None
if torch is not None and torch.cuda.is_available():
    print("ok")
