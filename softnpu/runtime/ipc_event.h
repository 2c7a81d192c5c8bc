// The part of an event that several processes share: a page of memory with two counters.
//
// record: the recording process takes the next number when the call is made and, when its stream gets there, marks that number as
// done. wait: a process reads the newest number when the call is made and waits until it is done. So a waiter is bound to the
// record that was newest when it called, whichever process made it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "acl/acl_rt.h"
#include "runtime/status.h"

namespace softnpu {

// Thread-safe. The memory lives as long as any process has it open; a process that dies before its stream got there leaves its
// record pending.
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

  uint64_t begin_record() { return page_->recorded.fetch_add(1, std::memory_order_acq_rel) + 1; }
  void finish_record(uint64_t record);
  uint64_t newest_record() const { return page_->recorded.load(std::memory_order_acquire); }
  bool reached(uint64_t record) const { return page_->done.load(std::memory_order_acquire) >= record; }

  // A task that names this event keeps it alive: it holds the released pointer of a Ref of its own.
  Ref share() {
    references_.fetch_add(1, std::memory_order_relaxed);
    return Ref(this);
  }

 private:
  struct Page {
    uint64_t magic;
    uint64_t token;
    std::atomic<uint64_t> recorded;
    std::atomic<uint64_t> done;
  };
  IpcEvent(Page* page, int fd) : page_(page), fd_(fd) {}
  ~IpcEvent();

  Page* page_;
  int fd_;  // -1 unless this process created it
  std::atomic<uint32_t> references_{1};
};

}  // namespace softnpu
