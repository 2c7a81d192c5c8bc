// Random operators of a captured stream. Seed and offset are arguments of the call, but each replay needs others. This function
// changes a captured task so that it reads them from device memory when it runs. The client writes them before each replay.
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

#include "aclnn/aclnn_soft_philox.h"
#include "ops/calls/executor.h"
#include "runtime/driver.h"

namespace softnpu::ops {
namespace {

constexpr size_t kStateBytes = 2 * sizeof(uint64_t);

struct PhiloxTask {
  Executor* executor;
  const uint64_t* state;  // seed and offset
  uint64_t own_offset;
  uint32_t seed_value;  // index in Executor::values
  uint32_t offset_value;
};
static_assert(sizeof(PhiloxTask) <= SOFTNPU_TASK_PAYLOAD && offsetof(PhiloxTask, executor) == 0,
              "run_task(), release_task() and visit_task() read the executor");

aclError run_philox(void* payload, char* message) {
  const auto& task = *static_cast<PhiloxTask*>(payload);
  task.executor->values[task.seed_value].integer = int64_t(task.state[0]);
  task.executor->values[task.offset_value].integer = int64_t(task.state[1] + task.own_offset);
  return run_task(payload, message);
}

void visit_philox(const void* payload, SoftnpuAccessVisitor visitor, void* context) {
  visitor(context, static_cast<const PhiloxTask*>(payload)->state, kStateBytes, 0);
  visit_task(payload, visitor, context);
}

const SoftnpuTaskKind* philox_kind(const SoftnpuTaskKind& kind) {
  static auto* const kinds = new std::map<const SoftnpuTaskKind*, SoftnpuTaskKind>;
  static auto* const mutex = new std::mutex;
  const std::lock_guard guard(*mutex);
  const auto [entry, is_new] = kinds->try_emplace(&kind, kind);
  entry->second.run = run_philox;
  entry->second.visit = visit_philox;
  return &entry->second;
}

// The number of the value parameter with that name.
std::optional<uint32_t> find_value(const Operation& operation, std::string_view name) {
  uint32_t value = 0;
  for (int i = 0; i < operation.parameter_count; ++i) {
    if (operation.parameters[i].kind != ParameterKind::kValue) continue;
    if (operation.parameters[i].name == name) return value;
    ++value;
  }
  return std::nullopt;
}

struct Wanted {
  int64_t seed;
  uint64_t offset;
  const uint64_t* state;
};

bool alter(const SoftnpuTaskKind** kind, void* payload, void* context) {
  if ((*kind)->run != run_task) return false;
  Executor* const executor = *static_cast<Executor**>(payload);
  const auto& wanted = *static_cast<const Wanted*>(context);
  const std::optional<uint32_t> seed = find_value(*executor->operation, "seed");
  const std::optional<uint32_t> offset = find_value(*executor->operation, "offset");
  if (!seed || !offset || executor->values[*seed].integer != wanted.seed ||
      executor->values[*offset].integer != int64_t(wanted.offset)) {
    return false;
  }
  *kind = philox_kind(**kind);
  *static_cast<PhiloxTask*>(payload) = {executor, wanted.state, wanted.offset, *seed, *offset};
  return true;
}

}  // namespace
}  // namespace softnpu::ops

aclnnStatus aclnnSoftReadPhilox(aclrtStream stream, uint64_t seed, uint64_t offset, const void* state) {
  using namespace softnpu::ops;
  constexpr const char* kName = "aclnnSoftReadPhilox";
  if (state == nullptr) return fail(kName, softnpu::Status(ACLNN_ERR_PARAM_NULLPTR, "argument 'state' is null"));
  void* address = nullptr;
  if (const aclError code = driver()->alias(state, kStateBytes, &address); code != ACL_SUCCESS) return code;
  Wanted wanted{int64_t(seed), offset, static_cast<const uint64_t*>(address)};
  if (driver()->alter_captured(stream, alter, &wanted)) return ACLNN_SUCCESS;
  return fail(kName, softnpu::Status(ACLNN_ERR_PARAM_INVALID, "no task with this seed and offset was captured on the stream"));
}
