#include "core/device/process_end.h"

#include <atomic>

namespace torch_npu {
namespace {

constinit std::atomic<bool> process_is_ending{false};
constinit std::atomic<bool> exit_is_failure{false};

}  // namespace

bool process_ends() { return process_is_ending.load(std::memory_order_relaxed); }
void note_process_end() { process_is_ending.store(true); }

void fail_at_exit() { exit_is_failure.store(true); }
bool fails_at_exit() { return exit_is_failure.load(); }

}  // namespace torch_npu
