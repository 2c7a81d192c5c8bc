#include "runtime/stream/callback.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "runtime/checks/races.h"
#include "runtime/stream/thread_state.h"

namespace softnpu {
namespace {

// For the race check the call orders the host after the finished tasks of `queue`: the function can notify any thread of the
// client.
void call_client(void (*function)(void*), void* argument, const TaskQueue& queue) {
  if (races_are_checked()) races().host_learns(races().clock_at(queue.number(), queue.finished()));
  ThreadState& state = thread_state();
  const bool nested = std::exchange(state.in_host_callback, true);
  function(argument);
  state.in_host_callback = nested;
}

struct HostCall {
  aclrtHostFunc function;
  void* argument;
};

constexpr SoftnpuTaskKind kHostCallKind = {.name = "aclrtLaunchHostFunc",
                                           .run = [](void* payload, char*) -> aclError {
                                             const auto& call = *static_cast<HostCall*>(payload);
                                             TaskQueue& queue = *thread_state().works_for;
                                             const TaskQueue::ClientCall client(queue);
                                             call_client(call.function, call.argument, queue);
                                             return ACL_SUCCESS;
                                           },
                                           .release = nullptr,
                                           .ready = nullptr,
                                           .flags = SOFTNPU_TASK_ON_WORKER,
                                           .visit = nullptr};

}  // namespace

Status launch_host_function(Stream& stream, aclrtHostFunc function, void* argument) {
  const HostCall call{function, argument};
  return stream.submit(kHostCallKind, &call, sizeof call, 0);
}

// One callback. Shared by the tasks of the stream and the mailbox of the thread.
struct Reports::Report {
  aclrtCallback function;
  void* argument;
  TaskQueue* queue;
  std::shared_ptr<Mailbox> mailbox;
  std::atomic<bool> done{false};

  void finish() {
    done.store(true, std::memory_order_seq_cst);
    queue->poke();
  }
};

// The waiting reports of one thread. Dropped reports count as done, so that no stream waits for a thread that has unsubscribed.
struct Reports::Mailbox {
  std::mutex mutex;
  std::deque<std::shared_ptr<Report>> reports;  // guarded by mutex, as is:
  bool closed = false;
  int streams = 0;  // guarded by Reports::mutex_
  Signal signal;

  void deliver(std::shared_ptr<Report> report) {
    std::unique_lock lock(mutex);
    if (closed) {
      lock.unlock();
      report->finish();
      return;
    }
    reports.push_back(std::move(report));
    lock.unlock();
    signal.raise();
  }
  std::deque<std::shared_ptr<Report>> take() {
    std::lock_guard lock(mutex);
    return std::exchange(reports, {});
  }
  void close() {
    std::deque<std::shared_ptr<Report>> rest;
    {
      std::lock_guard lock(mutex);
      closed = true;
      rest = std::exchange(reports, {});
    }
    for (const auto& report : rest) report->finish();
    signal.raise();
  }
};

const SoftnpuTaskKind Reports::kDeliverKind = {
    .name = "aclrtLaunchCallback",
    .run = [](void* payload, char*) -> aclError {
      const auto& report = **static_cast<std::shared_ptr<Report>**>(payload);
      report->mailbox->deliver(report);
      return ACL_SUCCESS;
    },
    .release = [](void* payload) { delete *static_cast<std::shared_ptr<Report>**>(payload); },
    .ready = nullptr,
    .flags = 0,
    .visit = nullptr};

const SoftnpuTaskKind Reports::kHoldKind = {
    .name = "aclrtLaunchCallback",
    .run = [](void*, char*) { return aclError(ACL_SUCCESS); },
    .release = [](void* payload) { delete *static_cast<std::shared_ptr<Report>**>(payload); },
    .ready =
        [](const void* payload) {
          return (**static_cast<std::shared_ptr<Report>* const*>(payload))->done.load(std::memory_order_seq_cst);
        },
    .flags = SOFTNPU_TASK_OUTSIDE,
    .visit = nullptr};

Reports& Reports::instance() {
  static auto* reports = new Reports;
  return *reports;
}

Status Reports::subscribe(uint64_t thread, Stream& stream) {
  std::lock_guard guard(mutex_);
  // A stream is withdrawn before its destruction calls forget(). So forget() will end the subscription of a stream that is live
  // now.
  if (!stream.is_live()) return {ACL_ERROR_RT_INVALID_HANDLE, "the stream is being destroyed by another thread"};
  const auto [entry, is_new] = subscriber_.try_emplace(&stream, thread);
  if (!is_new) return {ACL_ERROR_RT_STREAM_SUBSCRIBE, text("thread ", entry->second, " has subscribed to the stream already")};
  std::shared_ptr<Mailbox>& mailbox = mailboxes_[thread];
  if (mailbox == nullptr) mailbox = std::make_shared<Mailbox>();
  ++mailbox->streams;
  return {};
}

Status Reports::unsubscribe(uint64_t thread, Stream& stream) {
  std::lock_guard guard(mutex_);
  const auto entry = subscriber_.find(&stream);
  if (entry == subscriber_.end() || entry->second != thread) {
    return {ACL_ERROR_RT_STREAM_SUBSCRIBE, text("thread ", thread, " has not subscribed to the stream")};
  }
  end_subscription(entry);
  return {};
}

void Reports::forget(Stream& stream) {
  std::lock_guard guard(mutex_);
  if (const auto entry = subscriber_.find(&stream); entry != subscriber_.end()) end_subscription(entry);
}

// With mutex_ held.
void Reports::end_subscription(std::map<Stream*, uint64_t>::iterator subscription) {
  const auto mailbox = mailboxes_.find(subscription->second);
  subscriber_.erase(subscription);
  if (--mailbox->second->streams > 0) return;
  mailbox->second->close();
  mailboxes_.erase(mailbox);
}

Status Reports::launch(Stream& stream, aclrtCallback function, void* argument, bool hold) {
  if (stream.is_recorded.load(std::memory_order_relaxed)) {
    return {ACL_ERROR_RT_STREAM_CAPTURED, "a callback on a thread of its own cannot be captured; use aclrtLaunchHostFunc"};
  }
  auto report = std::make_shared<Report>();
  report->function = function;
  report->argument = argument;
  report->queue = &stream.queue();
  {
    std::lock_guard guard(mutex_);
    const auto entry = subscriber_.find(&stream);
    if (entry == subscriber_.end()) {
      return {ACL_ERROR_RT_STREAM_NO_CB_REG, "no thread takes the stream's reports; call aclrtSubscribeReport first"};
    }
    report->mailbox = mailboxes_[entry->second];
  }
  const auto submit = [&](const SoftnpuTaskKind& kind) -> Status {
    auto share = std::make_unique<std::shared_ptr<Report>>(report);
    const auto* payload = share.get();
    SOFTNPU_RETURN_IF_ERROR(stream.submit(kind, &payload, sizeof payload, 0));
    share.release();
    return {};
  };
  SOFTNPU_RETURN_IF_ERROR(submit(kDeliverKind));
  return hold ? submit(kHoldKind) : Status();
}

std::shared_ptr<Reports::Mailbox> Reports::mailbox_of(uint64_t thread) {
  std::lock_guard guard(mutex_);
  const auto entry = mailboxes_.find(thread);
  return entry == mailboxes_.end() ? nullptr : entry->second;
}

Status Reports::process(Deadline deadline) {
  const auto thread = uint64_t(pthread_self());
  const std::shared_ptr<Mailbox> mailbox = mailbox_of(thread);
  if (mailbox == nullptr) {
    return {ACL_ERROR_RT_THREAD_SUBSCRIBE,
            text("this thread (", thread, ") has not subscribed to any stream; call aclrtSubscribeReport first")};
  }
  for (;;) {
    std::deque<std::shared_ptr<Report>> reports = mailbox->take();
    for (const auto& report : reports) {
      call_client(report->function, report->argument, *report->queue);
      report->finish();
    }
    if (!reports.empty()) return {};
    if (deadline.passed()) return {ACL_ERROR_RT_REPORT_TIMEOUT, "no callback came in the time given"};
    if (mailbox_of(thread) != mailbox) return {ACL_ERROR_RT_THREAD_SUBSCRIBE, "the thread's last stream was unsubscribed"};
    SOFTNPU_RETURN_IF_ERROR(TaskQueue::check_not_exiting());
    SOFTNPU_RETURN_IF_ERROR(check_may_wait());
    mailbox->signal.wait(deadline);
  }
}

void Reports::wake_for_exit() {
  std::lock_guard guard(mutex_);
  for (const auto& [thread, mailbox] : mailboxes_) mailbox->signal.raise();
}

void Reports::clear() {
  std::lock_guard guard(mutex_);
  for (const auto& [thread, mailbox] : mailboxes_) mailbox->close();
  mailboxes_.clear();
  subscriber_.clear();
}

}  // namespace softnpu
