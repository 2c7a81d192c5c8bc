// Device memory that several processes use: one exports a range of its heap under a key, others import it by that key.
//
//   Result<std::string> key = IpcMemory::export_range(block, bytes, IpcMemory::Importers::kAll);   // sent by whatever means
//   Result<void*> address = IpcMemory::import_range(key.value(), device);                           // in the other process
//   IpcMemory::close(key.value());
//
// Nothing is copied: the importer maps the file behind the exporter's heap, at an address of its own. Which ranges are exported
// stands in a table in shared memory, which importers find by the key, as they find events (ipc_event.h): under /proc, while the
// exporter lives. So nothing is left behind when a process ends, however it ends.
//
// Memory is counted to the exporter. Importers that outlive it, or its aclrtFree, keep their addresses; what they read there is
// whatever the pages hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace softnpu {

// Thread-safe.
class IpcMemory {
 public:
  enum class Importers { kNamed, kAll };

  // A key of fewer than ACL_IPC_HANDLE_SIZE characters for [pointer, pointer + bytes), which lies in one live block of a heap of
  // this process, or in memory that it mapped (virtual_memory.h). The same range has the same key until it is freed or closed.
  static Result<std::string> export_range(const void* pointer, size_t bytes, Importers importers);

  // Names processes that may import what was exported for named ones; those named before stay.
  static Status allow(const std::string& key, std::span<const int32_t> pids);

  // The address in the span of `device`, as the host counts; again for the same key, the same one. ACL_ERROR_RT_IPC_ERROR if the
  // exporter has ended, freed the memory or closed the key, or does not allow it.
  static Result<void*> import_range(const std::string& key, int device);

  // Takes back one import of this process; if it has none, the export. At once: waits for no stream.
  static Status close(const std::string& key);

  // Ends the exports that have a part in memory that is about to be freed or unmapped.
  static void forget_exports(const void* begin, size_t bytes);
  // Ends the exports and imports of `device`.
  static void forget_device(int device);
};

}  // namespace softnpu
