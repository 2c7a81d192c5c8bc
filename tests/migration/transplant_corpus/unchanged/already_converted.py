import torch_npu
import torch

device = torch.device("npu" if torch.npu.is_available() else "cpu")
x = torch.ones(2).npu()
torch.distributed.init_process_group("hccl")
if __name__ == "__main__":
    print(x.is_npu)
