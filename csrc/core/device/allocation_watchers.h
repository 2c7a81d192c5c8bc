// A counter of the reasons for which an allocation must look beyond the free blocks of its stream: the memory history is
// recorded, a thread uses a memory pool, or a capture is open.
//
//   ++detail::allocation_watchers;                    // a reason begins; the same code decrements it when the reason ends
//   if (watches_allocations()) ...
//
// While the counter is 0 an allocation pays one load for all of them. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace torch_npu {

namespace detail {

extern constinit std::atomic<uint32_t> allocation_watchers;

}  // namespace detail

inline bool watches_allocations() { return detail::allocation_watchers.load(std::memory_order_relaxed) != 0; }

}  // namespace torch_npu
