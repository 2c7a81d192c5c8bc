// at::add from C++ in inference mode, for cases.py: the dispatcher and the device, without autograd or Python.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>

extern "C" {

__attribute__((visibility("default"))) void* prepare_add(int on_npu) {
  const c10::InferenceMode on;
  const at::TensorOptions options = at::TensorOptions(on_npu ? at::kPrivateUse1 : at::kCPU).dtype(at::kFloat);
  return new at::Tensor(at::ones({2, 2}, options));
}

__attribute__((visibility("default"))) void add_many(void* operand, int count) {
  const c10::InferenceMode on;
  const at::Tensor& tensor = *static_cast<at::Tensor*>(operand);
  for (int i = 0; i < count; ++i) at::add(tensor, tensor);
}

}  // extern "C"
