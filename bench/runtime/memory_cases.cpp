// Device memory, against malloc and free of the host.
#include <cstdlib>

#include "device.h"
#include "measure.h"

namespace bench {
namespace {

std::function<std::pair<Batch, Batch>()> allocate(size_t bytes, int count) {
  return [bytes, count]() -> std::pair<Batch, Batch> {
    const auto ours = [bytes, count] {
      return seconds([&] {
               for (int i = 0; i < count; ++i) {
                 void* block = nullptr;
                 REQUIRE_ACL(aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
                 REQUIRE_ACL(aclrtFree(block));
               }
             }) /
             count;
    };
    const auto plain = [bytes, count] {
      return seconds([&] {
               for (int i = 0; i < count; ++i) {
                 void* volatile block = std::malloc(bytes);
                 std::free(block);
               }
             }) /
             count;
    };
    return {ours, plain};
  };
}

}  // namespace

std::vector<Case> memory_cases() {
  return {
      {"malloc_1k", "allocate and free 1 KiB of the device", "malloc and free", {}, 0, allocate(1024, 1000)},
      {"malloc_20m", "allocate and free 20 MiB of the device", "malloc and free", {}, 0, allocate(20 << 20, 100)},
  };
}

}  // namespace bench
