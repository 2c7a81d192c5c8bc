// The part of an event that several processes share: a page of memory with two counters.
//
// record: the recording process takes the next number when the call is made and, when its stream gets there, marks that number as
// done. wait: a process reads the newest number when the call is made and waits until it is done. So a waiter is bound to the
// record that was newest when it called, whichever process made it.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "acl/acl_rt.h"
#include "runtime/base/status.h"

namespace softnpu {

// Thread-safe. The memory lives as long as any process has it open. A process that dies before its stream got there leaves its
// record pending; check_recorder() then says so to those who wait.
class IpcEvent {
 public:
  struct Release {
    void operator()(IpcEvent* event) const;
  };
  using Ref = std::unique_ptr<IpcEvent, Release>;

  static Result<Ref> create();
  // Opens the event of another process of the same user, or of this one. Fails if that process has ended or the handle was
  // tampered with.
  static Result<Ref> open(const aclrtIpcEventHandle& handle);
  IpcEvent(const IpcEvent&) = delete;
  IpcEvent& operator=(const IpcEvent&) = delete;

  // What another process passes to open(). Only in the process that created the event.
  Result<aclrtIpcEventHandle> handle() const;

  uint64_t begin_record();
  void finish_record(uint64_t record);
  uint64_t newest_record() const { return page_->recorded.load(std::memory_order_acquire); }
  bool reached(uint64_t record) const { return page_->done.load(std::memory_order_acquire) >= record; }

  // ACL_ERROR_RT_IPC_ERROR if the record is not reached and the process that made it has ended. Cheap enough to be asked in a
  // loop: it looks a few times a second.
  Status check_recorder(uint64_t record);
  // The two halves of it.
  bool recorder_ended(uint64_t record);
  Status loss_of(uint64_t record) const;

  // A task that names this event keeps it alive: it holds the released pointer of a Ref of its own.
  Ref share() {
    references_.fetch_add(1, std::memory_order_relaxed);
    return Ref(this);
  }

 private:
  // Who made a record; that of record n is at n % kRecorders, where a later one may have replaced it.
  struct Recorder {
    std::atomic<uint64_t> record;  // written last
    std::atomic<uint64_t> start_time;
    std::atomic<pid_t> pid;
  };
  static constexpr uint64_t kRecorders = 64;
  struct Page {
    uint64_t magic;
    uint64_t token;
    std::atomic<uint64_t> recorded;
    std::atomic<uint64_t> done;
    std::array<Recorder, kRecorders> recorders;
  };
  IpcEvent(Page* page, int fd) : page_(page), fd_(fd) {}
  ~IpcEvent();

  Page* page_;
  int fd_;  // -1 unless this process created it
  std::atomic<uint32_t> references_{1};
  std::atomic<int64_t> next_look_{0};     // for recorders, on the steady clock; 0 before the first wait
  std::atomic<uint64_t> lost_record_{0};  // the newest whose process was found to have ended
};

}  // namespace softnpu
