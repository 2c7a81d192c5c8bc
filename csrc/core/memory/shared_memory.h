// Sends storages in device memory to other processes: the messages of torch.multiprocessing.
//
//   SentStorage sent = send_storage(*storage);              // its members are the message
//   c10::Storage same = receive_storage(sent);              // in the other process: the same memory
//
// The sender's memory is kept until every receiver has released it. If the sender frees its storage earlier, the memory goes back
// to the allocator in the next send_storage() or collect_sent_memory() that finds it unused; the allocator calls the latter
// before an allocation fails.
//
// A receiver releases the memory when it frees its storage, after a wait for all work of its process, or when it dies. If the
// wait fails or is interrupted, and during a capture, the receiver releases it when it frees the next received storage or in
// collect_sent_memory().
//
// The receiver's current stream waits for the work that the sender's current stream had when it sent.
//
// Thread-safe. A received storage can be neither sent again nor resized.
#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/stream/stream.h"

namespace torch_npu {

struct SentStorage {
  c10::DeviceIndex device = 0;
  std::string key;            // IPC key of the device's allocation; empty for a storage of 0 bytes
  size_t bytes = 0;           // size of the storage
  size_t offset = 0;          // of the storage in the allocation
  std::string ticket_handle;  // IpcTickets::handle()
  uint64_t ticket = 0;
  std::string event;  // handle of the event that the receiver waits for; empty: none
};

C10_EXPORT SentStorage send_storage(c10::StorageImpl& storage);
// Throws if the sender has ended or the message was received already.
C10_EXPORT c10::Storage receive_storage(const SentStorage& sent);
// Releases a message without receiving it: the receiver has the storage already.
C10_EXPORT void drop_sent_storage(const std::string& ticket_handle, uint64_t ticket);

// Frees sent memory that the sender has freed and no receiver uses, and releases received memory that this process has freed.
// Throws if the wait for the latter fails. Returns the number of storages that receivers still use or have not received.
C10_EXPORT size_t collect_sent_memory();

// The memory that the pointer owned before it was sent; null if it was not sent. For recordStream() of allocator.h.
const at::DataPtr* sent_memory_of(const at::DataPtr& pointer);

}  // namespace torch_npu
