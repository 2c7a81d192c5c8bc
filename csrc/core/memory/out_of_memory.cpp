#include "core/memory/out_of_memory.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "core/device/device.h"

namespace torch_npu {
namespace {

using c10::CachingAllocator::format_size;

struct Observers {
  std::mutex mutex;
  std::vector<OutOfMemoryObserver> list;

  static Observers& get() {
    static Observers* const observers = new Observers;
    return *observers;
  }
};

std::atomic<bool> names_cuda = false;

}  // namespace

void name_cuda_when_out_of_memory(bool name) { names_cuda = name; }

void attach_out_of_memory_observer(OutOfMemoryObserver observer) {
  Observers& observers = Observers::get();
  const std::lock_guard lock(observers.mutex);
  observers.list.push_back(std::move(observer));
}

void throw_out_of_memory(const OutOfMemory& event) {
  Observers& observers = Observers::get();
  const auto list = [&] {
    const std::lock_guard lock(observers.mutex);
    return observers.list;
  }();
  for (const OutOfMemoryObserver& observer : list) observer(event);
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(event.requested), event.allocated, event.reserved,
                                   npu_device(event.device));
  const std::string allowed = event.allowed == SIZE_MAX ? std::string() : c10::str(format_size(event.allowed), " allowed; ");
  const std::string reason = event.reason.empty() ? std::string() : c10::str(" The device says: ", event.reason, ".");
  const char* const cuda = names_cuda ? "CUDA out of memory. With transfer_to_npu, cuda means npu: " : "";
  TORCH_CHECK_WITH(OutOfMemoryError, false, cuda, "NPU out of memory. Tried to allocate ", format_size(event.requested), " (NPU ",
                   int{event.device}, "; ", format_size(event.total), " total capacity; ", format_size(event.allocated),
                   " already allocated; ", format_size(event.active), " current active; ", format_size(event.free), " free; ",
                   allowed, format_size(event.reserved), " reserved in total by PyTorch).", reason,
                   " If much more is reserved than allocated, memory is fragmented, and "
                   "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True may help.");
}

}  // namespace torch_npu
