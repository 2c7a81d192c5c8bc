// The worker thread of a task queue, closing a queue, and process exit.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/stream/shuffle.h"
#include "runtime/stream/task_queue.h"
#include "runtime/stream/thread_state.h"

namespace softnpu {
namespace {

std::atomic<int> g_workers{0};

}  // namespace

Status TaskQueue::start_worker() {
  if (ring_ == nullptr) ring_.reset(new Task[kCapacity]);
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  // Only threads of the client handle signals. Faults are not blocked: a blocked fault ends the process without calling a
  // handler.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  Status status;
  g_workers.fetch_add(1, std::memory_order_seq_cst);
  try {
    std::thread([this] { work(); }).detach();
    worker_exists_ = true;
  } catch (const std::system_error& error) {
    g_workers.fetch_sub(1, std::memory_order_seq_cst);
    status = {ACL_ERROR_RT_NO_STREAM_RESOURCE,
              text("no thread can be started for the stream (", error.what(), "); destroy streams or raise the limit")};
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  return status;
}

void TaskQueue::work() {
  char name[16];
  std::snprintf(name, sizeof name, "npu-stream-%u", number_ % 10000);
  pthread_setname_np(pthread_self(), name);
  thread_state().works_for = this;
  if (priority_ > 0) {
    const auto thread = id_t(syscall(SYS_gettid));
    setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + int(priority_));
  }
  if (shuffles()) worker_signal_.wait();  // the order of tasks must not depend on the start of this thread
  while (!exiting_.load(std::memory_order_seq_cst)) {
    const bool has_work = has_pending();
    if (has_work && try_become_runner()) {
      const bool drained = drain(Runner::kWorker, kSkipAll, Deadline::never(), nullptr);
      stop_running(Runner::kWorker);
      if (drained) continue;
    }
    if (!has_work && closing_.load(std::memory_order_seq_cst) && try_become_runner()) {
      running_.store(false, std::memory_order_seq_cst);
      finish_closing();
      break;
    }
    for (int spin = 0; spin < kSpinsBeforeSleep && !has_pending(); ++spin) cpu_relax();
    worker_signal_.wait();
  }
  g_workers.fetch_sub(1, std::memory_order_seq_cst);
}

void TaskQueue::close(void (*closed)(void*), void* argument) {
  bool has_worker = false;
  {
    std::lock_guard order(submit_lock_);
    std::lock_guard guard(failure_lock_);
    closed_ = true;
    closed_callback_ = closed;
    closed_argument_ = argument;
    skip_until_.store(kSkipAll, std::memory_order_seq_cst);
    note_abort(ACL_ERROR_RT_STREAM_ABORT);
    closing_.store(true, std::memory_order_seq_cst);
    has_worker = worker_exists_;
  }
  if (shuffles()) shuffle().leave(*this);
  if (has_worker) {
    worker_signal_.raise();
    return;
  }
  // Without a worker nothing was queued; at most a helping thread is about to reset running_.
  while (!try_become_runner()) std::this_thread::yield();
  running_.store(false, std::memory_order_seq_cst);
  finish_closing();
}

void TaskQueue::finish_closing() {
  void (*closed)(void*) = nullptr;
  void* argument = nullptr;
  {
    std::lock_guard order(submit_lock_);
    worker_exists_ = false;
    closed = std::exchange(closed_callback_, nullptr);
    argument = closed_argument_;
  }
  if (closed != nullptr) closed(argument);
}

void TaskQueue::begin_exit() { exiting_.store(true, std::memory_order_seq_cst); }

// A thread that links itself later takes the same lock after this call, and therefore sees exiting_.
void TaskQueue::wake_for_exit() {
  worker_signal_.raise();
  std::lock_guard guard(waiters_lock_);
  for (Waiter* waiter = waiters_; waiter != nullptr; waiter = waiter->next) waiter->signal->raise();
}

Status TaskQueue::check_not_exiting() {
  if (!exiting_.load(std::memory_order_seq_cst)) [[likely]]
    return {};
  return {ACL_ERROR_RT_STREAM_ABORT, "the process is exiting; what is pending does not run any more"};
}

int TaskQueue::worker_count() { return g_workers.load(std::memory_order_seq_cst); }

}  // namespace softnpu
