// The engine room of a stream: tasks in order, run by whoever is at hand.
//
//   queue.submit(kind, &payload, sizeof payload, cost);   // returns at once; a cheap task on an idle queue has run by then
//   queue.wait(queue.submitted(), Deadline::never());     // the waiting thread runs what is pending itself
//
// Every task gets the next number, its ticket; tasks finish in the order of their tickets, so "everything up to ticket n is done"
// is one comparison. That is all an event needs to remember (see event.h). Tickets keep growing when a queue is closed and opened
// again.
//
// At any time at most one thread runs tasks. Queued ones are run by the holder of the runner's role: the queue's own worker
// thread, or a thread that waits (it helps, but leaves to the worker what is marked SOFTNPU_TASK_ON_WORKER, and what may take
// longer than it has time, or is the first of its kind and size). While nothing is queued, the thread that submits a cheap task
// runs it, under the lock of the submitters. Order and results are the same for all three. The worker thread exists from the
// first task that it is needed for; it sleeps when there is nothing to do.
//
// A task that fails makes the queue skip everything submitted before the failure is taken with take_failure(). A queue that waits
// for a mark behind such a failure fails with it: what it would do next might use what the failed task did not make. The failure
// is noted before the task counts as done, so that no task behind it and no waiter can miss it.
//
// From open() to close() is a life of the queue; life() tells them apart. A ticket belongs to one life, so that waiting for it,
// or asking for failures before it, never concerns a later one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/futex.h"
#include "runtime/base/status.h"
#include "runtime/driver.h"
#include "runtime/stream/exception.h"

namespace softnpu {

using Ticket = uint64_t;

// A point in a queue's order. Reached when no queue is named.
struct QueueMark {
  class TaskQueue* queue = nullptr;
  Ticket ticket = 0;
};

// Called with its two values when a wait is over, passed or skipped.
struct WaitOver {
  void (*call)(void* object, uint32_t generation) = nullptr;
  void* object = nullptr;
  uint32_t generation = 0;
};

// Thread-safe. An instance lives for ever; it is opened and closed any number of times.
class TaskQueue {
 public:
  // Told on the thread that runs tasks.
  class Observer {
   public:
    // Which queue it is, such as "device 0, stream 3", for messages.
    virtual std::string place() const = 0;
    // The failure is noted already. Must not use the queue. Returns what the client is told, which happens later, without locks.
    virtual rtExceptionInfo task_failed(const SoftnpuTaskKind& kind, Ticket ticket, const Status& status) = 0;
    // Queued tasks begin or end to run, one after the other. Of those that run in the submitter's hands nothing is told.
    virtual void running(bool /*begins*/) {}

   protected:
    ~Observer() = default;
  };

  // `number` names the worker thread; `priority` 0 (highest) to 7 is added to its nice value.
  void open(Observer& observer, uint32_t number, uint32_t priority);

  // Refuses further tasks. Those still pending are skipped; the one that runs now finishes on its own time, and then, or at once
  // where none runs, `closed` is called with `argument`: until then the queue must not be opened again.
  void close(void (*closed)(void* argument), void* argument);

  // Appends a task. Blocks only while kCapacity tasks are pending; in a host callback it fails then. Fails after close() and
  // while the process exits.
  Status submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost);
  // The same, and says which ticket the task got.
  Status submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost, Ticket& ticket);

  // Appends a task that holds later ones until `mark` is reached; the caller does not wait. `timeout` 0 means no limit; when it
  // passes the task fails with ACL_ERROR_RT_WAIT_TIMEOUT.
  Status submit_wait(QueueMark mark, std::chrono::seconds timeout, WaitOver over = {});

  // The ticket of the newest task.
  Ticket submitted() const { return tail_.load(std::memory_order_acquire); }
  bool reached(Ticket ticket) const { return head_.load(std::memory_order_seq_cst) >= ticket; }
  bool idle() const { return reached(submitted()); }
  // The ticket of the task that ended last.
  Ticket finished() const { return head_.load(std::memory_order_acquire); }
  // What open() said.
  uint32_t number() const { return number_; }
  // The present life, or the last one: a number that no other life of this queue has. It is the lowest ticket of that life, which
  // no task gets.
  Ticket life() const { return life_.load(std::memory_order_acquire); }
  // Whether a task runs at this moment (a snapshot, for statistics).
  bool busy() const { return running_.load(std::memory_order_relaxed) && !idle(); }
  // The same, but false while the task is in a function of the client.
  bool busy_with_own_code() const { return busy() && !in_client_.load(std::memory_order_relaxed); }
  // The kind of the task that runs at this moment, or null (a guess, for reports of faults; fit for signal handlers).
  const SoftnpuTaskKind* running_kind() const { return busy() ? running_kind_.load(std::memory_order_relaxed) : nullptr; }

  // Returns when `ticket` is reached (true) or `deadline` passes (false), helping as long as it waits. A task that it helps with
  // is not interrupted: with a deadline it takes only those that are expected to end in time (task_times.h), so that the deadline
  // is missed by little. When the process exits it returns at once.
  bool wait(Ticket ticket, Deadline deadline);

  // Returns when the task of `ticket` does not run, be it done or not. For a thread whose wait() ended because the process exits.
  void wait_while_running(Ticket ticket) const;

  // To be called before a client asks whether something is reached: where tasks run only while somebody waits, it is time for
  // one.
  static void poll();

  // For shuffle.h, which runs one task at a time. begin_step() takes the runner's role if the next task is one for a helper; then
  // finish_step() runs it.
  bool begin_step();
  void finish_step();

  // The failure of a task up to `ticket`, once. Tasks submitted until now are skipped, later ones run.
  Status take_failure(Ticket ticket);
  // The same failure, left in its place.
  Status failure_before(Ticket ticket) const;
  bool has_failed() const { return skip_until_.load(std::memory_order_acquire) == kSkipAll; }

  // Skips all pending tasks; those who wait for one of them learn `reason` from abort_reason(). The task that runs now is not
  // interrupted, but one that waits for something gives up. Does nothing if the queue's life is another one than `life`. Returns
  // the newest ticket that was skipped or runs; 0 if there is none.
  Ticket skip_pending(aclError reason, Ticket life);
  // Skips pending and future tasks until close(), and makes take_failure() return `reason` every time. Does nothing if the
  // queue's life is another one than `life`.
  void stop(const Status& reason, Ticket life);
  // What stop() was given, if it was called in this life.
  Status stop_reason() const;
  // How often pending tasks were thrown away.
  uint32_t abort_count() const { return aborts_.load(std::memory_order_acquire); }
  // Why the task of `ticket` was thrown away since abort_count() was `since`; ACL_SUCCESS if it was not.
  aclError abort_reason(Ticket ticket, uint32_t since) const;

  // Lets a task whose `ready` turned true outside of any queue be noticed at once.
  void poke() { worker_signal_.raise(); }

  // The task that runs on the queue calls a function of the client, as long as this is in scope.
  class ClientCall {
   public:
    explicit ClientCall(TaskQueue& queue) : queue_(queue) { queue_.in_client_.store(true, std::memory_order_relaxed); }
    ~ClientCall() { queue_.in_client_.store(false, std::memory_order_relaxed); }
    ClientCall(const ClientCall&) = delete;
    ClientCall& operator=(const ClientCall&) = delete;

   private:
    TaskQueue& queue_;
  };

  // At process exit: no task starts any more, in any queue.
  static void begin_exit();
  // After begin_exit(): wakes the worker and all who wait for this queue.
  void wake_for_exit();
  static bool is_exiting();
  // Fails with ACL_ERROR_RT_STREAM_ABORT from then on: why a wait that is not over will never be.
  static Status check_not_exiting();
  // Worker threads that have not ended.
  static int worker_count();

  static constexpr uint64_t kCapacity = 1024;
  static constexpr uint64_t kInlineCost = 32768;  // elements; measured: above this the overlap with the caller is worth a queue

 private:
  struct Task {
    const SoftnpuTaskKind* kind;
    uint64_t cost;
    alignas(16) unsigned char payload[SOFTNPU_TASK_PAYLOAD];
  };
  static_assert(sizeof(Task) <= 128);

  // A thread, or another queue's worker, that wants to know when `ticket` is reached. Lives on its owner's stack, linked under
  // waiters_lock_.
  struct Waiter {
    Ticket ticket;
    Signal* signal;
    Waiter* next = nullptr;
    Waiter* previous = nullptr;
  };
  class LinkedWaiter;
  class Activity;

  enum class Runner { kWorker, kHelper };
  static constexpr Ticket kSkipAll = ~Ticket(0);

  bool try_become_runner() {
    return !running_.load(std::memory_order_relaxed) && !running_.exchange(true, std::memory_order_seq_cst);
  }
  // Whether a task is queued behind the `done` that are over. The tail is read first: a task that runs in its submitter's hands
  // moves the head, then the tail, and must never look like a queued one.
  bool has_pending(Ticket* done) const {
    const Ticket last = tail_.load(std::memory_order_seq_cst);
    *done = head_.load(std::memory_order_acquire);
    return *done < last;
  }
  bool has_pending() const {
    Ticket done = 0;
    return has_pending(&done);
  }
  template <typename TakeTicket>
  Status submit_task(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost, TakeTicket take_ticket);
  void stop_running(Runner runner);
  // Runs a cheap task in the submitter's hands; the caller holds submit_lock_, which is given up.
  void run_inline(const SoftnpuTaskKind& kind, const void* payload, Ticket ticket);
  // Runs tasks up to `target`; false if the next one is not for this runner, or `deadline` does not leave it the time. Fills
  // `blocker` if that one waits for another queue.
  bool drain(Runner runner, Ticket target, Deadline deadline, QueueMark* blocker);
  void run(const SoftnpuTaskKind& kind, void* payload, Ticket ticket);
  // The same, and notes how long it took if that is unknown or much, or `always`.
  void run_timed(Task& task, Ticket ticket, bool always);
  void finish(Ticket ticket);
  bool skips(const SoftnpuTaskKind& kind, Ticket ticket) const {
    return ticket <= skip_until_.load(std::memory_order_relaxed) && !(kind.flags & SOFTNPU_TASK_ALWAYS);
  }
  // On the worker: sleeps until the task is ready. False if it is to be skipped or timed out instead.
  bool await_ready(const Task& task, Ticket ticket);
  // Whether only the worker may run the task, or knows when to give up waiting for it.
  static bool is_for_worker(const Task& task);
  bool wait_helping(Ticket ticket, Deadline deadline, int depth);
  bool wait_shuffling(Ticket ticket, Deadline deadline);
  void wait_sleeping(Ticket ticket, Deadline deadline);
  rtExceptionInfo note_failure(const SoftnpuTaskKind& kind, Ticket ticket, aclError code, const char* message);
  // For the runner.
  void fail(const SoftnpuTaskKind& kind, Ticket ticket, aclError code, const char* message);
  // Says in the failure of the task, if nobody has taken it yet, where in the client's program the task was launched.
  void add_origin(Ticket ticket, const std::string& origin);
  void note_abort(aclError reason);
  Status start_worker();
  void work();
  void finish_closing();

  // Written by submitters.
  alignas(64) Lock submit_lock_;  // orders submitters; guards ring_, closed_, worker_exists_, known_head_
  bool closed_ = true;
  bool worker_exists_ = false;
  std::atomic<Ticket> tail_{0};
  std::atomic<Ticket> life_{0};
  Ticket known_head_ = 0;         // where head_ was when somebody last had to look: looking takes the runner's cache line
  std::unique_ptr<Task[]> ring_;  // made with the first queued task
  Observer* observer_ = nullptr;
  uint32_t number_ = 0;
  uint32_t priority_ = 0;
  void (*closed_callback_)(void*) = nullptr;
  void* closed_argument_ = nullptr;

  // Written by the runner with every task.
  alignas(64) std::atomic<Ticket> head_{0};
  std::atomic<const SoftnpuTaskKind*> running_kind_{nullptr};

  // Seldom written, often read.
  alignas(64) std::atomic<bool> running_{false};
  std::atomic<Ticket> skip_until_{0};
  std::atomic<uint32_t> aborts_{0};
  std::atomic<bool> closing_{false};
  std::atomic<bool> in_client_{false};
  std::atomic<uint32_t> waiter_count_{0};

  Signal worker_signal_;
  Lock waiters_lock_;
  Waiter* waiters_ = nullptr;  // guarded by waiters_lock_

  mutable Lock failure_lock_;
  Ticket failure_ticket_ = 0;  // guarded by failure_lock_, as are:
  Status failure_;
  bool stopped_ = false;
  // The newest aborts: number n, counted from 1, is at n % size. It threw away the tickets first to last.
  struct Abort {
    Ticket first;
    Ticket last;
    aclError reason;
  };
  std::array<Abort, 16> newest_aborts_{};
};

}  // namespace softnpu
