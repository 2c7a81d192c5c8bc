import logging

import torch_npu
import torch

logger = logging.getLogger(__name__)
logger.info("cuda")
print("cuda", torch.npu.is_available())
raise RuntimeError("cuda:0")
