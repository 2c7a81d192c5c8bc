// A communicator of libhccl on one device, with the streams of its collectives and messages.
//
//   const auto communicator = Communicator::meet(*store, "0", group.rank(), group.size(), device, settings);
//   HCCL_CALL(HcclBarrier, communicator->handle(), stream);
//
// The ranks meet through the store: rank 0 writes where it listens, the others read it. destroy() may be called on any thread, at
// any time; libhccl then fails the operations that still run. The functions about streams are called with the lock of the group.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "acl/hccl.h"
#include "distributed/group_streams.h"
#include "distributed/stream_order.h"

namespace torch_npu::distributed {

class Communicator {
 public:
  struct Settings {
    HcclCommConfig config;
    bool high_priority = false;
    std::chrono::milliseconds timeout{0};  // of the store
  };

  // Blocks until all ranks have come. `key` is the same on all ranks and used once per store. Throws on every rank if rank 0
  // cannot listen.
  static std::shared_ptr<Communicator> meet(c10d::Store& store, const std::string& key, int rank, int size,
                                            c10::DeviceIndex device, const Settings& settings);
  // A communicator of some ranks of this one: of `ranks`, this is number `rank`. Called by these ranks only, all with the same
  // `id`. Blocks until they have come.
  std::shared_ptr<Communicator> split(const std::vector<uint32_t>& ranks, uint64_t id, uint32_t rank, const Settings& settings);

  Communicator(HcclComm handle, c10::DeviceIndex device, const Settings& settings);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  HcclComm handle() const { return handle_; }
  c10::DeviceIndex device() const { return device_; }
  // The name that libhccl uses in its messages.
  const std::string& name() const { return name_; }

  // The failure of this communicator or of another rank of it; HCCL_SUCCESS if there is none. Never throws.
  HcclResult error() const noexcept;
  // Later calls have no effect. Never throws.
  void destroy() noexcept;
  bool is_destroyed() const { return is_destroyed_.load(std::memory_order_acquire); }

  // Of collectives, of batches of messages, and of messages to or from one rank.
  NPUStream collective_stream() const { return collective_stream_.get(); }
  NPUStream batch_stream();
  NPUStream message_stream(int peer, bool is_send);
  StreamOrder& collective_order() { return collective_order_; }
  StreamOrder& message_order(int peer, bool is_send) { return messages_[{peer, is_send}].order; }

  // Waits for all operations. Throws the first failure. Can be interrupted.
  void wait() const;

 private:
  struct Messages {
    std::unique_ptr<GroupStream> stream;
    StreamOrder order;
  };

  HcclComm handle_;
  c10::DeviceIndex device_;
  bool high_priority_;
  std::string name_;
  std::atomic<bool> is_destroyed_{false};
  GroupStream collective_stream_;
  std::unique_ptr<GroupStream> batch_stream_;
  StreamOrder collective_order_;
  std::map<std::pair<int, bool>, Messages> messages_;  // by rank and direction
};

}  // namespace torch_npu::distributed
