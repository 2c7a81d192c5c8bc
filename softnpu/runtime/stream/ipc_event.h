// The shared part of an event: a page of memory with two counters that several processes map.
//
//   const uint64_t record = event->begin_record();      // when aclrtRecordEvent is called
//   event->finish_record(record);                       // when the stream reaches that point
//   event->reached(event->newest_record());             // in any process
//
// A wait reads the newest number when it is called and waits until that number is done. So it waits for the record that was
// newest at the call, whichever process made it.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "acl/acl_rt.h"
#include "runtime/base/status.h"

namespace softnpu {

// Thread-safe. The memory exists as long as a process has it open. If a process ends before its stream reaches its record, the
// record stays pending, and check_recorder() fails for the processes that wait.
class IpcEvent {
 public:
  struct Release {
    void operator()(IpcEvent* event) const;
  };
  using Ref = std::unique_ptr<IpcEvent, Release>;

  static Result<Ref> create();
  // Opens the event of another process of the same user, or of this process. Fails if that process has ended or the handle is not
  // valid.
  static Result<Ref> open(const aclrtIpcEventHandle& handle);
  IpcEvent(const IpcEvent&) = delete;
  IpcEvent& operator=(const IpcEvent&) = delete;

  // The handle for open() in another process. Fails unless this process created the event.
  Result<aclrtIpcEventHandle> handle() const;

  uint64_t begin_record();
  void finish_record(uint64_t record);
  uint64_t newest_record() const { return page_->recorded.load(std::memory_order_acquire); }
  bool reached(uint64_t record) const { return page_->done.load(std::memory_order_acquire) >= record; }

  // ACL_ERROR_RT_IPC_ERROR if the record is not reached and the process that made it has ended. May be polled: it reads /proc at
  // most every 50 ms.
  Status check_recorder(uint64_t record);
  // The two parts of check_recorder().
  bool recorder_ended(uint64_t record);
  Status loss_of(uint64_t record) const;

  // Returns a new reference. Tasks keep one as a plain pointer, which their release function gives back.
  Ref share() {
    references_.fetch_add(1, std::memory_order_relaxed);
    return Ref(this);
  }

 private:
  // The process that made a record. That of record n is at n % kRecorders, unless a later record has replaced it.
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
  std::atomic<int64_t> next_look_{0};     // time of the next check of /proc, on the steady clock; 0 before the first wait
  std::atomic<uint64_t> lost_record_{0};  // the newest record whose process has ended
};

}  // namespace softnpu
