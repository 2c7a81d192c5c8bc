#include "distributed/group_streams.h"

#include <map>
#include <mutex>
#include <vector>

#include "acl/symbol.h"

namespace torch_npu::distributed {
namespace {

class FreeStreams {
 public:
  static FreeStreams& get() {
    static FreeStreams* const streams = new FreeStreams;
    return *streams;
  }

  NPUStream take(c10::DeviceIndex device, bool high_priority) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<NPUStream>& free = free_[{device, high_priority}];
      if (!free.empty()) {
        const NPUStream stream = free.back();
        free.pop_back();
        return stream;
      }
    }
    const BoundDevice bound(device);
    int32_t least = 0, greatest = 0;
    ACL_CALL(aclrtDeviceGetStreamPriorityRange, &least, &greatest);
    aclrtStream handle = nullptr;
    ACL_CALL(aclrtCreateStreamWithConfig, &handle, static_cast<uint32_t>(high_priority ? greatest : least),
             ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC);
    return externalStream(handle, device);
  }

  void give(NPUStream stream, bool high_priority) {
    const std::lock_guard lock(mutex_);
    free_[{stream.device_index(), high_priority}].push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, bool>, std::vector<NPUStream>> free_;
};

}  // namespace

GroupStream::GroupStream(c10::DeviceIndex device, bool high_priority)
    : stream_(FreeStreams::get().take(device, high_priority)), high_priority_(high_priority) {}

GroupStream::~GroupStream() { FreeStreams::get().give(stream_, high_priority_); }

}  // namespace torch_npu::distributed
