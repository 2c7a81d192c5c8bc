class Car:
    def cuda(self):
        return "cuda"


car = Car()
print(car.cuda(), {"cuda": 1}["cuda"], "torch.cuda")
device = "phone"
