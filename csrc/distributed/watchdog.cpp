#include "distributed/watchdog.h"

#include <c10/util/Exception.h>
#include <c10/util/thread_name.h>

#include <condition_variable>
#include <deque>
#include <thread>

#include "base/options.h"
#include "core/exit_report.h"
#include "distributed/flight_recorder.h"
#include "distributed/group.h"

namespace torch_npu::distributed {
namespace {

constexpr std::chrono::milliseconds kPeriod{100};

std::string last_words(const Operation& operation) {
  std::string text = c10::str(
      "did not finish within its timeout of ", operation.timeout.count(),
      " ms. Another rank may not have called it, may be in another collective, or may have ended. Collectives of this group: ",
      operation.group->launched(), " launched, ", operation.sequence, " is the number of this one.");
  if (options().desync_debug) text += operation.group->compare_ranks(operation.describe());
  if (options().dump_on_timeout) {
    const std::string path = FlightRecorder::get().dump(operation.group->global_rank());
    text += path.empty() ? " The flight recorder could not be written to TORCH_HCCL_DEBUG_INFO_TEMP_FILE."
                         : c10::str(" The last collectives are in ", path, ".");
  }
  return text;
}

std::exception_ptr error_of(const Operation& operation, const std::string& text) {
  return std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, c10::str(operation.describe_fully(), " ", text)));
}

void time_out(Operation& operation) {
  const bool aborts = options().error_handling != 3;
  const std::string text =
      c10::str(last_words(operation), aborts ? " The group was aborted: destroy it, and make a new one." : "");
  operation.fail(error_of(operation, text));
  const std::string whole = c10::str(operation.describe_fully(), " ", text);
  if (options().warnings) TORCH_WARN(whole);
  operation.group->fail(whole, c10d::ErrorType::TIMEOUT);
  if (aborts) operation.group->abort(whole);
}

// True if the operation needs no more attention.
bool check(Operation& operation) {
  const HcclResult error = operation.communicator->is_destroyed() ? HCCL_SUCCESS : operation.communicator->error();
  if (error != HCCL_SUCCESS) {
    operation.group->fail(
        c10::str("the communicator failed at or before ", operation.describe(), ": ", acl::describe_collective(error),
                 ". The next call that waits for the stream raises the whole reason"),
        c10d::ErrorType::COMM_ERROR);
  }
  if (operation.is_done()) {
    operation.note_done();
    operation.release();
    return true;
  }
  if (options().error_handling == 0 || operation.timeout.count() <= 0 || operation.has_failed()) return false;
  if (std::chrono::steady_clock::now() - operation.started > operation.timeout) time_out(operation);
  return false;
}

class Watchdog {
 public:
  static Watchdog& get() {
    static Watchdog* const watchdog = new Watchdog;  // the thread uses it until the process ends
    return *watchdog;
  }

  void add(std::shared_ptr<Operation> operation) {
    const std::lock_guard lock(mutex_);
    added_.push_back(std::move(operation));
    if (!is_running_) {
      is_running_ = true;
      std::thread([this] { run(); }).detach();
    }
    if (added_.size() == 1) wake_.notify_one();
  }

 private:
  void run() {
    c10::setThreadName("hccl_watchdog");
    std::deque<std::shared_ptr<Operation>> pending;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        if (pending.empty()) {
          wake_.wait(lock, [this] { return !added_.empty(); });
        }
        pending.insert(pending.end(), std::make_move_iterator(added_.begin()), std::make_move_iterator(added_.end()));
        added_.clear();
      }
      std::this_thread::sleep_for(kPeriod);
      if (process_ends()) return;
      std::erase_if(pending, [](const std::shared_ptr<Operation>& operation) {
        try {
          return check(*operation);
        } catch (const std::exception&) {  // the device refuses queries: it was reset, or the process ends
          return true;
        }
      });
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Operation>> added_;
  bool is_running_ = false;
};

}  // namespace

void watch(std::shared_ptr<Operation> operation) { Watchdog::get().add(std::move(operation)); }

}  // namespace torch_npu::distributed
