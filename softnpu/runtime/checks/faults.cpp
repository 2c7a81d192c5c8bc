#include "runtime/checks/faults.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/base/message.h"
#include "runtime/base/options.h"

namespace softnpu {
namespace {

using std::chrono::microseconds;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kOff = "off";

struct Plan {
  std::mutex mutex;  // guards the following
  std::vector<FaultRule> rules;
  std::array<uint64_t, kFaultPoints> calls{};
  uint64_t tasks = 0;
  uint64_t injected = 0;
  uint64_t delayed = 0;
  bool was_set = false;
  std::map<const SoftnpuTaskKind*, SoftnpuTaskKind> altered_kinds;  // only grows: streams keep pointers into it
};

Plan& plan() {
  static auto* instance = new Plan;
  return *instance;
}

// What the rules want of one call.
struct Verdict {
  aclError code = ACL_SUCCESS;
  microseconds delay{0};
  std::string rule;  // that gave the code

  bool changes_something() const { return code != ACL_SUCCESS || delay.count() > 0; }
  std::string message() const { return text("a fault was injected by the rule '", rule, "'"); }
};

// Counts a call; under the plan's lock. `stream` is -1 where the work is done at once.
Verdict judge(Plan& plan, FaultPoint point, int32_t stream) {
  Verdict verdict;
  const uint64_t call = ++plan.calls[size_t(point)];
  const bool is_task = stream >= 0;
  if (is_task) ++plan.tasks;
  for (const FaultRule& rule : plan.rules) {
    if (!rule.point) {
      if (is_task && rule.when.holds(plan.tasks, stream)) verdict.delay = std::max(verdict.delay, rule.delay);
    } else if (*rule.point == point && verdict.code == ACL_SUCCESS && rule.when.holds(call, stream)) {
      verdict.code = rule.code;
      verdict.rule = rule.name;
    }
  }
  if (verdict.code != ACL_SUCCESS) ++plan.injected;
  if (verdict.delay.count() > 0) ++plan.delayed;
  return verdict;
}

// A task in disguise. What lies on the stream is a pointer to it, under a kind of the same name.
struct AlteredTask {
  const SoftnpuTaskKind* kind;
  Verdict verdict;
  std::optional<Clock::time_point> due{};  // set when the task comes to the front of its stream
  alignas(16) unsigned char payload[SOFTNPU_TASK_PAYLOAD];
};

AlteredTask& altered(const void* payload) { return **static_cast<AlteredTask* const*>(payload); }

aclError run_altered(void* payload, char* message) {
  AlteredTask& task = altered(payload);
  if (task.verdict.code == ACL_SUCCESS) return task.kind->run(task.payload, message);
  write_message(message, task.verdict.message());
  return task.verdict.code;
}

void release_altered(void* payload) {
  const std::unique_ptr<AlteredTask> task(&altered(payload));
  if (task->kind->release != nullptr) task->kind->release(task->payload);
}

bool altered_is_ready(const void* payload) {
  AlteredTask& task = altered(payload);
  if (task.verdict.delay.count() > 0) {
    if (!task.due) task.due = Clock::now() + task.verdict.delay;
    if (Clock::now() < *task.due) return false;
  }
  return task.kind->ready == nullptr || task.kind->ready(task.payload);
}

void visit_altered(const void* payload, SoftnpuAccessVisitor visitor, void* context) {
  const AlteredTask& task = altered(payload);
  if (task.kind->visit != nullptr) task.kind->visit(task.payload, visitor, context);
}

const SoftnpuTaskKind& altered_kind(Plan& plan, const SoftnpuTaskKind& kind) {
  const SoftnpuTaskKind disguise{.name = kind.name,
                                 .run = run_altered,
                                 .release = release_altered,
                                 .ready = altered_is_ready,
                                 .flags = kind.flags,
                                 .visit = visit_altered};
  return plan.altered_kinds.try_emplace(&kind, disguise).first->second;
}

}  // namespace

Status Faults::check(std::string_view rules) { return rules == kOff ? Status() : parse_fault_rules(rules).take_status(); }

Status Faults::set(std::string_view rules) {
  Plan& plan = softnpu::plan();
  if (rules == kOff) {
    const std::lock_guard guard(plan.mutex);
    plan.rules.clear();
    plan.was_set = true;
    on_.store(false, std::memory_order_relaxed);
    return {};
  }
  Result<std::vector<FaultRule>> parsed = parse_fault_rules(rules);
  if (!parsed.ok()) return parsed.take_status();
  const std::lock_guard guard(plan.mutex);
  plan.rules = std::move(parsed.value());
  plan.calls = {};
  plan.tasks = plan.injected = plan.delayed = 0;
  plan.was_set = true;
  on_.store(true, std::memory_order_relaxed);
  return {};
}

void Faults::read_setting() {
  if (options().faults.empty()) return;
  {
    Plan& plan = softnpu::plan();
    const std::lock_guard guard(plan.mutex);
    if (plan.was_set) return;
  }
  (void)set(options().faults);  // was checked when it was read
}

std::string Faults::counts() {
  Plan& plan = softnpu::plan();
  const std::lock_guard guard(plan.mutex);
  std::string lines;
  for (size_t point = 0; point < kFaultPoints; ++point) {
    lines += text(name_of(FaultPoint(point)), " ", plan.calls[point], "\n");
  }
  return lines + text("task ", plan.tasks, "\ninjected ", plan.injected, "\ndelayed ", plan.delayed, "\n");
}

Status Faults::count_call(FaultPoint point) {
  Plan& plan = softnpu::plan();
  const std::lock_guard guard(plan.mutex);
  if (!on_.load(std::memory_order_relaxed)) return {};
  const Verdict verdict = judge(plan, point, /*stream=*/-1);
  return verdict.code == ACL_SUCCESS ? Status() : Status(verdict.code, verdict.message());
}

Status Faults::submit_counted(FaultPoint point, Stream& stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                              uint64_t cost, Ticket* ticket) {
  if (stream.is_recorded.load(std::memory_order_relaxed)) return stream.submit(kind, payload, bytes, cost);  // its replays count
  std::unique_ptr<AlteredTask> task;
  const SoftnpuTaskKind* disguise = nullptr;
  {
    Plan& plan = softnpu::plan();
    const std::lock_guard guard(plan.mutex);
    if (on_.load(std::memory_order_relaxed)) {
      Verdict verdict = judge(plan, point, stream.id());
      if (verdict.changes_something()) {
        task.reset(new AlteredTask{.kind = &kind, .verdict = std::move(verdict), .payload = {}});
        disguise = &altered_kind(plan, kind);
      }
    }
  }
  Ticket unused = 0;
  if (ticket == nullptr) ticket = &unused;
  if (task == nullptr) return stream.submit(kind, payload, bytes, cost, *ticket);
  std::memcpy(task->payload, payload, bytes);
  const AlteredTask* const address = task.get();
  SOFTNPU_RETURN_IF_ERROR(stream.submit(*disguise, &address, sizeof address, cost, *ticket));
  static_cast<void>(task.release());
  return {};
}

}  // namespace softnpu
