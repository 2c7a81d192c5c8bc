// Device memory that several processes use: one exports a range of its heap under a key, others import it by that key.
//
//   Result<std::string> key = IpcMemory::export_range(block, bytes, IpcMemory::Importers::kAll);   // the program sends the key
//   Result<void*> address = IpcMemory::import_range(key.value(), device);                           // in the other process
//   IpcMemory::close(key.value());
//
// Nothing is copied: the importer maps the file of the exporter's heap at its own address. The exported ranges are listed in a
// table in shared memory. The key has the exporter's PID and file descriptors, through which importers open the table and the
// heap under /proc, as they open events (stream/ipc_event.h). When a process ends, nothing of it remains.
//
// The ledger counts the memory for the exporter. If the exporter ends or frees the memory, the addresses of importers stay
// mapped; their contents are undefined.
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

  // Returns a key of fewer than ACL_IPC_HANDLE_SIZE characters for [pointer, pointer + bytes). The range must lie in one live
  // block of a heap of this process, or in memory that it mapped (virtual_memory.h). The same range has the same key until it is
  // freed or closed.
  static Result<std::string> export_range(const void* pointer, size_t bytes, Importers importers);

  // Adds processes that may import a range that was exported with kNamed.
  static Status allow(const std::string& key, std::span<const int32_t> pids);

  // Returns an address in the span of `device` (its number as the host counts). A second import of the same key returns the same
  // address. ACL_ERROR_RT_IPC_ERROR if the exporter has ended, freed the memory, closed the key, or did not name this process.
  static Result<void*> import_range(const std::string& key, int device);

  // Ends one import of this process; without one, ends the export. Does not wait for streams.
  static Status close(const std::string& key);

  // Ends the exports that overlap [begin, begin + bytes). Called before that memory is freed or unmapped.
  static void forget_exports(const void* begin, size_t bytes);
  // Ends the exports and imports of `device`.
  static void forget_device(int device);
};

}  // namespace softnpu
