// Copies of tensors and statistics of tensors, as they are at a point of the current stream.
//
//   CapturedTensorPtr copy = snapshot(tensor);                     // tensor.data is written in the order of the current stream
//   CapturedTensorPtr row = statistics.of(tensor);                 // maximum, minimum, mean and norm, computed on the device
//   statistics.flush_all(); row->batch->values(row->row);              // {max, min, mean, norm}
//
// Nothing here waits for the device, except StatisticsBatch::values(). Call it inside a PlainCalls object: no autograd, no modes.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <unordered_map>

#include "aten/capture/entry.h"

namespace torch_npu::capture {

// While it lives, operators of this thread run without autograd, autocast, functorch and Python modes.
class PlainCalls {
 public:
  PlainCalls();

 private:
  c10::impl::ForceDispatchKeyGuard guard_;
};

// Sizes, strides, dtype and device. `missing` has the reason if the values cannot be read: a fake tensor, a sparse tensor.
CapturedTensorPtr describe(const at::Tensor& tensor);

// describe() and the values. The caller records an event after it.
CapturedTensorPtr snapshot(const at::Tensor& tensor);

// Whether a floating-point tensor has an infinity or a NaN. Waits for the device.
bool has_non_finite(const at::Tensor& tensor);

// Statistics that one thread computed on one stream; they come to the host in one copy.
class C10_EXPORT StatisticsBatch {
 public:
  explicit StatisticsBatch(c10::Stream stream) : stream_(stream) {}

  // The row, or nothing after flush().
  std::optional<size_t> add(const at::Tensor& tensor);
  size_t rows() const { return rows_.size(); }
  // Starts the copy to the host. Thread-safe.
  void flush();
  bool is_flushed() const { return flushed_.load(std::memory_order_acquire); }
  // {max, min, mean, norm}; NaN where a dtype has none. Waits for the copy. Only after flush().
  std::array<double, 4> values(size_t row);

 private:
  struct Group {
    std::vector<at::Tensor> scalars;
    at::Tensor host;
  };
  struct Place {
    int group = -1;  // of groups_; -1: no such number
    size_t index = 0;
  };
  Place put(const at::Tensor& scalar);

  const c10::Stream stream_;
  std::vector<std::array<Place, 4>> rows_;
  std::vector<Group> groups_;  // by dtype
  std::map<at::ScalarType, int> groups_of_;
  std::vector<c10::Event> copied_;
  std::mutex mutex_;
  std::atomic<bool> flushed_{false};
};

// The batches of all streams. A tensor that did not change since its last statistics shares them. Thread-safe.
class Statistics {
 public:
  CapturedTensorPtr of(const at::Tensor& tensor);
  // The operator may have written these tensors.
  void forget(const at::Tensor& tensor);
  // The batches of this thread with at least `rows` rows.
  void flush_of_thread(size_t rows);
  void flush_all();

 private:
  struct Known {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    int64_t offset;
    uint32_t version;
    CapturedTensorPtr captured;
  };

  CapturedTensorPtr find(const at::Tensor& tensor, const CapturedTensor& described, uint32_t version);

  std::mutex mutex_;
  uint64_t replays_ = 0;
  std::unordered_map<c10::StorageImpl*, std::vector<Known>> known_;
  using ThreadAndStream = std::tuple<std::thread::id, c10::DeviceType, c10::DeviceIndex, c10::StreamId>;
  std::map<ThreadAndStream, std::shared_ptr<StatisticsBatch>> open_;
};

}  // namespace torch_npu::capture
