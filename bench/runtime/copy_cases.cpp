// Copies between host and device, against memcpy between two blocks of host memory.
#include <algorithm>
#include <cstring>
#include <memory>

#include "device.h"
#include "measure.h"

namespace bench {
namespace {

constexpr double kLeastThroughput = 0.9;
constexpr size_t kBytesPerBatch = size_t{64} << 20;

struct Direction {
  const char* name;
  MemoryKind source;
  MemoryKind destination;
};

constexpr Direction kDirections[] = {
    {"h2d_pinned", MemoryKind::kPinned, MemoryKind::kDevice},
    {"h2d_pageable", MemoryKind::kPageable, MemoryKind::kDevice},
    {"d2h_pinned", MemoryKind::kDevice, MemoryKind::kPinned},
    {"d2h_pageable", MemoryKind::kDevice, MemoryKind::kPageable},
};

struct Sides {
  Sides(const Direction& direction, size_t bytes)
      : source(direction.source, bytes),
        destination(direction.destination, bytes),
        plain_source(MemoryKind::kPageable, bytes),
        plain_destination(MemoryKind::kPageable, bytes) {}

  Memory source;
  Memory destination;
  Memory plain_source;
  Memory plain_destination;
};

std::pair<Batch, Batch> copy(const Direction& direction, size_t bytes) {
  auto sides = std::make_shared<Sides>(direction, bytes);
  const auto count = static_cast<int>(std::max<size_t>(1, kBytesPerBatch / bytes));
  const auto ours = [sides, bytes, count] {
    return seconds([&] {
             for (int i = 0; i < count; ++i) {
               REQUIRE_ACL(aclrtMemcpy(sides->destination.get(), bytes, sides->source.get(), bytes, ACL_MEMCPY_DEFAULT));
             }
           }) /
           count;
  };
  const auto plain = [sides, bytes, count] {
    return seconds([&] {
             for (int i = 0; i < count; ++i) {
               std::memcpy(sides->plain_destination.get(), sides->plain_source.get(), bytes);
               asm volatile("" ::: "memory");  // each of them counts
             }
           }) /
           count;
  };
  return {ours, plain};
}

}  // namespace

std::vector<Case> copy_cases() {
  std::vector<Case> cases;
  for (const Direction& direction : kDirections) {
    for (const size_t mebibytes : {1, 64}) {
      const size_t bytes = mebibytes << 20;
      cases.push_back({std::string(direction.name) + "_" + std::to_string(mebibytes) + "m", "aclrtMemcpy", "memcpy",
                       Bar{Bar::Kind::kAtLeast, kLeastThroughput}, bytes,
                       [&direction, bytes] { return copy(direction, bytes); }});
    }
  }
  return cases;
}

}  // namespace bench
