import logging

import torch

logger = logging.getLogger(__name__)
logger.info("cuda")
print("cuda", torch.cuda.is_available())
raise RuntimeError("cuda:0")
