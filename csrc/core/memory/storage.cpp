#include "core/memory/storage.h"

#include <algorithm>

#include "acl/symbol.h"
#include "core/memory/allocator.h"

namespace torch_npu {

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  const BoundDevice bound(storage.device().index());
  at::DataPtr memory = allocate_memory(bytes);
  const size_t kept = std::min(storage.nbytes(), bytes);
  if (kept > 0 && storage.data() != nullptr) {
    const NPUStream stream = getCurrentNPUStream();
    ACL_CALL(aclrtMemcpyAsync, memory.get(), bytes, storage.data(), kept, ACL_MEMCPY_DEVICE_TO_DEVICE, stream.stream());
    recordStream(storage.data_ptr(), stream);
  }
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_nbytes(bytes);
}

}  // namespace torch_npu
