#include "core/exit_report.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "acl/symbol.h"
#include "core/device/late_errors.h"
#include "core/device/process_end.h"
#include "core/stream/known_streams.h"
#include "core/stream/open_captures.h"
#include "core/stream/wait.h"

namespace torch_npu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{2};  // of a process without Python
constexpr int32_t kSlice = 20;                // milliseconds; between slices all streams are checked
constexpr int32_t kAtOnce = 1;                // millisecond; for streams that are idle
constexpr int kMostPrinted = 32;              // failures per device on streams that the plugin does not know

void print(const std::string& failure) {
  static std::set<std::string>* const printed = new std::set<std::string>;  // a stopped context returns its failure each time
  if (!printed->insert(failure).second) return;
  const bool is_first = printed->size() == 1;
  const std::string text =
      c10::str("torch_npu: the process ends, and no call has reported this failure of the device:\n", failure, "\n",
               is_first ? "torch.npu.synchronize() at the end of the program would raise it.\n" : "");
  std::fwrite(text.data(), 1, text.size(), stderr);
  fail_at_exit();
}

// False if the failure was described before.
bool print_failure(aclError code, const char* function) {
  const std::optional<std::string> failure = acl::describe_once(code, function);
  if (failure.has_value()) print(*failure);
  return failure.has_value();
}

bool is_idle(NPUStream stream) {
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  return ACL_FN(aclrtStreamQuery)(stream.stream(), &status) == ACL_SUCCESS && status == ACL_STREAM_STATUS_COMPLETE;
}

// Waits for the stream and prints its failure. False if it is still busy after `milliseconds`.
bool settle(NPUStream stream, int32_t milliseconds) {
  const BoundDevice bound(stream.device_index());
  if (milliseconds == kAtOnce && !is_idle(stream)) return false;
  const aclError code = ACL_FN(aclrtSynchronizeStreamWithTimeout)(stream.stream(), milliseconds);
  if (detail::is_timeout(code)) return false;
  if (acl::is_failed_work(code)) print_failure(code, "aclrtSynchronizeStreamWithTimeout");
  return true;
}

// For streams that the plugin does not know: a wait for the device returns one failure at a time.
void settle_device(c10::DeviceIndex device) {
  const BoundDevice bound(device);
  for (int i = 0; i < kMostPrinted; ++i) {
    const aclError code = ACL_FN(aclrtSynchronizeDeviceWithTimeout)(kAtOnce);
    if (!acl::is_failed_work(code) || !print_failure(code, "aclrtSynchronizeDeviceWithTimeout")) return;
  }
}

void settle_all(Clock::time_point end) {
  std::vector<NPUStream> busy;
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (!has_context(device)) continue;
    const std::vector<NPUStream> streams = known_streams(device);
    busy.insert(busy.end(), streams.begin(), streams.end());
  }
  std::erase_if(busy, [](NPUStream stream) { return is_destroyed(stream) || (captures_exist() && is_capturing(stream)); });
  for (;;) {
    std::erase_if(busy, [](NPUStream stream) { return settle(stream, kAtOnce); });
    if (busy.empty() || Clock::now() >= end) break;
    check_interrupt();
    if (settle(busy.front(), kSlice)) busy.erase(busy.begin());
  }
  if (!busy.empty() || captures_exist()) return;  // a wait for the device would include busy streams, and fail in a capture
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (has_context(device)) settle_device(device);
  }
}

void end_process(int status, void* /*unused*/) {
  if (is_in_bad_fork()) return;
  try {
    // If report_failures_at_exit() was called before, this second call does not wait.
    report_failures_at_exit(process_ends() ? std::chrono::seconds(0) : kPatience);
  } catch (const std::exception&) {  // the device library may have ended already
  }
  // exit() runs the remaining handlers.
  if ((status & 0xFF) == 0 && fails_at_exit()) std::exit(EXIT_FAILURE);
}

}  // namespace

bool report_failures_at_exit(std::chrono::milliseconds patience) {
  note_process_end();
  if (is_initialized() && !is_in_bad_fork()) {
    settle_all(Clock::now() + patience);
    print_late_errors();
  }
  return fails_at_exit();
}

void watch_exit() { on_exit(end_process, nullptr); }

}  // namespace torch_npu
