#include "runtime/checks/faults.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/base/message.h"
#include "runtime/base/options.h"
#include "runtime/checks/wrong_value.h"

namespace softnpu {

// The effect of the rules on one call.
struct FaultVerdict {
  aclError code = ACL_SUCCESS;
  std::chrono::microseconds delay{0};
  bool is_wrong = false;  // one element of an output gets another value
  std::string rule;       // the rule that set the code

  bool changes_something() const { return code != ACL_SUCCESS || delay.count() > 0 || is_wrong; }
  std::string message() const { return text("a fault was injected by the rule '", rule, "'"); }
};

namespace {

using std::chrono::microseconds;
using Clock = std::chrono::steady_clock;

struct Plan {
  std::mutex mutex;  // guards the members below
  std::vector<FaultRule> rules;
  std::vector<uint64_t> launches;  // for each rule `wrong`: the launches of its operator
  std::array<uint64_t, kFaultPoints> calls{};
  uint64_t tasks = 0;
  uint64_t injected = 0;
  uint64_t delayed = 0;
  bool was_set = false;
  std::map<const SoftnpuTaskKind*, SoftnpuTaskKind> altered_kinds;  // entries are never removed: streams keep pointers to them
};

Plan& plan() {
  static auto* instance = new Plan;
  return *instance;
}

// Counts a call. `stream` is -1 for a call without a stream. `name` is the name of an operator, and null for other calls. The
// caller holds plan.mutex.
FaultVerdict judge(Plan& plan, FaultPoint point, int32_t stream, const char* name) {
  FaultVerdict verdict;
  const uint64_t call = ++plan.calls[size_t(point)];
  const bool is_task = stream >= 0;
  if (is_task) ++plan.tasks;
  for (size_t i = 0; i < plan.rules.size(); ++i) {
    const FaultRule& rule = plan.rules[i];
    if (!rule.wrong.empty()) {
      if (name != nullptr && names_operator(rule.wrong, name)) verdict.is_wrong |= rule.when.holds(++plan.launches[i], stream);
    } else if (!rule.point) {
      if (is_task && rule.when.holds(plan.tasks, stream)) verdict.delay = std::max(verdict.delay, rule.delay);
    } else if (*rule.point == point && verdict.code == ACL_SUCCESS && rule.when.holds(call, stream)) {
      verdict.code = rule.code;
      verdict.rule = rule.name;
    }
  }
  if (verdict.code != ACL_SUCCESS || verdict.is_wrong) ++plan.injected;
  if (verdict.delay.count() > 0) ++plan.delayed;
  return verdict;
}

}  // namespace

// The original task and the changes.
struct AlteredTask::State {
  const SoftnpuTaskKind* kind;
  FaultVerdict verdict;
  SoftnpuOperatorDescriber describe;
  std::unique_ptr<DumpedCall> dump;
  std::optional<Clock::time_point> due{};  // set when the task comes to the front of its stream
  alignas(16) unsigned char payload[SOFTNPU_TASK_PAYLOAD];
};

namespace {

AlteredTask::State& altered(const void* payload) { return **static_cast<AlteredTask::State* const*>(payload); }

aclError run_altered(void* payload, char* message) {
  AlteredTask::State& task = altered(payload);
  if (task.verdict.code != ACL_SUCCESS) {
    write_message(message, task.verdict.message());
    return task.verdict.code;
  }
  if (task.dump != nullptr) task.dump->before(task.describe, task.payload);
  const aclError code = task.kind->run(task.payload, message);
  if (code != ACL_SUCCESS) return code;
  if (task.verdict.is_wrong) make_wrong(task.describe, task.payload);
  if (task.dump != nullptr) task.dump->after(task.describe, task.payload);
  return ACL_SUCCESS;
}

void release_altered(void* payload) {
  const std::unique_ptr<AlteredTask::State> task(&altered(payload));
  if (task->kind->release != nullptr) task->kind->release(task->payload);
}

bool altered_is_ready(const void* payload) {
  AlteredTask::State& task = altered(payload);
  if (task.verdict.delay.count() > 0) {
    if (!task.due) task.due = Clock::now() + task.verdict.delay;
    if (Clock::now() < *task.due) return false;
  }
  return task.kind->ready == nullptr || task.kind->ready(task.payload);
}

void visit_altered(const void* payload, SoftnpuAccessVisitor visitor, void* context) {
  const AlteredTask::State& task = altered(payload);
  if (task.kind->visit != nullptr) task.kind->visit(task.payload, visitor, context);
}

const SoftnpuTaskKind& altered_kind(Plan& plan, const SoftnpuTaskKind& kind) {
  const SoftnpuTaskKind altered{.name = kind.name,
                                .run = run_altered,
                                .release = release_altered,
                                .ready = altered_is_ready,
                                .flags = kind.flags,
                                .visit = visit_altered};
  return plan.altered_kinds.try_emplace(&kind, altered).first->second;
}

}  // namespace

AlteredTask::AlteredTask() = default;
AlteredTask::AlteredTask(const SoftnpuTaskKind& kind, std::unique_ptr<State> state) : kind_(&kind), state_(state.release()) {}
AlteredTask::AlteredTask(AlteredTask&& other) noexcept
    : kind_(std::exchange(other.kind_, nullptr)), state_(std::exchange(other.state_, nullptr)) {}
AlteredTask::~AlteredTask() { delete state_; }
void AlteredTask::release() { state_ = nullptr; }

Status Faults::set(std::string_view rules) {
  Plan& plan = softnpu::plan();
  if (rules == kFaultsOff) {
    const std::lock_guard guard(plan.mutex);
    plan.rules.clear();
    plan.was_set = true;
    set_submit_hook(kFaultHook, false);
    return {};
  }
  Result<std::vector<FaultRule>> parsed = parse_fault_rules(rules);
  if (!parsed.ok()) return parsed.take_status();
  const std::lock_guard guard(plan.mutex);
  plan.rules = std::move(parsed.value());
  plan.launches.assign(plan.rules.size(), 0);
  plan.calls = {};
  plan.tasks = plan.injected = plan.delayed = 0;
  plan.was_set = true;
  set_submit_hook(kFaultHook, true);
  return {};
}

void Faults::read_setting() {
  if (options().faults.empty()) return;
  {
    Plan& plan = softnpu::plan();
    const std::lock_guard guard(plan.mutex);
    if (plan.was_set) return;
  }
  (void)set(options().faults);  // options.cpp has checked it
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
  if (!are_on()) return {};
  const FaultVerdict verdict = judge(plan, point, /*stream=*/-1, /*name=*/nullptr);
  return verdict.code == ACL_SUCCESS ? Status() : Status(verdict.code, verdict.message());
}

AlteredTask Faults::at_task(FaultPoint point, int32_t stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                            SoftnpuOperatorDescriber describe, std::unique_ptr<DumpedCall> dump) {
  Plan& plan = softnpu::plan();
  const std::lock_guard guard(plan.mutex);
  FaultVerdict verdict;
  if (are_on()) verdict = judge(plan, point, stream, describe != nullptr ? kind.name : nullptr);
  if (!verdict.changes_something() && dump == nullptr) return {};
  std::unique_ptr<AlteredTask::State> state(new AlteredTask::State{
      .kind = &kind, .verdict = std::move(verdict), .describe = describe, .dump = std::move(dump), .payload = {}});
  std::memcpy(state->payload, payload, bytes);
  return {altered_kind(plan, kind), std::move(state)};
}

}  // namespace softnpu
