// Device memory that other processes use: what torch.multiprocessing sends of a storage on npu, and what it makes of that.
//
//   SentStorage sent = send_storage(*storage);              // travels as it is
//   c10::Storage same = receive_storage(sent);              // in the other process: the same memory
//
// The sender's memory stays until every receiver has let go of it, also when the sender itself frees it: then it waits, and goes
// back to the allocator with the next send or collect_sent_memory() that finds it unused, at the latest before an allocation
// would fail. A receiver lets go when its storage is freed and all work of its process is done, or when it dies: freeing the
// storage waits. Where that wait fails or is interrupted, and in a capture, the receiver lets go when it frees the next one, or
// in collect_sent_memory(). The work that the sender's current stream held when it sent is waited for by the receiver's current
// stream.
//
// Thread-safe. What a receiver has cannot be sent on, and cannot be resized.
#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/stream/stream.h"

namespace torch_npu {

struct SentStorage {
  c10::DeviceIndex device = 0;
  std::string key;    // of an allocation of the device; empty if there is no memory
  size_t bytes = 0;   // of the storage
  size_t offset = 0;  // of the storage in that allocation
  std::string words;  // SharedWords::handle()
  uint64_t ticket = 0;
  std::string event;  // to wait for; empty: nothing
};

C10_EXPORT SentStorage send_storage(c10::StorageImpl& storage);
// Throws if the sender has ended, or what was sent was received already.
C10_EXPORT c10::Storage receive_storage(const SentStorage& sent);
// For a receiver that has the storage already.
C10_EXPORT void drop_sent_storage(const std::string& words, uint64_t ticket);

// Frees what only other processes used and no longer do, and lets go of what this one has freed; throws if waiting for that
// fails. How many storages others still have, or were sent and did not receive.
C10_EXPORT size_t collect_sent_memory();

// What recordStream() of allocator.h needs: the memory that a pointer stood for before it was sent, or null.
const at::DataPtr* sent_memory_of(const at::DataPtr& pointer);

}  // namespace torch_npu
