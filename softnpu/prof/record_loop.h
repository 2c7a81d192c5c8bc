// A thread that takes the records of a session of runtime/profiler.h and passes them on, until end().
//
//   RecordLoop loop(SOFTNPU_RECORD_TASKS, [&](const Batch& batch) { write(batch); });
//   ...
//   SoftnpuRecordTotals totals = loop.end();      // after the last batch
//
// Records are copied while the lock of the recorder is held, and passed on without it, so that launches hardly wait.
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
    SoftnpuTaskRecord record;  // its `tensors` is not valid
    size_t first_word;
  };
  struct Mark {
    SoftnpuMarkRecord record;  // its `text` is not valid
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
  // `consume` is called on the thread of the loop only.
  RecordLoop(uint32_t what, std::function<void(const Batch&)> consume);
  ~RecordLoop() { end(); }
  RecordLoop(const RecordLoop&) = delete;
  RecordLoop& operator=(const RecordLoop&) = delete;

  // Passes on the records up to now, and ends the session. A second call returns the same.
  SoftnpuRecordTotals end();
  // False in a forked child: the thread and the records belong to the parent, and the object must be neither ended nor destroyed.
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
  std::thread thread_;  // last: it uses the members above
};

}  // namespace softnpu::prof
