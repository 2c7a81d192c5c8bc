#include "hccl/transport/foreign_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hccl/library.h"

namespace softnpu::hccl {

bool find_place(const void* pointer, size_t bytes, MemoryPlace* place) {
  int file = -1;
  struct stat about {};
  if (!driver()->find_file(pointer, bytes, &file, &place->offset) || fstat(file, &about) != 0) return false;
  place->file = file;
  place->inode = about.st_ino;
  return true;
}

ForeignMemory::~ForeignMemory() {
  for (const Mapping& mapping : mappings_) munmap(mapping.base, mapping.bytes);
}

Result<const std::byte*> ForeignMemory::find(const MemoryPlace& place, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto is_within = [&](size_t size) { return place.offset <= size && bytes <= size - place.offset; };
  for (const Mapping& mapping : mappings_) {
    if (mapping.file == place.file && mapping.inode == place.inode && is_within(mapping.bytes)) {
      return static_cast<const std::byte*>(mapping.base + place.offset);
    }
  }
  const int file = open(text("/proc/", pid_, "/fd/", place.file).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return system_failure(text("the device memory of process ", pid_,
                               " cannot be opened; set SOFTNPU_HCCL_TRANSPORT=staged to copy through shared memory instead"));
  }
  struct stat about {};
  const bool is_right = fstat(file, &about) == 0 && about.st_ino == place.inode && is_within(static_cast<size_t>(about.st_size));
  void* base = MAP_FAILED;
  if (is_right) {
    base = mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ, MAP_SHARED | MAP_NORESERVE, file, 0);
  }
  close(file);
  if (!is_right) return Status(HCCL_E_MEMORY, text("process ", pid_, " sent a place that is not in its device memory"));
  if (base == MAP_FAILED) return system_failure(text("the device memory of process ", pid_, " cannot be mapped"), HCCL_E_MEMORY);
  madvise(base, static_cast<size_t>(about.st_size), MADV_DONTFORK);
  mappings_.push_back({place.file, place.inode, static_cast<std::byte*>(base), static_cast<size_t>(about.st_size)});
  return static_cast<const std::byte*>(mappings_.back().base + place.offset);
}

}  // namespace softnpu::hccl
