// A thread that reads the records of a session (runtime/profiler.h) and passes them to a function, until end().
//
//   RecordLoop loop(SOFTNPU_RECORD_TASKS, [&](const Batch& batch) { write(batch); });
//   ...
//   SoftnpuRecordTotals totals = loop.end();      // after the last batch
//
// The thread copies records under the lock of the recorder and passes them on without the lock. So launches hardly wait.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/profiler.h"

namespace softnpu::prof {

struct Batch {
  struct Task {
    SoftnpuTaskRecord record;  // do not use its pointer `tensors`
    size_t first_word;
  };
  struct Mark {
    SoftnpuMarkRecord record;  // do not use its pointer `text`
    std::string text;
  };

  const int64_t* tensors(const Task& task) const { return words.data() + task.first_word; }

  std::vector<Task> tasks;
  std::vector<int64_t> words;
  std::vector<SoftnpuCallRecord> calls;
  std::vector<Mark> marks;
};

class RecordLoop {
 public:
  // Only the thread of the loop calls `consume`.
  RecordLoop(uint32_t what, std::function<void(const Batch&)> consume);
  ~RecordLoop() { end(); }
  RecordLoop(const RecordLoop&) = delete;
  RecordLoop& operator=(const RecordLoop&) = delete;

  // Passes on the remaining records and ends the session. A second call returns the same totals.
  SoftnpuRecordTotals end();
  // False in a child of fork(). The thread and the records belong to the parent, so the child must not call end() or the
  // destructor.
  bool is_of_this_process() const;

 private:
  void run();
  void pass_on(const Batch& batch);

  const std::function<void(const Batch&)> consume_;
  const int64_t session_;
  const pid_t process_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;  // guarded by mutex_
  SoftnpuRecordTotals totals_{};
  uint64_t lost_ = 0;   // used by the thread
  std::thread thread_;  // the last member, because the thread uses the others
};

}  // namespace softnpu::prof
