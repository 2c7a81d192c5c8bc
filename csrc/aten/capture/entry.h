// One recorded call: names, and copies of the tensors or their statistics. See engine.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch_npu::capture {

class StatisticsBatch;

struct CapturedTensor {
  CapturedTensor(at::ScalarType its_dtype, c10::Device its_device) : dtype(its_dtype), device(its_device) {}

  at::Tensor data;  // contiguous, on the CPU; undefined if the values were not captured
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  at::ScalarType dtype;
  c10::Device device;
  bool requires_grad = false;
  std::string missing;  // the reason if there are neither values nor statistics; otherwise empty

  std::shared_ptr<StatisticsBatch> batch;  // null: no statistics
  size_t row = 0;                          // the row of this tensor in the batch
};
using CapturedTensorPtr = std::shared_ptr<CapturedTensor>;

// One argument or result.
struct CapturedValue {
  std::string name;
  enum class Kind { kTensor, kTensors, kOther } kind = Kind::kOther;
  std::vector<CapturedTensorPtr> tensors;  // one for kTensor; null where a tensor is undefined
  c10::IValue other;
  c10::TypePtr type;
};

struct Entry {
  std::string name;  // "linear" or "AddmmBackward0"
  int64_t sequence = 0;
  bool backward = false;
  std::string module;  // empty if unknown
  std::string line;    // the line of the Python program; empty for backward entries, and if unknown
  std::vector<CapturedValue> inputs;
  std::vector<CapturedValue> outputs;
  std::vector<c10::Event> copied;  // recorded after the copies to `data`
  size_t bytes = 0;                // the bytes of all `data`
};

}  // namespace torch_npu::capture
