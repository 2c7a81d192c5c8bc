import timm
import torch_npu
import torch
import torchvision.models as models
from transformers import AutoModel, pipeline

net = models.resnet18().npu()
other = timm.create_model("vit").to("npu")
model = AutoModel.from_pretrained("x", device_map="npu").eval()
pipe = pipeline("text-generation", model="cuda-model", device="npu:0")
