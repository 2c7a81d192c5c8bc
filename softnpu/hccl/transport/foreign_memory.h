// Device memory of another process of this host, read where it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "hccl/errors.h"

namespace softnpu::hccl {

// Where a range of device memory lies, in terms that another process understands.
struct MemoryPlace {
  int32_t file = -1;  // of the process that says so
  uint64_t inode = 0;
  uint64_t offset = 0;
};

// False where the memory at this device address has no such place.
bool find_place(const void* pointer, size_t bytes, MemoryPlace* place);

// The files of one process. Each is mapped whole, for reading, when it is first asked for: the pages are those that the other
// process uses, so that this takes addresses and no memory. Thread-safe.
class ForeignMemory {
 public:
  explicit ForeignMemory(int pid) : pid_(pid) {}
  ~ForeignMemory();
  ForeignMemory(const ForeignMemory&) = delete;
  ForeignMemory& operator=(const ForeignMemory&) = delete;

  Result<const std::byte*> find(const MemoryPlace& place, size_t bytes);

 private:
  struct Mapping {
    int32_t file;
    uint64_t inode;
    std::byte* base;
    size_t bytes;
  };

  const int pid_;
  std::mutex mutex_;
  std::vector<Mapping> mappings_;
};

}  // namespace softnpu::hccl
