#include "runtime/stream/task_queue.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <thread>

#include "runtime/base/log.h"
#include "runtime/base/message.h"
#include "runtime/base/options.h"
#include "runtime/base/origin.h"
#include "runtime/checks/races.h"
#include "runtime/stream/running_task.h"
#include "runtime/stream/shuffle.h"
#include "runtime/stream/task_times.h"
#include "runtime/stream/thread_state.h"

namespace softnpu {
namespace {

constexpr int kSpinsBeforeSleep = 60;  // about half a microsecond: a longer spin takes the core from those who compute
constexpr int kHelpDepth = 4;
constexpr std::chrono::microseconds kWorthTiming{100};  // shorter tasks are timed by those alone who have little time
constexpr std::chrono::microseconds kShortestPoll{20};
constexpr std::chrono::microseconds kLongestPoll{1000};

constexpr std::string_view kWaitedFor = "the stream that was waited for failed: ";

std::atomic<bool> g_exiting{false};
std::atomic<int> g_workers{0};

struct WaitPayload {
  QueueMark mark;
  std::chrono::seconds timeout;
  WaitOver over;
};

bool wait_is_ready(const void* payload) {
  const QueueMark& mark = static_cast<const WaitPayload*>(payload)->mark;
  return mark.queue->reached(mark.ticket);
}

aclError run_wait(void* payload, char* message) {
  const QueueMark& mark = static_cast<const WaitPayload*>(payload)->mark;
  if (!mark.queue->has_failed()) [[likely]]
    return ACL_SUCCESS;
  const Status failure = mark.queue->failure_before(mark.ticket);
  // Where streams wait for each other in a row, the first failure is told, not how it came here.
  const std::string& told = failure.message();
  const size_t begin = told.find(kWaitedFor);
  write_message(message, begin == std::string::npos ? text(kWaitedFor, told) : told.substr(begin, told.rfind(" (") - begin));
  return failure.code();
}

void end_wait(void* payload) {
  const WaitOver& over = static_cast<const WaitPayload*>(payload)->over;
  if (over.call != nullptr) over.call(over.object, over.generation);
}

constexpr SoftnpuTaskKind kWaitKind = {
    .name = "aclrtStreamWaitEvent", .run = run_wait, .release = end_wait, .ready = wait_is_ready, .flags = 0, .visit = nullptr};

bool shuffles() { return options().launch == LaunchMode::kShuffle; }

bool is_ready(const SoftnpuTaskKind& kind, const void* payload) { return kind.ready == nullptr || kind.ready(payload); }

// Whether a thread that waits until `deadline` may run a task meanwhile. Of a kind and size that was never timed it does not
// know: the worker takes the first one. Tasks without a cost are marks and waits of the runtime itself.
bool leaves_time(Deadline deadline, const SoftnpuTaskKind& kind, uint64_t cost) {
  if (deadline.is_never()) return true;
  const std::chrono::nanoseconds expected = cost == 0 ? std::chrono::nanoseconds(0) : TaskTimes::expected(kind, cost);
  if (expected == TaskTimes::kUnknown) return false;
  return Deadline::Clock::now() + 2 * expected < deadline.at();
}

void release(const SoftnpuTaskKind& kind, void* payload) {
  if (kind.release != nullptr) kind.release(payload);
}

}  // namespace

// Links a waiter for as long as it is in scope.
class TaskQueue::LinkedWaiter {
 public:
  LinkedWaiter(TaskQueue& queue, Ticket ticket, Signal& signal) : queue_(queue), waiter_{.ticket = ticket, .signal = &signal} {
    std::lock_guard guard(queue_.waiters_lock_);
    waiter_.next = queue_.waiters_;
    if (queue_.waiters_ != nullptr) queue_.waiters_->previous = &waiter_;
    queue_.waiters_ = &waiter_;
    queue_.waiter_count_.fetch_add(1, std::memory_order_seq_cst);
  }
  ~LinkedWaiter() {
    std::lock_guard guard(queue_.waiters_lock_);
    (waiter_.previous != nullptr ? waiter_.previous->next : queue_.waiters_) = waiter_.next;
    if (waiter_.next != nullptr) waiter_.next->previous = waiter_.previous;
    queue_.waiter_count_.fetch_sub(1, std::memory_order_seq_cst);
  }
  LinkedWaiter(const LinkedWaiter&) = delete;
  LinkedWaiter& operator=(const LinkedWaiter&) = delete;

 private:
  TaskQueue& queue_;
  Waiter waiter_;
};

// Tells the observer when tasks run and when they do not.
class TaskQueue::Activity {
 public:
  explicit Activity(Observer& observer) : observer_(observer) {}
  ~Activity() { set(false); }
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  void set(bool runs) {
    if (runs == runs_) return;
    runs_ = runs;
    observer_.running(runs);
  }

 private:
  Observer& observer_;
  bool runs_ = false;
};

void TaskQueue::open(Observer& observer, uint32_t number, uint32_t priority) {
  std::lock_guard order(submit_lock_);
  std::lock_guard guard(failure_lock_);
  if (observer_ != &observer) {  // the first time: then neither changes any more, and others may read them
    observer_ = &observer;
    number_ = number;
  }
  priority_ = priority;
  const Ticket life = tail_.load(std::memory_order_relaxed) + 1;
  head_.store(life, std::memory_order_release);  // in this order, as run_inline() does
  tail_.store(life, std::memory_order_release);
  life_.store(life, std::memory_order_release);
  skip_until_.store(0, std::memory_order_relaxed);
  closing_.store(false, std::memory_order_relaxed);
  failure_ = Status();
  stopped_ = false;
  closed_ = false;
  if (shuffles()) shuffle().enter(*this);
}

template <typename TakeTicket>
[[gnu::always_inline]] inline Status TaskQueue::submit_task(const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                                                            uint64_t cost, TakeTicket take_ticket) {
  const Options& settings = options();
  const LaunchMode mode = settings.launch;
  const bool may_run_here = mode == LaunchMode::kHybrid && cost <= kInlineCost && !(kind.flags & SOFTNPU_TASK_ON_WORKER);
  const bool races_are_checked = settings.race_check != RaceCheck::kOff;
  const std::string* origin = races_are_checked && kind.visit != nullptr ? races().origin() : nullptr;
  submit_lock_.lock();
  Ticket ticket = 0;
  bool is_another_life = false;
  for (;;) {
    if (closed_ || is_another_life || g_exiting.load(std::memory_order_relaxed)) [[unlikely]] {
      submit_lock_.unlock();
      return {ACL_ERROR_RT_INVALID_HANDLE,
              text("'", kind.name, "' came too late: its stream is being destroyed or the process is exiting")};
    }
    const Ticket before = tail_.load(std::memory_order_relaxed);
    ticket = before + 1;
    if (before - known_head_ < kCapacity) [[likely]]
      break;
    known_head_ = head_.load(std::memory_order_acquire);
    if (before - known_head_ < kCapacity) break;
    const Ticket life = life_.load(std::memory_order_relaxed);
    submit_lock_.unlock();
    if (const Status status = check_may_wait(); !status.ok()) {
      return {status.code(), text("'", kind.name, "' finds ", kCapacity, " tasks pending on the stream: ", status.message(),
                                  "; launch fewer tasks in a callback")};
    }
    wait(before + 1 - kCapacity, Deadline::never());
    submit_lock_.lock();
    is_another_life = life_.load(std::memory_order_relaxed) != life;
  }
  take_ticket(ticket);
  if (races_are_checked) [[unlikely]] {
    Status status = races().admit(number_, ticket, kind, payload, origin);
    if (!status.ok()) {
      submit_lock_.unlock();
      return status;
    }
  }
  if (may_run_here && head_.load(std::memory_order_acquire) == ticket - 1 && is_ready(kind, payload)) {
    run_inline(kind, payload, ticket);
    return {};
  }
  if (!worker_exists_) [[unlikely]] {
    if (Status status = start_worker(); !status.ok()) {
      submit_lock_.unlock();
      return status;
    }
  }
  Task& task = ring_[(ticket - 1) % kCapacity];
  task.kind = &kind;
  task.cost = cost;
  std::memcpy(task.payload, payload, bytes);
  tail_.store(ticket, std::memory_order_seq_cst);
  submit_lock_.unlock();
  if (mode == LaunchMode::kShuffle) {
    if (kind.flags & SOFTNPU_TASK_ON_WORKER) worker_signal_.raise();
    shuffle().task_added();
    return {};
  }
  // Whoever runs tasks now looks at the tail again before it stops.
  if (!running_.load(std::memory_order_seq_cst)) worker_signal_.raise();
  if (mode == LaunchMode::kSync && check_may_wait().ok()) wait(ticket, Deadline::never());
  return {};
}

// Twice: the usual one does not pay for the ticket.
Status TaskQueue::submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost) {
  return submit_task(kind, payload, bytes, cost, [](Ticket) {});
}

Status TaskQueue::submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost, Ticket& ticket) {
  return submit_task(kind, payload, bytes, cost, [&](Ticket given) { ticket = given; });
}

// The ticket is not published before the task is done: no runner's role and no wake-up is needed.
void TaskQueue::run_inline(const SoftnpuTaskKind& kind, const void* payload, Ticket ticket) {
  void* const arguments = const_cast<void*>(payload);
  char message[SOFTNPU_TASK_MESSAGE];
  message[0] = '\0';
  aclError code = ACL_SUCCESS;
  if (!skips(kind, ticket)) {
    const RunningTask running(kind);
    code = kind.run(arguments, message);
  }
  const auto publish = [&] {
    release(kind, arguments);
    head_.store(ticket, std::memory_order_release);  // first: where it lies behind the tail there is nothing to run
    tail_.store(ticket, std::memory_order_release);
    submit_lock_.unlock();
  };
  if (code == ACL_SUCCESS) [[likely]]
    return publish();
  const rtExceptionInfo info = note_failure(kind, ticket, code, message);
  publish();
  // A wait tells the failure of another task, which was launched elsewhere.
  if (&kind != &kWaitKind) add_origin(ticket, client_origin(SOFTNPU_ORIGIN_FAILURES));
  report_exception(info);  // last: the client's function may destroy the stream, whose slot is reused
}

Status TaskQueue::submit_wait(QueueMark mark, std::chrono::seconds timeout, WaitOver over) {
  const WaitPayload payload{mark, timeout, over};
  return submit(kWaitKind, &payload, sizeof payload, 0);
}

void TaskQueue::run_timed(Task& task, Ticket ticket, bool always) {
  const SoftnpuTaskKind& kind = *task.kind;
  const bool is_timed =
      task.cost != 0 && !(kind.flags & SOFTNPU_TASK_ON_WORKER) && (always || TaskTimes::expected(kind, task.cost) > kWorthTiming);
  if (!is_timed) return run(kind, task.payload, ticket);
  const auto begin = Deadline::Clock::now();
  run(kind, task.payload, ticket);
  TaskTimes::note(kind, task.cost, Deadline::Clock::now() - begin);
}

void TaskQueue::run(const SoftnpuTaskKind& kind, void* payload, Ticket ticket) {
  char message[SOFTNPU_TASK_MESSAGE];
  message[0] = '\0';
  running_kind_.store(&kind, std::memory_order_relaxed);
  const RunningTask running(kind);
  const aclError code = kind.run(payload, message);
  if (code != ACL_SUCCESS) [[unlikely]]
    fail(kind, ticket, code, message);
}

rtExceptionInfo TaskQueue::note_failure(const SoftnpuTaskKind& kind, Ticket ticket, aclError code, const char* message) {
  const Status status(code, text("task '", kind.name, "' failed: ", message, " (", observer_->place(), ", task ", ticket, ")"));
  {
    std::lock_guard guard(failure_lock_);
    if (failure_.ok()) {
      failure_ = status.copy();
      failure_ticket_ = ticket;
      skip_until_.store(kSkipAll, std::memory_order_seq_cst);
    }
  }
  return observer_->task_failed(kind, ticket, status);
}

void TaskQueue::add_origin(Ticket ticket, const std::string& origin) {
  if (origin.empty()) return;
  std::lock_guard guard(failure_lock_);
  if (failure_.ok() || failure_ticket_ != ticket) return;
  std::string message = failure_.message();
  message.pop_back();  // the bracket behind the place
  failure_ = Status(failure_.code(), text(message, ", launched from ", origin, ")"));
}

void TaskQueue::fail(const SoftnpuTaskKind& kind, Ticket ticket, aclError code, const char* message) {
  const rtExceptionInfo info = note_failure(kind, ticket, code, message);
  const ClientCall client(*this);
  report_exception(info);
}

void TaskQueue::finish(Ticket ticket) {
  head_.store(ticket, std::memory_order_seq_cst);
  if (waiter_count_.load(std::memory_order_seq_cst) == 0) [[likely]]
    return;
  std::lock_guard guard(waiters_lock_);
  for (Waiter* waiter = waiters_; waiter != nullptr; waiter = waiter->next) {
    if (waiter->ticket <= ticket) waiter->signal->raise();
  }
}

void TaskQueue::stop_running(Runner runner) {
  running_.store(false, std::memory_order_seq_cst);
  if (runner == Runner::kWorker) return;  // it looks for more itself
  if (has_pending() || closing_.load(std::memory_order_seq_cst)) worker_signal_.raise();
}

bool TaskQueue::drain(Runner runner, Ticket target, Deadline deadline, QueueMark* blocker) {
  Activity activity(*observer_);
  for (;;) {
    Ticket done = 0;
    if (!has_pending(&done) || done >= target || is_exiting()) return true;
    const Ticket ticket = done + 1;
    Task& task = ring_[done % kCapacity];
    const SoftnpuTaskKind& kind = *task.kind;
    if (!skips(kind, ticket)) {
      if (runner == Runner::kWorker && shuffles() && !is_for_worker(task) && !closing_.load(std::memory_order_relaxed))
        return false;
      const bool ready = is_ready(kind, task.payload);
      if (runner == Runner::kHelper && (!ready || (kind.flags & SOFTNPU_TASK_ON_WORKER))) {
        if (&kind == &kWaitKind) *blocker = reinterpret_cast<WaitPayload*>(task.payload)->mark;
        return false;
      }
      if (!leaves_time(deadline, kind, task.cost)) return false;
      activity.set(ready);
      if (ready || await_ready(task, ticket)) {
        run_timed(task, ticket, !deadline.is_never());
      } else if (is_exiting()) {
        return true;  // what it waits for was not reached: the task stays pending, and nobody takes it for done
      }
    }
    release(kind, task.payload);
    finish(ticket);
  }
}

bool TaskQueue::is_for_worker(const Task& task) {
  if (task.kind->flags & SOFTNPU_TASK_ON_WORKER) return true;
  return task.kind == &kWaitKind && reinterpret_cast<const WaitPayload*>(task.payload)->timeout.count() != 0;
}

bool TaskQueue::begin_step() {
  if (idle() || is_exiting() || !try_become_runner()) return false;
  Ticket done = 0;
  const bool has_task = has_pending(&done);
  const Task& task = ring_[done % kCapacity];
  if (has_task && skips(*task.kind, done + 1)) return true;
  const bool is_for_worker = has_task && TaskQueue::is_for_worker(task);
  if (has_task && !is_for_worker && is_ready(*task.kind, task.payload)) return true;
  running_.store(false, std::memory_order_seq_cst);
  if (is_for_worker || closing_.load(std::memory_order_seq_cst)) worker_signal_.raise();
  return false;
}

void TaskQueue::finish_step() {
  QueueMark unused;
  drain(Runner::kHelper, head_.load(std::memory_order_relaxed) + 1, Deadline::never(), &unused);
  running_.store(false, std::memory_order_seq_cst);
  if (closing_.load(std::memory_order_seq_cst)) worker_signal_.raise();
}

void TaskQueue::poll() {
  if (shuffles()) shuffle().step();
}

bool TaskQueue::await_ready(const Task& task, Ticket ticket) {
  const auto skipped = [&] { return skips(*task.kind, ticket) || g_exiting.load(std::memory_order_relaxed); };
  if (task.kind == &kWaitKind) {
    const auto& payload = *reinterpret_cast<const WaitPayload*>(task.payload);
    const Deadline deadline = payload.timeout.count() == 0 ? Deadline::never() : Deadline::after(payload.timeout);
    LinkedWaiter waiter(*payload.mark.queue, payload.mark.ticket, worker_signal_);
    while (!wait_is_ready(&payload) && !skipped()) {
      if (deadline.passed()) {
        const std::string message =
            text("the event was not reached within the ", payload.timeout.count(), " s set by aclrtSetOpWaitTimeout");
        fail(*task.kind, ticket, ACL_ERROR_RT_WAIT_TIMEOUT, message.c_str());
        return false;
      }
      worker_signal_.wait(deadline);
    }
    return !skipped();
  }
  auto pause = kShortestPoll;  // nobody tells when memory changes or another process is ready: look less and less often
  while (!task.kind->ready(task.payload) && !skipped()) {
    worker_signal_.wait(Deadline::after(pause));
    pause = std::min(pause * 2, kLongestPoll);
  }
  return !skipped();
}

bool TaskQueue::wait(Ticket ticket, Deadline deadline) {
  if (reached(ticket)) return true;
  if (shuffles()) return wait_shuffling(ticket, deadline);
  if (wait_helping(ticket, deadline, 0)) return true;
  for (int spin = 0; spin < kSpinsBeforeSleep; ++spin) {
    if (reached(ticket)) return true;
    cpu_relax();
  }
  wait_sleeping(ticket, deadline);
  return reached(ticket);
}

bool TaskQueue::wait_shuffling(Ticket ticket, Deadline deadline) {
  while (!reached(ticket) && !deadline.passed() && !g_exiting.load(std::memory_order_relaxed)) {
    if (shuffle().step()) continue;
    const Deadline soon = Deadline::after(kLongestPoll);  // what holds the streams may be outside of all of them
    wait_sleeping(ticket, deadline.at() < soon.at() ? deadline : soon);
  }
  return reached(ticket);
}

// False when the rest is up to another thread.
bool TaskQueue::wait_helping(Ticket ticket, Deadline deadline, int depth) {
  while (!reached(ticket)) {
    if (is_exiting() || !try_become_runner()) return false;
    QueueMark blocker{};
    const bool drained = drain(Runner::kHelper, ticket, deadline, &blocker);
    stop_running(Runner::kHelper);
    if (drained) continue;
    if (blocker.queue == nullptr || depth == kHelpDepth) return false;
    if (!blocker.queue->wait_helping(blocker.ticket, deadline, depth + 1)) return false;
  }
  return true;
}

void TaskQueue::wait_sleeping(Ticket ticket, Deadline deadline) {
  Signal signal;
  LinkedWaiter waiter(*this, ticket, signal);
  while (!reached(ticket) && !deadline.passed() && !g_exiting.load(std::memory_order_relaxed)) signal.wait(deadline);
}

// Once the process exits, a runner that is not at this task yet does not start it.
void TaskQueue::wait_while_running(Ticket ticket) const {
  while (finished() + 1 == ticket && running_.load(std::memory_order_seq_cst)) std::this_thread::yield();
}

Status TaskQueue::take_failure(Ticket ticket) {
  if (!has_failed()) [[likely]]
    return {};
  std::lock_guard guard(failure_lock_);
  if (failure_.ok() || failure_ticket_ > ticket) return {};
  if (stopped_) return failure_.copy();
  skip_until_.store(tail_.load(std::memory_order_seq_cst), std::memory_order_seq_cst);
  return std::exchange(failure_, Status());
}

Status TaskQueue::failure_before(Ticket ticket) const {
  std::lock_guard guard(failure_lock_);
  return failure_ticket_ <= ticket ? failure_.copy() : Status();
}

// With submit_lock_ and failure_lock_ held.
void TaskQueue::note_abort(aclError reason) {
  const Ticket done = head_.load(std::memory_order_acquire);
  const Ticket newest = tail_.load(std::memory_order_relaxed);
  if (done >= newest) return;
  const uint32_t number = aborts_.load(std::memory_order_relaxed) + 1;
  newest_aborts_[number % newest_aborts_.size()] = {done + 1, newest, reason};
  aborts_.store(number, std::memory_order_seq_cst);
}

aclError TaskQueue::abort_reason(Ticket ticket, uint32_t since) const {
  std::lock_guard guard(failure_lock_);
  const uint32_t count = aborts_.load(std::memory_order_relaxed);
  const uint32_t known = std::min<uint32_t>(count - since, uint32_t(newest_aborts_.size()));
  for (uint32_t i = 0; i < known; ++i) {
    const Abort& abort = newest_aborts_[(count - i) % newest_aborts_.size()];
    if (ticket >= abort.first && ticket <= abort.last) return abort.reason;
  }
  return ACL_SUCCESS;
}

Ticket TaskQueue::skip_pending(aclError reason, Ticket life) {
  Ticket newest = 0;
  {
    std::lock_guard order(submit_lock_);
    std::lock_guard guard(failure_lock_);
    if (closed_ || life_.load(std::memory_order_relaxed) != life) return 0;
    newest = tail_.load(std::memory_order_relaxed);
    if (!has_failed()) skip_until_.store(newest, std::memory_order_seq_cst);
    note_abort(reason);
  }
  worker_signal_.raise();
  return newest;
}

void TaskQueue::stop(const Status& reason, Ticket life) {
  {
    std::lock_guard guard(failure_lock_);
    if (life_.load(std::memory_order_relaxed) != life) return;
    stopped_ = true;
    failure_ = reason.copy();
    failure_ticket_ = life;
    skip_until_.store(kSkipAll, std::memory_order_seq_cst);
  }
  worker_signal_.raise();
}

Status TaskQueue::stop_reason() const {
  std::lock_guard guard(failure_lock_);
  return stopped_ ? failure_.copy() : Status();
}

Status TaskQueue::start_worker() {
  if (ring_ == nullptr) ring_.reset(new Task[kCapacity]);
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  // Signals belong to the client's threads, but the faults of a task to the thread that runs it: blocked, they would end the
  // process past every handler.
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
  if (shuffles()) worker_signal_.wait();  // the order of tasks must not depend on when this thread starts
  while (!g_exiting.load(std::memory_order_seq_cst)) {
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
  // Without a worker nothing was queued: at most a thread that helped is about to give up its role.
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

void TaskQueue::begin_exit() { g_exiting.store(true, std::memory_order_seq_cst); }

// Who links itself after this has seen the lock, and so sees that the process exits.
void TaskQueue::wake_for_exit() {
  worker_signal_.raise();
  std::lock_guard guard(waiters_lock_);
  for (Waiter* waiter = waiters_; waiter != nullptr; waiter = waiter->next) waiter->signal->raise();
}

bool TaskQueue::is_exiting() { return g_exiting.load(std::memory_order_relaxed); }
Status TaskQueue::check_not_exiting() {
  if (!g_exiting.load(std::memory_order_seq_cst)) [[likely]]
    return {};
  return {ACL_ERROR_RT_STREAM_ABORT, "the process is exiting; what is pending does not run any more"};
}

int TaskQueue::worker_count() { return g_workers.load(std::memory_order_seq_cst); }

}  // namespace softnpu
