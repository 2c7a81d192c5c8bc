#include "core/memory/host_allocator.h"

#include "acl/symbol.h"
#include "core/graph/graph.h"
#include "core/stream/event.h"

namespace torch_npu {
namespace {

// Which of these torch declares differs between its versions; where it does not, they are plain functions nobody calls.
struct PinnedMemory final : at::CachingHostAllocatorImpl<NPUStream, NPUEvent> {
  void allocate_host_memory(size_t size, void** pointer) override {
    bind_device();
    ACL_CALL(aclrtMallocHost, pointer, size);
  }

  void free_block(at::HostBlock<NPUStream>* block) override {
    acl::warn_if_failed(ACL_FN(aclrtFreeHost)(block->ptr_), "aclrtFreeHost");
  }

  void record_stream(std::optional<std::vector<NPUEvent>>& events, NPUStream stream) override {
    if (is_capturing(stream)) return;  // who captures a copy keeps its memory for the replays
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

PinnedAllocator& allocator() {
  static PinnedAllocator* const allocator = new PinnedAllocator;
  return *allocator;
}

void free_pinned(void* context) {
  if (is_in_bad_fork()) return;
  allocator().free(context);
}

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, getNPUHostAllocator())

}  // namespace

at::HostAllocator* getNPUHostAllocator() { return &allocator(); }

bool is_pinned(const void* pointer) {
  if (!is_initialized() || is_in_bad_fork()) return false;
  aclrtPtrAttributes attributes{};
  if (ACL_FN(aclrtPointerGetAttributes)(pointer, &attributes) != ACL_SUCCESS) return false;
  return attributes.location.type == ACL_MEM_LOCATION_TYPE_HOST;
}

}  // namespace torch_npu
