// The life of a process group: connecting, splitting, aborting, leaving; and its barriers.
#include <c10/util/Exception.h>

#include <algorithm>

#include "core/device/late_errors.h"
#include "core/device/process_end.h"
#include "core/stream/wait.h"
#include "distributed/launch.h"
#include "torch_npu/csrc/distributed/ProcessGroupHCCL.hpp"

namespace c10d_npu {

using namespace torch_npu;
using namespace torch_npu::distributed;

ProcessGroupHCCL::Options::Options(bool is_high_priority_stream)
    : c10d::Backend::Options("hccl"), is_high_priority_stream(is_high_priority_stream) {}

ProcessGroupHCCL::ProcessGroupHCCL(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                   c10::intrusive_ptr<Options> options)
    : ProcessGroupHCCL(std::make_shared<Group>(store, rank, size, options), rank, size, options) {}

ProcessGroupHCCL::ProcessGroupHCCL(std::shared_ptr<Group> group, int rank, int size, c10::intrusive_ptr<Options> options)
    : c10d::Backend(rank, size), group_(std::move(group)), options_(std::move(options)) {
  init();
}

// A group that the program forgot is left when it is freed. At the end of the process libhccl does that.
ProcessGroupHCCL::~ProcessGroupHCCL() {
  if (is_in_bad_fork() || process_ends()) return;
  try {
    const InterpreterUnlocked unlocked;
    group_->shutdown();
  } catch (...) {
    raise_later(std::current_exception());
  }
}

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupHCCL::getBackendOptions() {
  return c10::static_intrusive_pointer_cast<c10d::Backend::Options>(options_);
}

void ProcessGroupHCCL::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  group_->set_timeout(timeout);
}

void ProcessGroupHCCL::setGroupUid(const std::string& pg_uid) {
  c10d::Backend::setGroupUid(pg_uid);
  group_->set_name(pg_uid);
}

uint64_t ProcessGroupHCCL::getSequenceNumberForGroup() { return group_->launched(); }

c10d::ErrorType ProcessGroupHCCL::getError() { return group_->error(); }

void ProcessGroupHCCL::eagerConnectSingleDevice(at::Device device) {
  TORCH_CHECK_VALUE(device.type() == kDeviceType, "a process group of the backend hccl is bound to a device of npu, not to ",
                    device);
  const std::lock_guard lock(group_->launch_lock());
  group_->check_usable("eager_connect_single_device");
  group_->communicator(checked_device(device.index()));
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupHCCL::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                          const std::vector<int>& ranks,
                                                          const c10::intrusive_ptr<c10d::Backend::Options>& opts) {
  ++split_count_;
  const auto own = std::find(ranks.begin(), ranks.end(), getRank());
  for (const int rank : ranks) {
    TORCH_CHECK_VALUE(rank >= 0 && rank < getSize(), "split: there is no rank ", rank, " in the group of ", getSize(), " ranks");
  }
  if (own == ranks.end()) return nullptr;
  const auto given = c10::dynamic_intrusive_pointer_cast<Options>(opts);
  TORCH_CHECK_TYPE(given, "split: the options of a group of the backend hccl are ProcessGroupHCCL.Options");
  auto options = c10::make_intrusive<Options>(*given);  // the program may split with the same object again
  const auto rank = static_cast<int>(own - ranks.begin()), size = static_cast<int>(ranks.size());
  std::vector<uint64_t> global_ranks;
  for (const int member : ranks) {
    const std::vector<uint64_t>& known = options_->global_ranks_in_group;
    const auto index = static_cast<size_t>(member);
    global_ranks.push_back(index < known.size() ? known[index] : index);
  }
  options->global_ranks_in_group = global_ranks;
  auto group = std::make_shared<Group>(store, rank, size, options);
  {
    const std::lock_guard lock(group_->launch_lock());
    group_->check_usable("split_group");
    const c10::DeviceIndex device = bound_device_id_ ? bound_device_id_->index() : current_device();
    group->adopt(group_->split(device, std::vector<uint32_t>(ranks.begin(), ranks.end()), static_cast<uint32_t>(rank), *group));
  }
  return c10::intrusive_ptr<ProcessGroupHCCL>::unsafe_steal_from_new(
      new ProcessGroupHCCL(std::move(group), rank, size, std::move(options)));
}

void ProcessGroupHCCL::abort() {
  const std::string reason = c10::str(group_->describe(), " was aborted by the program");
  group_->fail(reason, c10d::ErrorType::COMM_ERROR);
  group_->abort(reason);
}

void ProcessGroupHCCL::shutdown() { group_->shutdown(); }

void ProcessGroupHCCL::reinit(bool rebuild_link) { group_->reinit(rebuild_link); }

void ProcessGroupHCCL::waitForPendingWorks() { group_->wait(); }

std::string ProcessGroupHCCL::getHcclCommName(int64_t device) {
  const std::lock_guard lock(group_->launch_lock());
  group_->check_usable("get_hccl_comm_name");
  const bool is_bound = device < 0 && bound_device_id_.has_value();
  return group_->communicator(is_bound ? bound_device_id_->index() : checked_device(device))->name();
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::barrier(const c10d::BarrierOptions& opts) {
  int64_t device = -1;
  if (!opts.device_ids.empty()) {
    device = opts.device_ids[0];
  } else if (opts.device.has_value() && opts.device->type() == kDeviceType && opts.device->has_index()) {
    device = opts.device->index();
  } else if (bound_device_id_.has_value()) {
    device = bound_device_id_->index();
  }
  Call call{.type = c10d::OpType::BARRIER,
            .title = "hccl:barrier",
            .inputs = {},
            .outputs = {},
            .timeout = opts.timeout,
            .is_async = opts.asyncOp,
            .blocks_host = true,
            .device = checked_device(device)};
  return launch(group_, std::move(call), [](HcclComm comm, aclrtStream stream) { HCCL_CALL(HcclBarrier, comm, stream); });
}

// Rank 0 waits for a key of each other rank, then writes the result.
void ProcessGroupHCCL::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const std::chrono::milliseconds timeout = opts.timeout == c10d::kUnsetTimeout ? group_->timeout() : opts.timeout;
  const std::string prefix = c10::str("monitored_barrier/", group_->next_barrier(), "/");
  c10d::Store& store = group_->store();
  const std::string result = prefix + "result";
  if (getRank() != 0) {
    store.set(prefix + std::to_string(getRank()), std::string("here"));
    try {
      store.wait({result}, timeout + std::chrono::seconds(5));  // rank 0 learns first that a rank is missing
    } catch (const std::exception& error) {
      C10_THROW_ERROR(DistBackendError, c10::str("monitored_barrier: ", group_->describe(), " was not answered by rank 0 within ",
                                                 timeout.count(), " ms: ", error.what()));
    }
    const std::string word = store.get_to_str(result);
    TORCH_CHECK_WITH(DistBackendError, word == "ok", "monitored_barrier: rank 0 reports: ", word);
    return;
  }
  std::string missing;
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (int rank = 1; rank < getSize() && (missing.empty() || wait_all_ranks); ++rank) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    try {
      store.wait({prefix + std::to_string(rank)}, std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception&) {
      missing += c10::str(missing.empty() ? "" : ", ", rank);
    }
  }
  const std::string word = missing.empty() ? "ok" : c10::str("rank ", missing, " did not come within ", timeout.count(), " ms");
  store.set(result, word);
  TORCH_CHECK_WITH(DistBackendError, missing.empty(), "monitored_barrier: ", group_->describe(), ": ", word,
                   wait_all_ranks ? "" : "; give wait_all_ranks=True to learn of all that are missing");
}

}  // namespace c10d_npu
