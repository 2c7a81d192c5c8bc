#include "core/memory/segment_source.h"

#include <c10/util/Exception.h>

#include <utility>

#include "acl/symbol.h"
#include "base/log.h"
#include "core/memory/allocation_sizes.h"

namespace torch_npu {

void* SegmentSource::get(CacheLock& lock, const StreamCache& cache, size_t bytes) {
  if (!allows(bytes)) return nullptr;
  void* address = nullptr;
  if (const AllocatorFunctions* source = cache.pool.source) {
    const aclrtStream stream = cache.stream.stream();
    without_lock(lock, bytes, [&] { address = source->allocate(bytes, state_.device, stream); });
    if (address == nullptr) {
      refusal_ = "the allocator of the pool returned a null pointer";
      return nullptr;
    }
  } else {
    const aclError code = ask_device(lock, bytes, &address);
    if (acl::is_out_of_memory(code)) {
      note_refusal();
      return nullptr;
    }
    acl::check(code, "aclrtMalloc");
  }
  ++state_.stats.num_device_alloc;
  if (logs(LogPart::kMemory, LogLevel::kInfo)) log(LogPart::kMemory, LogLevel::kInfo, c10::str("took ", bytes, " bytes"));
  return address;
}

bool SegmentSource::allows(size_t bytes) {
  const size_t reserved = static_cast<size_t>(state_.stats.reserved_bytes[0].current) + asked_for_, most = limit();
  refusal_.clear();
  return bytes <= most && reserved <= most - bytes;
}

void SegmentSource::note_refusal() {
  if (const char* reason = ACL_FN(aclGetRecentErrMsg)()) refusal_ = reason;
}

std::string SegmentSource::take_refusal() { return std::exchange(refusal_, {}); }

size_t SegmentSource::limit() const {
  if (fraction_ >= 1) return SIZE_MAX;
  return static_cast<size_t>(fraction_ * static_cast<double>(device_memory(state_.device).second));
}

aclError SegmentSource::ask_device(CacheLock& lock, size_t bytes, void** address) {
  const bool has_gib_pages = state_.settings.has_gib_pages && bytes % kGiBPage == 0;
  const aclrtMemMallocPolicy policy = has_gib_pages ? ACL_MEM_MALLOC_HUGE1G_ONLY : ACL_MEM_MALLOC_HUGE_FIRST;
  if (!state_.settings.asks_unlocked) return ACL_FN(aclrtMalloc)(address, bytes, policy);
  aclError code = ACL_SUCCESS;
  without_lock(lock, bytes, [&] { code = ACL_FN(aclrtMalloc)(address, bytes, policy); });
  return code;
}

// The limit counts `bytes` while `ask` runs.
template <typename Ask>
void SegmentSource::without_lock(CacheLock& lock, size_t bytes, Ask&& ask) {
  asked_for_ += bytes;
  lock.unlock();
  ask();
  lock.lock();
  asked_for_ -= bytes;
}

}  // namespace torch_npu
