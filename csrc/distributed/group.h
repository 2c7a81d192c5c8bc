// The state of a process group that its operations share: communicators, counters, and the first failure.
//
//   const std::lock_guard lock(group->launch_lock());
//   group->check_usable("all_reduce");
//   const auto communicator = group->communicator(device);
//
// A group has one communicator per device that it was used with. The first failure ends the group: later operations throw it.
// Thread-safe, except for the functions that need launch_lock().
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "distributed/group_options.h"
#include "distributed/work.h"

namespace torch_npu::distributed {

// Messages that were issued between startCoalescing() and endCoalescing().
struct Batch {
  std::vector<HcclSendRecvItem> items;
  std::vector<at::Tensor> tensors;  // the tensors of `items`
  std::vector<at::Tensor> sent, received;
  std::vector<std::pair<int, bool>> directions;  // rank, and whether it is sent to
  c10::DeviceIndex device = -1;                  // -1: nothing was issued yet
  bool has_collectives = false;
  std::vector<c10::intrusive_ptr<BatchedWork>> works;  // one for each message
};

class Group {
 public:
  Group(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<GroupOptions> options);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The number of this process among all processes; `rank` if the options do not say it.
  int global_rank() const;
  std::string name() const;
  void set_name(const std::string& name);
  const std::string& description() const { return options_->group_desc; }
  // A text such as "rank 0 of 2 in group '0'".
  std::string describe() const;
  std::chrono::milliseconds timeout() const { return timeout_.load(); }
  void set_timeout(std::chrono::milliseconds timeout) { timeout_.store(timeout); }
  c10d::Store& store() { return *store_; }

  // Held while an operation or a replay is launched. A replay locks it once per order that it takes part in.
  std::recursive_mutex& launch_lock() { return launch_lock_; }
  // The caller holds launch_lock() for these functions.
  void check_usable(const char* op) const;
  // Connects the ranks at the first call for a device. Throws if they do not come.
  std::shared_ptr<Communicator> communicator(c10::DeviceIndex device);
  std::shared_ptr<Communicator> split(c10::DeviceIndex device, const std::vector<uint32_t>& ranks, uint32_t rank, Group& child);
  std::optional<Batch>& batch() { return batch_; }
  uint64_t next_collective() { return ++collectives_; }
  uint64_t next_message() { return ++messages_; }

  // For a group without a communicator of this device.
  void adopt(std::shared_ptr<Communicator> communicator);
  std::vector<std::shared_ptr<Communicator>> communicators() const;
  // A stream whose later work waits for collectives of the group: it fails with them.
  void add_waiter(NPUStream stream);
  uint64_t launched() const { return collectives_.load(); }
  uint64_t next_barrier() { return ++barriers_; }

  // The first call wins.
  void fail(const std::string& reason, c10d::ErrorType type);
  bool has_failed() const { return error() != c10d::ErrorType::SUCCESS; }
  c10d::ErrorType error() const { return error_.load(); }
  std::string failure() const;
  // Destroys the communicators. What still runs on them fails; the error of the stream then has `reason`.
  void abort(const std::string& reason);
  // Waits for what was launched, then destroys the communicators. A failure that no call has reported yet becomes a warning.
  void shutdown();
  void wait();
  // Forgets failures. With `rebuild`, communicators are destroyed, and the ranks connect again when one is needed. Without it,
  // throws if the group has failed. All ranks must call it.
  void reinit(bool rebuild);

  // Writes this rank's text to the store, waits for a moment for those of the others, and returns them all as a text.
  std::string compare_ranks(const std::string& text);

 private:
  void wait_to_leave();
  // Takes the failure of this group from the streams that waited for it, so that other work can use them.
  void take_failures();

  // A new key for the meeting of the ranks, the same on all ranks.
  std::string next_meeting() { return c10::str(generation_.load(), ".", meetings_++); }
  Communicator::Settings settings(const std::string& key) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_, size_;
  const c10::intrusive_ptr<GroupOptions> options_;
  std::atomic<std::chrono::milliseconds> timeout_;

  std::recursive_mutex launch_lock_;
  std::optional<Batch> batch_;
  uint64_t meetings_ = 0;                // communicators since reinit()
  std::atomic<uint64_t> generation_{0};  // calls of reinit()
  std::atomic<uint64_t> collectives_{0}, messages_{0}, barriers_{0};

  mutable std::mutex mutex_;  // protects the fields below
  std::string name_;
  std::map<c10::DeviceIndex, std::shared_ptr<Communicator>> communicators_;
  std::vector<NPUStream> waiters_;
  std::string failure_;
  bool is_closed_ = false;
  std::atomic<c10d::ErrorType> error_{c10d::ErrorType::SUCCESS};
};

}  // namespace torch_npu::distributed
