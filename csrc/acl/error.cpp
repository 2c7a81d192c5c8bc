#include "acl/error.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>

#include "acl/error_codes/rt_error_codes.h"
#include "acl/symbol.h"
#include "base/options.h"
#include "base/printable.h"
#include "error_names.h"

namespace torch_npu::acl {
namespace {

constinit std::array<std::atomic<Annotator>, 2> annotators{};  // by AnnotatorPlace

// The last tasks whose failures were described.
class DescribedTasks {
 public:
  static DescribedTasks& get() {
    static DescribedTasks* const tasks = new DescribedTasks;
    return *tasks;
  }

  // False if it was added before.
  bool add(std::string task) {
    const std::lock_guard lock(mutex_);
    if (std::find(tasks_.begin(), tasks_.end(), task) != tasks_.end()) return false;
    tasks_.push_back(std::move(task));
    if (tasks_.size() > kMost) tasks_.pop_front();
    return true;
  }

 private:
  static constexpr size_t kMost = 64;

  std::mutex mutex_;
  std::deque<std::string> tasks_;
};

// The failed task in a message of the software device, "device 0, stream 1, task 5". It is the first task that the message names:
// the failure of a wait names the task that was waited for before the wait itself. Empty if the message names no task.
std::string task_in(const std::string& message) {
  constexpr std::string_view kBegin = " (device ";
  for (size_t at = message.find(kBegin); at != std::string::npos; at = message.find(kBegin, at + 1)) {
    int device = 0, stream = 0;
    unsigned long long task = 0;
    if (std::sscanf(message.c_str() + at, " (device %d, stream %d, task %llu", &device, &stream, &task) == 3) {
      return c10::str("device ", device, ", stream ", stream, ", task ", task);
    }
  }
  return {};
}

// The recent message without the function and the code around it, which the text of the exception has already.
std::string recent_message(const std::string& function, const std::string& code_and_name) {
  const char* recent = ACL_FN(aclGetRecentErrMsg)();
  std::string_view message = recent == nullptr ? std::string_view() : std::string_view(recent);
  const std::string prefix = function + ": ", suffix = " [" + code_and_name + "]";
  if (message.starts_with(prefix)) message.remove_prefix(prefix.size());
  if (message.ends_with(suffix)) message.remove_suffix(suffix.size());
  return std::string(message);
}

// With TORCH_NPU_COMPACT_ERROR_OUTPUT=1 the first line; the whole text then goes to the log of the device library.
std::string compact(std::string text) {
  const size_t end = text.find('\n');
  if (!options().compact_errors || end == std::string::npos) return text;
  ACL_FN(aclAppLog)(ACL_ERROR, __func__, __FILE_NAME__, __LINE__, "%s", text.c_str());
  return text.substr(0, end);
}

struct Described {
  std::string text;
  bool is_new;  // the task was not described before
};

Described describe_and_note(aclError code, const char* function) {
  const char* known = softnpu::error_name(code);
  const std::string name = known == nullptr ? "an unknown code" : known;
  const std::string message = recent_message(function, c10::str(code, " ", name));
  std::string task = task_in(message);
  const bool is_new = task.empty() || DescribedTasks::get().add(std::move(task));
  std::string text = c10::str(function, " failed with ", name, " (", code, ")", message.empty() ? "" : ": ", message);
  if (logs(LogPart::kAcl, LogLevel::kError)) log(LogPart::kAcl, LogLevel::kError, text);
  std::string notes;
  for (const std::atomic<Annotator>& annotator : annotators) {
    if (const Annotator more = annotator.load(std::memory_order_acquire)) notes += more(code, function, text);
  }
  text += notes;
  return {compact(printable(text)), is_new};
}

}  // namespace

std::string describe(aclError code, const char* function) { return describe_and_note(code, function).text; }

std::optional<std::string> describe_once(aclError code, const char* function) {
  Described described = describe_and_note(code, function);
  return described.is_new ? std::optional(std::move(described.text)) : std::nullopt;
}

void fail(aclError code, const char* function) {
  const std::string text = describe(code, function);
  TORCH_CHECK_WITH(OutOfMemoryError, !is_out_of_memory(code), text);
  TORCH_CHECK_NOT_IMPLEMENTED(text.find("not implemented for") == std::string::npos, text);
  TORCH_CHECK(false, text);
}

void warn_if_failed(aclError code, const char* function) noexcept {
  if (code == ACL_SUCCESS) return;
  try {
    const std::string text = describe(code, function);
    if (options().warnings) TORCH_WARN(text);
  } catch (...) {  // Python may turn a warning into an exception
  }
}

bool is_out_of_memory(aclError code) {
  return code == ACL_ERROR_RT_MEMORY_ALLOCATION || code == ACL_ERROR_BAD_ALLOC || code == ACL_ERROR_STORAGE_OVER_LIMIT;
}

bool is_failed_work(aclError code) {
  if (code == ACL_SUCCESS || code == ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED) return false;
  if (code == ACL_ERROR_RT_WAIT_TIMEOUT || code == ACL_ERROR_RT_TASK_TIMEOUT) return true;
  const bool is_about_call = code >= 100000 && code < 200000;
  return !is_about_call && code != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT && code != ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
}

void set_annotator(AnnotatorPlace place, Annotator annotator) {
  annotators[static_cast<size_t>(place)].store(annotator, std::memory_order_release);
}

}  // namespace torch_npu::acl
