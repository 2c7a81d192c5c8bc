#include "distributed/group.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "acl/error.h"
#include "acl/symbol.h"
#include "base/first_failure.h"
#include "base/options.h"
#include "core/device/late_errors.h"
#include "core/device/process_end.h"
#include "core/stream/wait.h"
#include "distributed/watchdog.h"

namespace torch_npu::distributed {
namespace {

constexpr std::chrono::milliseconds kCompareTime{2000};  // ranks exceed their timeouts at about the same time
constexpr std::chrono::milliseconds kTakeTime{1000};     // a stream may wait for a collective of another group as well

// The reasons why communicators were destroyed, by name. They are added to errors of streams that used a destroyed communicator.
class AbortReasons {
 public:
  static AbortReasons& get() {
    static AbortReasons* const reasons = new AbortReasons;
    return *reasons;
  }

  void add(const std::string& communicator, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    reasons_[c10::str("'", communicator, "' was destroyed")] = reason;
  }
  void remove(const std::string& communicator) {
    const std::lock_guard lock(mutex_);
    reasons_.erase(c10::str("'", communicator, "' was destroyed"));
  }
  std::string find(const std::string& text) {
    const std::lock_guard lock(mutex_);
    for (const auto& [words, reason] : reasons_) {
      if (text.find(words) != std::string::npos) return "\nReason: " + reason;
    }
    return {};
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> reasons_;
};

[[maybe_unused]] const bool annotates = [] {
  acl::set_annotator(acl::AnnotatorPlace::kGroup, [](aclError, const char*, const std::string& text) {
    if (text.find("Hccl") != std::string::npos) program_took_notice();
    return AbortReasons::get().find(text);
  });
  return true;
}();

// A hash that is equal on all ranks and in all runs. std::hash does not promise this.
uint64_t number_of(const std::string& text) {
  uint64_t number = 14695981039346656037u;  // FNV-1a
  for (const char letter : text) number = (number ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  return number;
}

// A part of the store for this group alone. Keys of an earlier group on the same store, which may have failed, are not seen. All
// ranks make as many groups on a store.
c10::intrusive_ptr<c10d::Store> own_part(c10::intrusive_ptr<c10d::Store> store, int rank) {
  const int64_t number = store->add(c10::str("hccl/groups/", rank), 1);
  return c10::make_intrusive<c10d::PrefixStore>(c10::str("hccl/", number), std::move(store));
}

}  // namespace

Group::Group(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<GroupOptions> options)
    : store_(own_part(std::move(store), rank)),
      rank_(rank),
      size_(size),
      options_(std::move(options)),
      timeout_(options_->timeout),
      name_(options_->group_name) {
  TORCH_CHECK_VALUE(size_ >= 1 && rank_ >= 0 && rank_ < size_, "a process group of the backend hccl needs a rank from 0 to ",
                    size_ - 1, ", but got rank ", rank_, " of ", size_);
  comm_config(options_->hccl_config, name_);  // throws for bad settings
}

int Group::global_rank() const {
  const std::vector<uint64_t>& ranks = options_->global_ranks_in_group;
  return static_cast<size_t>(rank_) < ranks.size() ? static_cast<int>(ranks[static_cast<size_t>(rank_)]) : rank_;
}

std::string Group::name() const {
  const std::lock_guard lock(mutex_);
  return name_;
}

void Group::set_name(const std::string& name) {
  const std::lock_guard lock(mutex_);
  name_ = name;
}

std::string Group::describe() const { return c10::str("rank ", rank_, " of ", size_, " in group '", name(), "'"); }

void Group::check_usable(const char* op) const {
  if (!has_failed()) {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!is_closed_, op, ": the process group '", name_, "' of the backend hccl was destroyed");
    return;
  }
  program_took_notice();
  const std::lock_guard lock(mutex_);
  C10_THROW_ERROR(DistBackendError, c10::str(op, ": the process group '", name_, "' cannot be used after a failure: ", failure_,
                                             ". Destroy the group with destroy_process_group(), and make a new one."));
}

Communicator::Settings Group::settings(const std::string& key) const {
  Communicator::Settings settings;
  settings.config = comm_config(options_->hccl_config, c10::str("hccl_", name(), "_", key));
  settings.high_priority = options_->is_high_priority_stream || options().high_priority_groups;
  settings.timeout = timeout();
  return settings;
}

std::shared_ptr<Communicator> Group::communicator(c10::DeviceIndex device) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = communicators_.find(device);
    if (found != communicators_.end()) return found->second;
  }
  const std::string key = next_meeting();
  try {
    auto made = Communicator::meet(*store_, key, rank_, size_, device, settings(key));
    adopt(made);
    return made;
  } catch (const c10::Error& error) {
    C10_THROW_ERROR(DistBackendError, c10::str(describe(), " on npu:", static_cast<int>(device),
                                               " could not connect to the other ranks: ", error.what_without_backtrace()));
  }
}

std::shared_ptr<Communicator> Group::split(c10::DeviceIndex device, const std::vector<uint32_t>& ranks, uint32_t rank,
                                           Group& child) {
  const std::string key = child.next_meeting();
  // The name of the child has the number of groups of this process, which differs between ranks.
  const uint64_t id = number_of(c10::str(c10::Join(" ", ranks), ":", key));
  return communicator(device)->split(ranks, id, rank, child.settings(key));
}

void Group::adopt(std::shared_ptr<Communicator> communicator) {
  AbortReasons::get().remove(communicator->name());
  const std::lock_guard lock(mutex_);
  communicators_[communicator->device()] = std::move(communicator);
}

std::vector<std::shared_ptr<Communicator>> Group::communicators() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Communicator>> all;
  for (const auto& [device, communicator] : communicators_) all.push_back(communicator);
  return all;
}

std::string Group::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Group::fail(const std::string& reason, c10d::ErrorType type) {
  const std::lock_guard lock(mutex_);
  if (has_failed()) return;
  failure_ = reason;
  error_.store(type);
}

void Group::abort(const std::string& reason) {
  for (const auto& communicator : communicators()) {
    AbortReasons::get().add(communicator->name(), reason);
    communicator->destroy();
  }
}

void Group::wait() {
  FirstFailure failure;
  for (const auto& communicator : communicators()) failure.attempt([&] { communicator->wait(); });
  failure.rethrow();
}

// A failed collective does not keep the program from leaving the group. An interrupted wait does.
void Group::wait_to_leave() {
  bool is_reported = false;
  try {
    wait();
  } catch (const WaitUnfinished&) {
    if (!has_failed()) throw;  // in a failed group, an aborted collective returns the code of a refused wait
  } catch (const c10::Error& error) {
    if (!has_failed()) TORCH_WARN(describe(), " had a failed collective when it was destroyed: ", error.what_without_backtrace());
    is_reported = true;
  }
  if (is_reported || has_failed()) take_failures();
}

void Group::add_waiter(NPUStream stream) {
  const std::lock_guard lock(mutex_);
  if (std::find(waiters_.begin(), waiters_.end(), stream) == waiters_.end()) waiters_.push_back(stream);
}

void Group::take_failures() {
  std::vector<NPUStream> waiters;
  {
    const std::lock_guard lock(mutex_);
    waiters.swap(waiters_);
  }
  const auto end = std::chrono::steady_clock::now() + kTakeTime;
  for (const NPUStream& stream : waiters) {
    try {
      const BoundDevice bound(stream.device_index());
      const auto attempt = [handle = stream.stream()](int32_t milliseconds) {
        return ACL_FN(aclrtSynchronizeStreamWithTimeout)(handle, milliseconds);
      };
      while (!wait_a_slice("aclrtSynchronizeStreamWithTimeout", attempt) && std::chrono::steady_clock::now() < end) {
      }
    } catch (const WaitUnfinished&) {  // an aborted collective has the code of a refused wait
    } catch (const c10::Error& error) {
      if (error.msg().find("Hccl") == std::string::npos) raise_later(std::current_exception());
    }
  }
}

void Group::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_closed_, true)) return;
  }
  program_took_notice();
  FirstFailure failure;
  if (!process_ends()) failure.attempt([this] { wait_to_leave(); });
  for (const auto& communicator : communicators()) {
    // The watchdog may not have seen this error yet.
    const bool has_news = !has_failed() && !communicator->is_destroyed() && communicator->error() != HCCL_SUCCESS;
    if (has_news) note_failure(*this, *communicator, "destroy_process_group");
    communicator->destroy();
  }
  review_operations();
  failure.rethrow();
}

void Group::reinit(bool rebuild) {
  const std::lock_guard launch(launch_lock_);
  if (!rebuild) return check_usable("reinit_process_group with rebuild_link=False");
  program_took_notice();
  if (!has_failed()) wait();
  abort("the program called reinit_process_group");
  if (has_failed()) wait_to_leave();
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!is_closed_, "reinit_process_group: the process group '", name_, "' was destroyed");
  communicators_.clear();
  failure_.clear();
  error_.store(c10d::ErrorType::SUCCESS);
  ++generation_;
  meetings_ = 0;
  review_operations();
}

std::string Group::compare_ranks(const std::string& text) {
  try {
    const c10::intrusive_ptr<c10d::Store> store = store_->clone();  // the program may be waiting in the other one
    const auto key = [generation = generation_.load()](int rank) { return c10::str("desync/", generation, "/", rank); };
    store->set(key(rank_), text);
    std::string report = " Ranks of the group:";
    const auto end = std::chrono::steady_clock::now() + kCompareTime;
    for (int rank = 0; rank < size_; ++rank) {
      std::string word = "it has not reported a timeout";
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      try {
        store->wait({key(rank)}, std::max(left, std::chrono::milliseconds(10)));
        word = "it waits in " + store->get_to_str(key(rank));
      } catch (const std::exception&) {
      }
      report += c10::str(" rank ", rank, ": ", word, ";");
    }
    return report;
  } catch (const std::exception& error) {
    return c10::str(" The ranks could not be compared: ", error.what());
  }
}

}  // namespace torch_npu::distributed
