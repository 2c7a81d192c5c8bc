#include "prof/record_loop.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <utility>

#include "prof/library.h"

namespace softnpu::prof {
namespace {

constexpr std::chrono::milliseconds kInterval{100};

void add_task(void* context, const SoftnpuTaskRecord* task) {
  auto& batch = *static_cast<Batch*>(context);
  batch.tasks.push_back({*task, batch.words.size()});
  batch.words.insert(batch.words.end(), task->tensors, task->tensors + task->words);
}
void add_call(void* context, const SoftnpuCallRecord* call) { static_cast<Batch*>(context)->calls.push_back(*call); }
void add_mark(void* context, const SoftnpuMarkRecord* mark) {
  static_cast<Batch*>(context)->marks.push_back({*mark, mark->text});
}

SoftnpuRecordVisitor visitor_of(Batch& batch) { return {&batch, add_task, add_call, add_mark}; }

// Starts a thread with all signals blocked, so that signal handlers of the program run on the program's threads.
template <typename Run>
std::thread start_thread(Run run) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

RecordLoop::RecordLoop(uint32_t what, std::function<void(const Batch&)> consume)
    : consume_(std::move(consume)), session_(profiler()->start(what)), process_(getpid()) {
  try {
    thread_ = start_thread([this] { run(); });
  } catch (...) {
    profiler()->stop(session_, nullptr, nullptr);
    throw;
  }
}

bool RecordLoop::is_of_this_process() const { return getpid() == process_; }

// A batch is dropped if there is no memory for it.
void RecordLoop::pass_on(const Batch& batch) {
  try {
    consume_(batch);
  } catch (const std::exception&) {
    lost_ += batch.tasks.size() + batch.calls.size() + batch.marks.size();
  }
}

void RecordLoop::run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    wake_.wait_for(lock, kInterval, [this] { return ends_; });
    if (ends_) break;
    lock.unlock();
    Batch batch;
    const SoftnpuRecordVisitor visitor = visitor_of(batch);
    profiler()->read(session_, &visitor);
    pass_on(batch);
    lock.lock();
  }
  lock.unlock();
  Batch batch;
  const SoftnpuRecordVisitor visitor = visitor_of(batch);
  profiler()->stop(session_, &visitor, &totals_);
  pass_on(batch);
  totals_.dropped += lost_;
}

SoftnpuRecordTotals RecordLoop::end() {
  {
    const std::lock_guard guard(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  return totals_;
}

}  // namespace softnpu::prof
