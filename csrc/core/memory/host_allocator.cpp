#include "core/memory/host_allocator.h"

#include "acl/symbol.h"
#include "core/stream/event.h"
#include "core/stream/open_captures.h"

namespace torch_npu {
namespace {

// Versions of torch differ in which of these functions they declare. Those that a version does not declare are never called.
struct PinnedMemory final : at::CachingHostAllocatorImpl<NPUStream, NPUEvent> {
  void allocate_host_memory(size_t size, void** pointer) override {
    bind_device();
    ACL_CALL(aclrtMallocHost, pointer, size);
  }

  void free_block(at::HostBlock<NPUStream>* block) override {
    acl::warn_if_failed(ACL_FN(aclrtFreeHost)(block->ptr_), "aclrtFreeHost");
  }

  void record_stream(std::optional<std::vector<NPUEvent>>& events, NPUStream stream) override {
    if (is_capturing(stream)) return;  // the caller that captures a copy must keep the memory for the replays
    NPUEvent event;
    event.record(stream);
    events->push_back(std::move(event));
  }

  bool query_event(NPUEvent& event) override { return event.query(); }

  virtual NPUStream get_current_stream() const { return getCurrentNPUStream(); }
  virtual bool stream_is_capturing(NPUStream stream) const { return is_capturing(stream); }
};

void free_pinned(void* context);

using PinnedAllocator = at::CachingHostAllocatorInterface<PinnedMemory, free_pinned>;

PinnedAllocator& pinned_allocator() {
  static PinnedAllocator* const allocator = new PinnedAllocator;
  return *allocator;
}

void free_pinned(void* context) {
  if (is_in_bad_fork()) return;
  pinned_allocator().free(context);
}

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, getNPUHostAllocator())

}  // namespace

at::HostAllocator* getNPUHostAllocator() { return &pinned_allocator(); }

bool is_pinned(const void* pointer) {
  if (!is_initialized() || is_in_bad_fork()) return false;
  aclrtPtrAttributes attributes{};
  if (ACL_FN(aclrtPointerGetAttributes)(pointer, &attributes) != ACL_SUCCESS) return false;
  return attributes.location.type == ACL_MEM_LOCATION_TYPE_HOST;
}

}  // namespace torch_npu
