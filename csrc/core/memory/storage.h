// Growing and shrinking storages in device memory.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/macros/Export.h>

namespace torch_npu {

// Gives `storage` new memory of `bytes` on its device and copies what fits, on the current stream. The old memory is freed.
C10_EXPORT void resize_storage(c10::StorageImpl& storage, size_t bytes);

}  // namespace torch_npu
