// Copies of tensors and statistics of tensors, as they are at a point of the current stream.
//
//   CapturedTensorPtr copy = snapshot(tensor);                     // tensor.data is written in the order of the current stream
//   std::vector<Unsummarised> rest;
//   CapturedTensorPtr row = statistics.of(tensor, rest);           // maximum, minimum, mean and norm, computed on the device
//   statistics.compute(rest);                                      // where they are not known from a call before
//   statistics.flush_all(); row->batch->values(row->row);          // {max, min, mean, norm}
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

// Of the values; 0 if they cannot be read.
size_t bytes_of_snapshot(const at::Tensor& tensor);

// describe() and the values. The caller records an event after it.
CapturedTensorPtr snapshot(const at::Tensor& tensor);

// Whether a floating-point tensor has an infinity or a NaN. Waits for the device.
bool has_non_finite(const at::Tensor& tensor);

// Statistics that one thread computed on one stream; they come to the host in one copy.
class C10_EXPORT StatisticsBatch {
 public:
  explicit StatisticsBatch(c10::Stream stream) : stream_(stream) {}

  // The row of the first tensor, which those of the others follow; or nothing after flush(). The tensors are on the device of the
  // stream, which is the current one.
  std::optional<size_t> add(at::TensorList tensors);
  size_t rows() const { return rows_.size(); }
  // Starts the copy to the host. A failure is thrown by values(). Thread-safe.
  void flush() noexcept;
  bool is_flushed() const { return flushed_.load(std::memory_order_acquire); }
  // {max, min, mean, norm}; NaN where a dtype has none. Waits for the copy. Only after flush().
  std::array<double, 4> values(size_t row);

 private:
  struct Group {
    std::vector<at::Tensor> scalars;  // of one dtype
    at::Tensor block;                 // or rows of four numbers, of which `used` are written
    size_t used = 0;
    at::Tensor host;
  };
  struct Place {
    int group = -1;  // of groups_; -1: no such number
    size_t index = 0;
  };
  using Row = std::array<Place, 4>;

  Place put(const at::Tensor& scalar);
  Row summarise(at::Tensor values);
  void summarise_in_one_launch(at::TensorList tensors, const std::vector<size_t>& rows);
  void copy_to_host();

  const c10::Stream stream_;
  std::vector<Row> rows_;
  std::vector<Group> groups_;
  std::map<at::ScalarType, int> groups_of_;
  int block_ = -1;  // of groups_
  std::vector<c10::Event> copied_;
  std::string failure_;
  std::mutex mutex_;
  std::atomic<bool> flushed_{false};
};

// A tensor whose statistics are not known.
struct Unsummarised {
  at::Tensor tensor;
  CapturedTensorPtr captured;
  uint32_t version;
  bool is_tracked;  // only operators write it, and each write gives it another version
};

// The batches of all streams. A tensor that did not change since its last statistics shares them. Thread-safe.
class Statistics {
 public:
  // describe(), with the statistics if they are known. Else `rest` gets the tensor.
  CapturedTensorPtr of(const at::Tensor& tensor, std::vector<Unsummarised>& rest);
  // Computes the statistics, in one launch for each device where the device library can.
  void compute(const std::vector<Unsummarised>& rest);
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
  void compute_on(c10::Device device, const std::vector<Unsummarised>& rest);
  void remember(const Unsummarised& each);

  std::mutex mutex_;
  uint64_t replays_ = 0;
  std::unordered_map<c10::StorageImpl*, std::vector<Known>> known_;
  size_t most_known_ = 4096;  // then the freed storages are dropped
  using ThreadAndStream = std::tuple<std::thread::id, c10::DeviceType, c10::DeviceIndex, c10::StreamId>;
  std::map<ThreadAndStream, std::shared_ptr<StatisticsBatch>> open_;
};

}  // namespace torch_npu::capture
