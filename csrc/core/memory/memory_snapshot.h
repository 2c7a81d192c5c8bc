// A snapshot of device memory: the segments and their blocks. torch.npu.memory_snapshot() converts it to Python.
#pragma once

#include <c10/core/Allocator.h>

#include <vector>

#include "core/memory/memory_history.h"

namespace torch_npu {

struct BlockView {
  enum State : uint8_t { kAllocated, kPendingFree, kInactive };

  uintptr_t address;
  size_t size;
  size_t requested;
  State state;
  StackTrace stack;  // that allocated it; null if it is not known
};

struct SegmentView {
  c10::DeviceIndex device;
  uintptr_t address;
  c10::StreamId stream;
  bool is_small;
  c10::MempoolId_t pool;
  bool is_expandable = false;
  size_t total = 0;
  size_t allocated = 0;
  size_t active = 0;  // allocated, or freed and still used by another stream
  size_t requested = 0;
  std::vector<BlockView> blocks{};  // by address; they cover the segment

  void add(BlockView block) {
    total += block.size;
    if (block.state == BlockView::kAllocated) allocated += block.size;
    if (block.state != BlockView::kInactive) active += block.size;
    requested += block.requested;
    blocks.push_back(std::move(block));
  }
};

}  // namespace torch_npu
