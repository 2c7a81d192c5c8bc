// Records tasks, calls and marks while a session of runtime/profiler.h exists.
//
//   TaskRecord* record = records_tasks() ? begin_task(kind.name, device, stream, ticket) : nullptr;   // when it is submitted
//   if (record != nullptr) start_task(*record);
//   run(...);
//   if (record != nullptr) end_task(*record);                                                      // before it counts as done
//
// Each thread writes to its own buffer, in chunks. The lock of a buffer is used by its thread and by readers. A chunk is freed
// when all its tasks have ended and every session has read it or has stopped. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/profiler.h"

namespace softnpu {

// The stored record of a task. The queue writes `end` last and does not use the record after that.
struct TaskRecord {
  const char* name = nullptr;
  uint64_t enqueue = 0;
  uint64_t start = 0;  // 0 until the task starts
  std::atomic<uint64_t> end{0};
  uint64_t ticket = 0;
  uint64_t correlation = 0;
  uint64_t external = 0;
  uint64_t bytes = 0;
  int32_t device = 0;
  uint32_t stream = 0;
  uint32_t direction = 0;
  uint32_t first_word = 0;
  uint32_t words = 0;
  bool skipped = false;
};

namespace detail {
// The variable that SoftnpuProfiler::on points to.
inline constinit std::atomic<uint32_t> records_on{0};
void note_call(const char* name, uint64_t start);
}  // namespace detail

// Whether there is a session.
inline bool records_anything() { return (detail::records_on.load(std::memory_order_relaxed) & ~SOFTNPU_LOG_SIGNATURES) != 0; }
inline bool records_tasks() { return detail::records_on.load(std::memory_order_relaxed) & SOFTNPU_RECORD_TASKS; }
inline bool records_calls() { return detail::records_on.load(std::memory_order_relaxed) & SOFTNPU_RECORD_CALLS; }

uint64_t record_clock();

// Begins a record with the description of describe_next_task(). Null if the memory for records is full.
TaskRecord* begin_task(const char* name, int32_t device, uint32_t stream, uint64_t ticket);
inline void start_task(TaskRecord& record) {
  if (record.start == 0) record.start = record_clock();
}
// Ends the record. A task that has not started counts as skipped.
void end_task(TaskRecord& record);

void describe_next_task(uint64_t bytes, uint32_t direction, const int64_t* tensors, uint32_t words);
// Drops the description of describe_next_task(), for a task that is captured instead of submitted.
void forget_description();

// Records a call of the ABI, from the construction to the destruction.
class CallRecord {
 public:
  explicit CallRecord(const char* name) : name_(name) {
    if (records_calls()) [[unlikely]]
      start_ = record_clock();
  }
  ~CallRecord() {
    if (start_ != 0) [[unlikely]]
      detail::note_call(name_, start_);
  }
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

 private:
  const char* const name_;
  uint64_t start_ = 0;
};

}  // namespace softnpu
