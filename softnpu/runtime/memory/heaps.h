// The heaps that this process has opened, by device.
//
//   Heaps::add(host_number, number, heap);                   // by a device, when it opens its heap
//   const Heaps::Owner owner = Heaps::find(address);         // owner.heap is null where the device was never used
//
// Thread-safe; find() takes no lock and may be called in a signal handler.
#pragma once

#include <array>
#include <atomic>

#include "runtime/engine/arena.h"
#include "runtime/memory/heap.h"

namespace softnpu {

class Heaps {
 public:
  struct Owner {
    Heap* heap = nullptr;
    int number = 0;  // of the device, as this process counts; 0 without a heap
  };

  // Once per device. `heap` lives until the process ends. `host_number` is the device's number as the host counts.
  static void add(int host_number, int number, Heap& heap) {
    Entry& entry = entries_[static_cast<size_t>(host_number)];
    entry.number.store(number, std::memory_order_relaxed);
    entry.heap.store(&heap, std::memory_order_release);
  }

  // The device in whose span `address` lies. The arena must contain `address`.
  static Owner find(const void* address) {
    const Entry& entry = entries_[static_cast<size_t>(Arena::device_of(address))];
    Heap* const heap = entry.heap.load(std::memory_order_acquire);
    return {heap, entry.number.load(std::memory_order_relaxed)};
  }

 private:
  struct Entry {
    std::atomic<Heap*> heap;
    std::atomic<int> number;
  };
  static inline constinit std::array<Entry, Arena::kMaxDevices> entries_{};
};

}  // namespace softnpu
