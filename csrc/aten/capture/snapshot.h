// Copies and statistics of tensors. Both hold the values at the current point of the current stream.
//
//   CapturedTensorPtr copy = snapshot(tensor);                     // tensor.data is written in the order of the current stream
//   std::vector<Unsummarised> rest;
//   CapturedTensorPtr row = statistics.of(tensor, rest);           // maximum, minimum, mean and norm, computed on the device
//   statistics.compute(rest);                                      // for the tensors whose statistics are not known yet
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

// During the lifetime of this object, operators of this thread run without autograd, autocast, functorch and Python modes.
class PlainCalls {
 public:
  PlainCalls();

 private:
  c10::impl::ForceDispatchKeyGuard guard_;
};

// Sizes, strides, dtype and device. `missing` has the reason if the values cannot be read: a fake tensor, a sparse tensor.
CapturedTensorPtr describe(const at::Tensor& tensor);

// The bytes of the values; 0 if they cannot be read.
size_t bytes_of_snapshot(const at::Tensor& tensor);

// describe() and a copy of the values. The caller records an event after it.
CapturedTensorPtr snapshot(const at::Tensor& tensor);

// Whether a floating-point tensor has an infinity or a NaN. Waits for the device.
bool has_non_finite(const at::Tensor& tensor);

// Statistics that one thread computed on one stream; they come to the host in one copy.
class C10_EXPORT StatisticsBatch {
 public:
  explicit StatisticsBatch(c10::Stream stream) : stream_(stream) {}

  // Adds a row for each tensor and returns the first one; the other rows follow it. Returns nothing after flush(). The tensors
  // are on the device of the batch's stream, and that stream is the current one.
  std::optional<size_t> add(at::TensorList tensors);
  size_t rows() const { return rows_.size(); }
  // Starts the copy to the host. A failure is thrown by values(). Thread-safe.
  void flush() noexcept;
  bool is_flushed() const { return flushed_.load(std::memory_order_acquire); }
  // {max, min, mean, norm}; NaN where a dtype has none. Waits for the copy. Only after flush().
  std::array<double, 4> values(size_t row);

 private:
  struct Group {
    std::vector<at::Tensor> scalars;  // numbers of one dtype
    at::Tensor block;                 // instead of `scalars`: rows of four numbers, of which `used` are written
    size_t used = 0;
    at::Tensor host;
  };
  struct Place {
    int group = -1;  // index in groups_; -1: the dtype has no such number
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
  int block_ = -1;  // index in groups_ of the group with a block; -1: none
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
  bool is_tracked;  // true if every write of the tensor changes its version
};

// The batches of all streams. The statistics of a tensor are used again while the tensor does not change. Thread-safe.
class Statistics {
 public:
  // describe(), with the statistics if they are known. Otherwise the tensor is added to `rest`.
  CapturedTensorPtr of(const at::Tensor& tensor, std::vector<Unsummarised>& rest);
  // Computes the statistics. A device library with aclnnSoftTensorStatistics needs one launch for each device.
  void compute(const std::vector<Unsummarised>& rest);
  // Drops the statistics of a tensor that an operator may have written.
  void forget(const at::Tensor& tensor);
  // Flushes the batches of this thread that have at least `rows` rows.
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
  size_t most_known_ = 4096;  // at this size, entries of freed storages are dropped
  using ThreadAndStream = std::tuple<std::thread::id, c10::DeviceType, c10::DeviceIndex, c10::StreamId>;
  std::map<ThreadAndStream, std::shared_ptr<StatisticsBatch>> open_;
};

}  // namespace torch_npu::capture
