#include "runtime/stream/task_queue.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "runtime/base/message.h"
#include "runtime/base/options.h"
#include "runtime/base/origin.h"
#include "runtime/base/running_task.h"
#include "runtime/checks/races.h"
#include "runtime/stream/shuffle.h"
#include "runtime/stream/task_times.h"
#include "runtime/stream/thread_state.h"

namespace softnpu {
namespace {

constexpr int kHelpDepth = 4;
constexpr std::chrono::microseconds kWorthTiming{100};  // shorter tasks are timed only by threads with a deadline
constexpr std::chrono::microseconds kShortestPoll{20};
constexpr std::chrono::microseconds kLongestPoll{1000};

constexpr std::string_view kWaitedFor = "the stream that was waited for failed: ";

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
  // In a chain of waiting streams the message has the first failure once, without the intermediate streams.
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

bool is_ready(const SoftnpuTaskKind& kind, const void* payload) { return kind.ready == nullptr || kind.ready(payload); }

// Whether a thread that waits until `deadline` may run a task. A task whose kind and size was never timed is left to the worker.
// Tasks without a cost are marks and waits of the runtime; they take no time.
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

// Links a waiter while the object exists.
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

// Calls the observer when tasks begin and stop running.
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
  if (observer_ != &observer) {  // at the first open(); constant afterwards, so that other threads may read them
    observer_ = &observer;
    number_ = number;
  }
  priority_ = priority;
  const Ticket life = tail_.load(std::memory_order_relaxed) + 1;
  head_.store(life, std::memory_order_release);  // head before tail, as in run_inline()
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
    if (closed_ || is_another_life || is_exiting()) [[unlikely]] {
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
  TaskRecord* record = nullptr;
  if (records_tasks()) [[unlikely]]
    record = begin_task(kind.name, observer_->device_number(), number_, ticket);
  if (may_run_here && head_.load(std::memory_order_acquire) == ticket - 1 && is_ready(kind, payload)) {
    run_inline(kind, payload, ticket, record);
    return {};
  }
  if (!worker_exists_) [[unlikely]] {
    if (Status status = start_worker(); !status.ok()) {
      submit_lock_.unlock();
      if (record != nullptr) end_task(*record);
      return status;
    }
  }
  Task& task = ring_[(ticket - 1) % kCapacity];
  task.kind = &kind;
  task.cost = cost;
  task.record = record;
  std::memcpy(task.payload, payload, bytes);
  tail_.store(ticket, std::memory_order_seq_cst);
  submit_lock_.unlock();
  if (mode == LaunchMode::kShuffle) {
    if (kind.flags & SOFTNPU_TASK_ON_WORKER) worker_signal_.raise();
    shuffle().task_added();
    return {};
  }
  // If running_ is set, the thread that runs tasks reads the tail again before it stops.
  if (!running_.load(std::memory_order_seq_cst)) worker_signal_.raise();
  if (mode == LaunchMode::kSync && check_may_wait().ok()) wait(ticket, Deadline::never());
  return {};
}

// Two instances, so that the common one does not store the ticket.
Status TaskQueue::submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost) {
  return submit_task(kind, payload, bytes, cost, [](Ticket) {});
}

Status TaskQueue::submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost, Ticket& ticket) {
  return submit_task(kind, payload, bytes, cost, [&](Ticket given) { ticket = given; });
}

// The ticket is not published until the task is done, so neither running_ nor a wake-up is needed.
void TaskQueue::run_inline(const SoftnpuTaskKind& kind, const void* payload, Ticket ticket, TaskRecord* record) {
  void* const arguments = const_cast<void*>(payload);
  char message[SOFTNPU_TASK_MESSAGE];
  message[0] = '\0';
  aclError code = ACL_SUCCESS;
  if (!skips(kind, ticket)) {
    const RunningTask running(kind);
    if (record != nullptr) [[unlikely]]
      record->start = record->enqueue;
    code = kind.run(arguments, message);
  }
  if (record != nullptr) [[unlikely]]
    end_task(*record);
  const auto publish = [&] {
    release(kind, arguments);
    head_.store(ticket, std::memory_order_release);  // before the tail, so that has_pending() stays false
    tail_.store(ticket, std::memory_order_release);
    submit_lock_.unlock();
  };
  if (code == ACL_SUCCESS) [[likely]]
    return publish();
  const rtExceptionInfo info = note_failure(kind, ticket, code, message);
  publish();
  // The failure of a wait is that of another task, which another call launched.
  if (&kind != &kWaitKind) add_origin(ticket, client_origin(SOFTNPU_ORIGIN_FAILURES));
  report_exception(info);  // last, because the callback may destroy the stream, and its slot may be reused
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
  if (runner == Runner::kWorker) return;  // the worker looks for more tasks itself
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
      if (task.record != nullptr) [[unlikely]]
        start_task(*task.record);
      if (ready || await_ready(task, ticket)) {
        run_timed(task, ticket, !deadline.is_never());
      } else if (is_exiting()) {
        return true;  // the task is not ready: it stays pending and does not count as done
      }
    }
    if (task.record != nullptr) [[unlikely]]
      end_task(*task.record);
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
  const auto skipped = [&] { return skips(*task.kind, ticket) || is_exiting(); };
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
  auto pause = kShortestPoll;  // polls with growing pauses: changes of memory or in other processes wake no thread
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
  while (!reached(ticket) && !deadline.passed() && !is_exiting()) {
    if (shuffle().step()) continue;
    const Deadline soon = Deadline::after(kLongestPoll);  // a stream may wait for something outside all streams
    wait_sleeping(ticket, deadline.at() < soon.at() ? deadline : soon);
  }
  return reached(ticket);
}

// False if another thread has to run the next task.
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
  while (!reached(ticket) && !deadline.passed() && !is_exiting()) signal.wait(deadline);
}

// After begin_exit() no thread starts the task. So it is enough to wait while it is the next one and running_ is set.
void TaskQueue::wait_while_running(Ticket ticket) const {
  while (finished() + 1 == ticket && running_.load(std::memory_order_seq_cst)) std::this_thread::yield();
}

}  // namespace softnpu
