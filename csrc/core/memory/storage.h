// Resizes storages in device memory.
//
//   resize_storage(storage, 4096);
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/macros/Export.h>

namespace torch_npu {

// Gives `storage` new memory of `bytes` on its device, copies the old contents as far as they fit, on the current stream, and
// frees the old memory. Throws if the storage is not resizable or there is no memory.
C10_EXPORT void resize_storage(c10::StorageImpl& storage, size_t bytes);

}  // namespace torch_npu
