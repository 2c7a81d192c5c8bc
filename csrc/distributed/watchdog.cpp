#include "distributed/watchdog.h"

#include <c10/util/Exception.h>
#include <c10/util/thread_name.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <thread>

#include "base/options.h"
#include "core/device/process_end.h"
#include "distributed/call_notes.h"
#include "distributed/flight_recorder.h"
#include "distributed/group.h"

namespace torch_npu::distributed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPeriod{100};
constexpr std::chrono::seconds kNoticeTime{30};

std::atomic<uint64_t> g_notices{0};  // calls of program_took_notice()

// Failures of groups that the program has not noticed yet. Used by the thread of the watchdog only.
class Unnoticed {
 public:
  static Unnoticed& get() {
    static Unnoticed* const all = new Unnoticed;
    return *all;
  }

  void add(const std::string& failure) {
    const int64_t mode = options().error_handling;
    if (mode == 1 || mode == 3) failures_.push_back({Clock::now() + kNoticeTime, g_notices.load(), failure});
  }
  bool empty() const { return failures_.empty(); }
  // Ends the process if the program did not notice a failure in time.
  void review() {
    std::erase_if(failures_, [](const Failure& failure) { return g_notices.load() != failure.notices; });
    if (failures_.empty() || Clock::now() < failures_.front().end) return;
    std::cerr << "torch_npu ends this process: " << failures_.front().text << ". The program did not notice it for "
              << kNoticeTime.count() << " s. With TORCH_HCCL_ASYNC_ERROR_HANDLING=2 the process goes on." << std::endl;
    std::abort();
  }

 private:
  struct Failure {
    Clock::time_point end;
    uint64_t notices;
    std::string text;
  };
  std::deque<Failure> failures_;
};

// Writes the flight recorder to a file if TORCH_HCCL_DUMP_ON_TIMEOUT is 1. Returns a sentence with the path of the file.
std::string dump_of(const Group& group, const std::string& reason) {
  if (!options().dump_on_timeout) return {};
  const std::string path = FlightRecorder::get().dump(group.global_rank(), reason);
  return path.empty() ? " The flight recorder could not be written to TORCH_HCCL_DEBUG_INFO_TEMP_FILE."
                      : c10::str(" The last collectives are in ", path, ".");
}

std::string last_words(const Operation& operation) {
  std::string text = c10::str("did not finish within its timeout of ", operation.timeout.count(),
                              " ms. Another rank may not have called it, may be in another collective, or may have ended.");
  if (!operation.is_message) {
    text += c10::str(" Collectives of this group: ", operation.group->launched(), " launched, ", operation.sequence,
                     " is the number of this one.");
  }
  const std::string words = words_of(operation.communicator->handle());
  if (!words.empty()) text += c10::str(" ", words, ".");
  if (options().desync_debug) text += operation.group->compare_ranks(operation.describe());
  return text + dump_of(*operation.group, words);
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
  Unnoticed::get().add(whole);
  if (aborts) operation.group->abort(whole);
}

// True if the operation needs no more attention.
bool check(Operation& operation) {
  const HcclResult error = operation.communicator->is_destroyed() ? HCCL_SUCCESS : operation.communicator->error();
  if (error != HCCL_SUCCESS && !operation.group->has_failed()) {
    Unnoticed::get().add(note_failure(*operation.group, *operation.communicator, operation.describe()));
  }
  if (operation.is_done()) {
    if (operation.has_succeeded()) operation.note_done();
    operation.release();
    return true;
  }
  if (options().error_handling == 0 || operation.timeout.count() <= 0 || operation.has_failed()) return false;
  if (Clock::now() - operation.started > operation.timeout) time_out(operation);
  return false;
}

class Watchdog {
 public:
  static Watchdog& get() {
    static Watchdog* const watchdog = new Watchdog;  // the thread uses it until the process ends
    return *watchdog;
  }

  void review() {
    const std::lock_guard lock(mutex_);
    is_urgent_ = true;
    wake_.notify_one();
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
        if (pending.empty() && Unnoticed::get().empty()) {
          wake_.wait(lock, [this] { return !added_.empty(); });
        }
        wake_.wait_for(lock, kPeriod, [this] { return is_urgent_; });
        is_urgent_ = false;
        pending.insert(pending.end(), std::make_move_iterator(added_.begin()), std::make_move_iterator(added_.end()));
        added_.clear();
      }
      if (process_ends()) return;
      Unnoticed::get().review();
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
  bool is_urgent_ = false;
};

}  // namespace

void program_took_notice() noexcept { g_notices.fetch_add(1); }

// This also writes the flight recorder, because torch_npu.distributed.report needs a file of each rank.
std::string note_failure(Group& group, const Communicator& communicator, const std::string& where) {
  const std::string words = words_of(communicator.handle());
  std::string failure =
      c10::str("the communicator failed at or before ", where, ": ", acl::describe_collective(communicator.error()), ". ",
               words.empty() ? "The next call that waits for the stream raises the full reason" : words, dump_of(group, words));
  group.fail(failure, c10d::ErrorType::COMM_ERROR);
  return failure;
}

void review_operations() { Watchdog::get().review(); }

void watch(std::shared_ptr<Operation> operation) { Watchdog::get().add(std::move(operation)); }

}  // namespace torch_npu::distributed
