// The queue of a stream: runs tasks in the order of their submission.
//
//   queue.submit(kind, &payload, sizeof payload, cost);   // returns at once; a cheap task on an idle queue has run already
//   queue.wait(queue.submitted(), Deadline::never());     // the waiting thread runs pending tasks itself
//
// Every task gets the next number, its ticket. Tasks finish in the order of their tickets, so one comparison tells whether all
// tasks up to ticket n are done. An event stores a queue and a ticket (event.h). Tickets keep growing when a queue is closed and
// opened again.
//
// At any time at most one thread runs tasks of a queue. There are three cases; order and results are the same in all of them:
//   - The worker thread of the queue runs queued tasks. It is started by the first task that needs it, and sleeps without tasks.
//   - A thread that waits helps: it runs queued tasks. It leaves tasks with SOFTNPU_TASK_ON_WORKER to the worker and, if it has a
//     deadline, tasks that may take longer or were never timed (task_times.h).
//   - While the queue is empty, the thread that submits a cheap task runs it, holding submit_lock_.
// The flag running_ says that the worker or a helper runs tasks.
//
// After a failure the queue skips all tasks that are submitted before the failure is taken with take_failure(). A queue that
// waits for a mark after such a failure fails, too, because its tasks may need results of the failed task. The failure is noted
// before the task counts as done, so that neither later tasks nor waiting threads miss it.
//
// A life of the queue lasts from open() to close(); life() identifies it. A ticket belongs to one life, so a wait for a ticket,
// or take_failure() for it, never concerns a later life.
//
// The implementation is in three files: task_queue.cpp (submitting, running, waiting), task_queue_failures.cpp (failures and
// aborts) and task_queue_worker.cpp (the worker thread, closing, process exit).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/futex.h"
#include "runtime/base/status.h"
#include "runtime/base/ticket.h"
#include "runtime/driver.h"
#include "runtime/profile/recorder.h"
#include "runtime/stream/exception.h"

namespace softnpu {

// A point in a queue's order. A mark without a queue counts as reached.
struct QueueMark {
  class TaskQueue* queue = nullptr;
  Ticket ticket = 0;
};

// A function that is called with the two values when a wait ends, also if it was skipped.
struct WaitOver {
  void (*call)(void* object, uint32_t generation) = nullptr;
  void* object = nullptr;
  uint32_t generation = 0;
};

// Thread-safe. An object is never destroyed; it is opened and closed any number of times.
class TaskQueue {
 public:
  // Called on the thread that runs tasks.
  class Observer {
   public:
    // The name of the queue in messages, such as "device 0, stream 3".
    virtual std::string place() const = 0;
    // The number of the device, which profilers record.
    virtual int32_t device_number() const { return 0; }
    // Called after the failure is noted. Must not use the queue. Returns the information for the client's exception callback,
    // which is called later, without locks.
    virtual rtExceptionInfo task_failed(const SoftnpuTaskKind& kind, Ticket ticket, const Status& status) = 0;
    // Called when queued tasks begin and stop running. Not called for tasks that run in the submitting call.
    virtual void running(bool /*begins*/) {}

   protected:
    ~Observer() = default;
  };

  // `number` is part of the name of the worker thread; `priority`, from 0 (highest) to 7, is added to its nice value.
  void open(Observer& observer, uint32_t number, uint32_t priority);

  // Refuses further tasks and skips pending ones. When the task that runs now ends, or at once if none runs, `closed` is called
  // with `argument`. The queue must not be opened again before that.
  void close(void (*closed)(void* argument), void* argument);

  // Appends a task. Blocks while kCapacity tasks are pending; in a host callback it fails instead. Fails after close() and while
  // the process exits.
  Status submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost);
  // The same; `ticket` receives the ticket of the task.
  Status submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost, Ticket& ticket);

  // Appends a task that makes later ones wait until `mark` is reached; the caller does not wait. `timeout` 0 means no limit;
  // after the timeout the task fails with ACL_ERROR_RT_WAIT_TIMEOUT.
  Status submit_wait(QueueMark mark, std::chrono::seconds timeout, WaitOver over = {});

  // The ticket of the newest task.
  Ticket submitted() const { return tail_.load(std::memory_order_acquire); }
  bool reached(Ticket ticket) const { return head_.load(std::memory_order_seq_cst) >= ticket; }
  bool idle() const { return reached(submitted()); }
  // The ticket of the newest task that is done.
  Ticket finished() const { return head_.load(std::memory_order_acquire); }
  // The number that open() was given.
  uint32_t number() const { return number_; }
  // Identifies the present life, or the last one if the queue is closed. It is the lowest ticket of that life; no task gets it.
  Ticket life() const { return life_.load(std::memory_order_acquire); }
  // Whether a task runs now. A snapshot, for statistics.
  bool busy() const { return running_.load(std::memory_order_relaxed) && !idle(); }
  // The same, but false while the task runs a function of the client.
  bool busy_with_own_code() const { return busy() && !in_client_.load(std::memory_order_relaxed); }
  // The kind of the task that runs now, or null. A guess, for fault reports; may be called in a signal handler.
  const SoftnpuTaskKind* running_kind() const { return busy() ? running_kind_.load(std::memory_order_relaxed) : nullptr; }

  // Returns true when `ticket` is reached and false when `deadline` passes. Runs pending tasks while it waits. A running task is
  // not interrupted: with a deadline, wait() runs only tasks that are expected to end in time (task_times.h). When the process
  // exits, it returns at once.
  bool wait(Ticket ticket, Deadline deadline);

  // Returns when the task of `ticket` does not run, done or not. For a thread whose wait() ended because the process exits.
  void wait_while_running(Ticket ticket) const;

  // Call it before a query of the client. With SOFTNPU_LAUNCH=shuffle, where tasks run only in calls of the client, it runs one.
  static void poll();

  // For shuffle.h, which runs one task at a time. begin_step() sets running_ and returns true if a helper may run the next task;
  // finish_step() then runs it.
  bool begin_step();
  void finish_step();

  // Returns the failure of a task up to `ticket`, once. Tasks that were submitted before this call are skipped, later ones run.
  Status take_failure(Ticket ticket);
  // Returns the same failure, but does not mark it as reported.
  Status failure_before(Ticket ticket) const;
  bool has_failed() const { return skip_until_.load(std::memory_order_acquire) == kSkipAll; }

  // Skips all pending tasks, and a task that waits to become ready. abort_reason() returns `reason` for them. A running task
  // continues; it may call task_is_aborted() and return early. Does nothing if life() is not `life`. Returns the newest ticket
  // that was skipped or is running; 0 if there is none.
  Ticket skip_pending(aclError reason, Ticket life);
  // Skips pending and future tasks until close(). take_failure() returns `reason` every time from now on. Does nothing if life()
  // is not `life`.
  void stop(const Status& reason, Ticket life);
  // The reason that stop() was given in this life, if it was called.
  Status stop_reason() const;
  // For a task on the worker: whether skip_pending() was called since the task began. The task may then return early.
  bool task_is_aborted() const { return head_.load(std::memory_order_relaxed) < aborted_until_.load(std::memory_order_acquire); }
  // The number of aborts so far.
  uint32_t abort_count() const { return aborts_.load(std::memory_order_acquire); }
  // The reason of the abort after abort_count() was `since` that skipped `ticket`; ACL_SUCCESS if there is none.
  aclError abort_reason(Ticket ticket, uint32_t since) const;

  // Wakes the worker. Call it after something outside all queues made a task ready.
  void poke() { worker_signal_.raise(); }

  // While an object of this class exists, the running task of the queue calls a function of the client.
  class ClientCall {
   public:
    explicit ClientCall(TaskQueue& queue) : queue_(queue) { queue_.in_client_.store(true, std::memory_order_relaxed); }
    ~ClientCall() { queue_.in_client_.store(false, std::memory_order_relaxed); }
    ClientCall(const ClientCall&) = delete;
    ClientCall& operator=(const ClientCall&) = delete;

   private:
    TaskQueue& queue_;
  };

  // At process exit: no queue starts a task after this call.
  static void begin_exit();
  // After begin_exit(): wakes the worker and all threads that wait for this queue.
  void wake_for_exit();
  static bool is_exiting() { return exiting_.load(std::memory_order_relaxed); }
  // Fails with ACL_ERROR_RT_STREAM_ABORT after begin_exit().
  static Status check_not_exiting();
  // The number of worker threads of all queues.
  static int worker_count();

  static constexpr uint64_t kCapacity = 1024;
  static constexpr uint64_t kInlineCost = 32768;  // in elements; measured: larger tasks gain by running beside the caller

 private:
  struct Task {
    const SoftnpuTaskKind* kind;
    uint64_t cost;
    TaskRecord* record;  // null unless tasks are recorded
    alignas(16) unsigned char payload[SOFTNPU_TASK_PAYLOAD];
  };
  static_assert(sizeof(Task) <= 128);

  // A thread that waits for `ticket`: a client's thread or the worker of another queue. Lives on the stack of that thread; linked
  // and unlinked with waiters_lock_ held.
  struct Waiter {
    Ticket ticket;
    Signal* signal;
    Waiter* next = nullptr;
    Waiter* previous = nullptr;
  };
  class LinkedWaiter;
  class Activity;

  enum class Runner { kWorker, kHelper };
  static constexpr int kSpinsBeforeSleep =
      60;  // about half a microsecond; a longer spin takes the core from threads that compute
  static constexpr Ticket kSkipAll = ~Ticket(0);

  bool try_become_runner() {
    return !running_.load(std::memory_order_relaxed) && !running_.exchange(true, std::memory_order_seq_cst);
  }
  // Whether a task is queued; `done` receives the newest ticket that is done. Reads the tail first: run_inline() moves the head
  // before the tail, so its task never looks like a queued one.
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
  // Runs a cheap task on the submitting thread. The caller holds submit_lock_; this function unlocks it.
  void run_inline(const SoftnpuTaskKind& kind, const void* payload, Ticket ticket, TaskRecord* record);
  // Runs tasks up to `target`. False if this runner may not run the next task, or may not run it before `deadline`. If that task
  // waits for another queue, `blocker` receives the mark.
  bool drain(Runner runner, Ticket target, Deadline deadline, QueueMark* blocker);
  void run(const SoftnpuTaskKind& kind, void* payload, Ticket ticket);
  // The same, and notes the time that the task took if it is known to be long, or if `always`.
  void run_timed(Task& task, Ticket ticket, bool always);
  void finish(Ticket ticket);
  bool skips(const SoftnpuTaskKind& kind, Ticket ticket) const {
    return ticket <= skip_until_.load(std::memory_order_relaxed) && !(kind.flags & SOFTNPU_TASK_ALWAYS);
  }
  // On the worker: sleeps until the task is ready. False if the task is skipped or its wait timed out.
  bool await_ready(const Task& task, Ticket ticket);
  // Whether only the worker may run the task: calls of the client, and waits with a time limit.
  static bool is_for_worker(const Task& task);
  bool wait_helping(Ticket ticket, Deadline deadline, int depth);
  bool wait_shuffling(Ticket ticket, Deadline deadline);
  void wait_sleeping(Ticket ticket, Deadline deadline);
  rtExceptionInfo note_failure(const SoftnpuTaskKind& kind, Ticket ticket, aclError code, const char* message);
  // note_failure(), then the exception callback. Called with running_ set.
  void fail(const SoftnpuTaskKind& kind, Ticket ticket, aclError code, const char* message);
  // Adds the place in the client's program that launched the task to its failure, unless the failure was taken already.
  void add_origin(Ticket ticket, const std::string& origin);
  void note_abort(aclError reason);
  Status start_worker();
  void work();
  void finish_closing();

  static inline constinit std::atomic<bool> exiting_{false};

  // Written by submitting threads.
  alignas(64) Lock submit_lock_;  // orders submissions; guards ring_, closed_, worker_exists_, known_head_
  bool closed_ = true;
  bool worker_exists_ = false;
  std::atomic<Ticket> tail_{0};
  std::atomic<Ticket> life_{0};
  Ticket known_head_ = 0;         // an older value of head_; reading head_ takes the cache line of the thread that runs tasks
  std::unique_ptr<Task[]> ring_;  // allocated with the first queued task
  Observer* observer_ = nullptr;
  uint32_t number_ = 0;
  uint32_t priority_ = 0;
  void (*closed_callback_)(void*) = nullptr;
  void* closed_argument_ = nullptr;

  // Written with every task by the thread that runs it.
  alignas(64) std::atomic<Ticket> head_{0};
  std::atomic<const SoftnpuTaskKind*> running_kind_{nullptr};

  // Rarely written, often read.
  alignas(64) std::atomic<bool> running_{false};
  std::atomic<Ticket> skip_until_{0};
  std::atomic<Ticket> aborted_until_{0};  // the newest ticket at the time of the newest abort
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
  // The newest aborts: number n, counted from 1, is at n % size. It skipped the tickets from first to last.
  struct Abort {
    Ticket first;
    Ticket last;
    aclError reason;
  };
  std::array<Abort, 16> newest_aborts_{};
};

}  // namespace softnpu
