// Device memory of another process of this host, read in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "hccl/errors.h"

namespace softnpu::hccl {

// The place of a range of device memory, in terms that another process can use.
struct MemoryPlace {
  int32_t file = -1;  // file descriptor of the owner
  uint64_t inode = 0;
  uint64_t offset = 0;
};

// False if the memory at this device address is not backed by a file.
bool find_place(const void* pointer, size_t bytes, MemoryPlace* place);

// The files of one process. Each file is mapped as a whole, read only, when it is first used. The mapping uses the pages of the
// owner, so it takes address space but no memory. Thread-safe.
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
