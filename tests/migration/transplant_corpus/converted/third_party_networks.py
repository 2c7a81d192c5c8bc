import timm
import torch
import torchvision.models as models
from transformers import AutoModel, pipeline

net = models.resnet18().cuda()
other = timm.create_model("vit").to("cuda")
model = AutoModel.from_pretrained("x", device_map="cuda").eval()
pipe = pipeline("text-generation", model="cuda-model", device="cuda:0")
