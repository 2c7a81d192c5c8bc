#include "core/stream/stream.h"

#include <mutex>
#include <unordered_set>

#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace c10_npu {
namespace {

NPUStream wrap(torch_npu::NPUStream stream) { return NPUStream(NPUStream::UNCHECKED, stream.unwrap()); }

struct Marked {
  static Marked& get() {
    static Marked* const marked = new Marked;
    return *marked;
  }
  std::mutex mutex;
  std::unordered_set<c10::Stream> streams;
};

}  // namespace

NPUStream::NPUStream(c10::Stream stream) : stream_(torch_npu::NPUStream(stream).unwrap()) {}

NPUStream NPUStream::unpack3(c10::StreamId stream_id, c10::DeviceIndex device_index, c10::DeviceType device_type) {
  return NPUStream(c10::Stream::unpack3(stream_id, device_index, device_type));
}

bool NPUStream::query() const { return torch_npu::NPUStream(stream_).query(); }

void NPUStream::synchronize() const { torch_npu::NPUStream(stream_).synchronize(); }

aclrtStream NPUStream::stream() const {
  torch_npu::bind_device();
  return torch_npu::NPUStream(stream_).stream();
}

aclrtStream NPUStream::stream(const bool /*need_empty*/) const { return stream(); }

bool NPUStream::isDataPreprocessStream() {
  const std::lock_guard lock(Marked::get().mutex);
  return Marked::get().streams.contains(stream_);
}

void NPUStream::setDataPreprocessStream(bool is_data_preprocess_stream) {
  const std::lock_guard lock(Marked::get().mutex);
  if (is_data_preprocess_stream) {
    Marked::get().streams.insert(stream_);
  } else {
    Marked::get().streams.erase(stream_);
  }
}

NPUStream getCurrentNPUStream(c10::DeviceIndex device_index) {
  return wrap(torch_npu::getCurrentNPUStream(torch_npu::checked_device(device_index)));
}

NPUStream getDefaultNPUStream(c10::DeviceIndex device_index) { return wrap(torch_npu::getDefaultNPUStream(device_index)); }

NPUStream getNPUStreamFromPool(c10::DeviceIndex device) { return wrap(torch_npu::getNPUStreamFromPool(false, device)); }

NPUStream getStreamFromPool(const bool isHighPriority, c10::DeviceIndex device) {
  return wrap(torch_npu::getNPUStreamFromPool(isHighPriority, device));
}

void setCurrentNPUStream(NPUStream stream) { torch_npu::setCurrentNPUStream(torch_npu::NPUStream(stream.unwrap())); }

}  // namespace c10_npu
