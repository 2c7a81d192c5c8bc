#include "acl/error.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "acl/error_codes/rt_error_codes.h"
#include "acl/symbol.h"
#include "core/options.h"
#include "error_names.h"

namespace torch_npu::acl {
namespace {

std::atomic<Annotator> annotator{nullptr};

// Without the function and code that the device may have put around it: the exception's text has them already.
std::string recent_message(const std::string& function, const std::string& code_and_name) {
  const char* recent = ACL_FN(aclGetRecentErrMsg)();
  std::string_view message = recent == nullptr ? std::string_view() : std::string_view(recent);
  const std::string prefix = function + ": ", suffix = " [" + code_and_name + "]";
  if (message.starts_with(prefix)) message.remove_prefix(prefix.size());
  if (message.ends_with(suffix)) message.remove_suffix(suffix.size());
  return std::string(message);
}

// The first line, if TORCH_NPU_COMPACT_ERROR_OUTPUT asks for that; the whole text then goes to the device's log.
std::string compact(std::string text) {
  const size_t end = text.find('\n');
  if (!options().compact_errors || end == std::string::npos) return text;
  ACL_FN(aclAppLog)(ACL_ERROR, __func__, __FILE_NAME__, __LINE__, "%s", text.c_str());
  return text.substr(0, end);
}

}  // namespace

std::string describe(aclError code, const char* function) {
  const char* known = softnpu::error_name(code);
  const std::string name = known == nullptr ? "an unknown code" : known;
  const std::string message = recent_message(function, c10::str(code, " ", name));
  std::string text = c10::str(function, " failed with ", name, " (", code, ")", message.empty() ? "" : ": ", message);
  if (logs(LogPart::kAcl, LogLevel::kError)) log(LogPart::kAcl, LogLevel::kError, text);
  if (const Annotator more = annotator.load(std::memory_order_acquire)) text += more(function, text);
  return compact(std::move(text));
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
  } catch (...) {  // a warning turned into an error has nobody to go to
  }
}

bool is_out_of_memory(aclError code) {
  return code == ACL_ERROR_RT_MEMORY_ALLOCATION || code == ACL_ERROR_BAD_ALLOC || code == ACL_ERROR_STORAGE_OVER_LIMIT;
}

void set_annotator(Annotator value) { annotator.store(value, std::memory_order_release); }

}  // namespace torch_npu::acl
