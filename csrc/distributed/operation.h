// A collective or message that was launched: what it is, when it is done, and what became of it.
//
//   operation->describe()        // "all_reduce number 7 of float32 [2, 3]"
//
// Shared by the Work that the program has, by the watchdog and by the flight recorder. It keeps no tensors, except those that
// the device still uses and that hold() was given. Thread-safe, except for the fields, which do not change after the launch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "core/stream/event.h"
#include "distributed/communicator.h"

namespace torch_npu::distributed {

class Group;

class Operation {
 public:
  struct TensorNote {
    c10::ScalarType type;
    c10::DimVector sizes;
  };

  Operation(std::shared_ptr<Group> group, std::shared_ptr<Communicator> communicator, NPUStream stream, NPUStream caller)
      : group(std::move(group)), communicator(std::move(communicator)), stream(stream), caller(caller) {}

  std::shared_ptr<Group> group;
  std::shared_ptr<Communicator> communicator;
  NPUStream stream;
  NPUStream caller;  // the current stream of the call, which orders the reuse of the tensors' memory
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* name = "";  // such as "all_reduce"
  bool is_message = false;
  bool blocks_host = false;  // wait() returns when it is done
  bool is_captured = false;  // part of a graph: nothing was executed
  uint64_t sequence = 0;     // among the collectives, or the messages, of the group
  std::vector<TensorNote> inputs, outputs;
  std::chrono::milliseconds timeout{0};
  std::chrono::system_clock::time_point created = std::chrono::system_clock::now();
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();

  std::string describe() const;
  // Describes the rank and the group, too.
  std::string describe_fully() const;

  // Called once, when it was launched on `stream`.
  void mark_done() {
    done_.reset(take_event(stream.device_index(), Timing::kOff));
    record_event(*done_, stream);
  }
  // The later work of `other` starts after it.
  void block(NPUStream other) const { block_stream(*done_, other); }
  // Waits for a moment: true if it is done. Throws its failure if no call has reported that yet.
  bool wait_briefly() const;
  // Whether the device is done with it, successfully or not. False in a capture.
  bool is_done() const;
  // Whether it is done and its communicator has not failed. If the communicator fails before the watchdog has seen the success,
  // the operation counts as failed: the device does not say which operations succeeded before the failure.
  bool has_succeeded() const;
  // Whether it is done and failed, or was aborted. exception() then has the reason.
  bool has_failed() const { return exception() != nullptr; }
  std::exception_ptr exception() const;
  // The first call wins.
  void fail(std::exception_ptr exception);
  // Throws a c10::DistBackendError of describe_fully() and `reason`, after fail() with it.
  [[noreturn]] void fail_now(const std::string& reason);

  // Keeps tensors until release(): a stream other than `caller` uses them. Release them when `caller` waits for the operation or
  // the operation is done; otherwise their memory could be reused too early.
  void hold(std::vector<at::Tensor> tensors);
  void release();

  // The time when the watchdog saw the success; the epoch until then.
  std::chrono::system_clock::time_point found_done() const { return found_done_.load(); }
  void note_done() { found_done_.store(std::chrono::system_clock::now()); }

 private:
  struct ReturnEvent {
    void operator()(PooledEvent* event) const noexcept { return_event(event); }
  };

  std::unique_ptr<PooledEvent, ReturnEvent> done_;  // recorded on `stream` behind it
  mutable std::mutex mutex_;
  std::exception_ptr exception_;
  std::vector<at::Tensor> held_;
  std::atomic<std::chrono::system_clock::time_point> found_done_{};
};

}  // namespace torch_npu::distributed
