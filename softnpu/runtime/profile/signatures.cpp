#include "runtime/profile/signatures.h"

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/profile/record_names.h"

namespace softnpu {
namespace {

constexpr int64_t kIsWritten = int64_t{1} << 40;
constexpr size_t kMostSignatures = 100'000;  // further signatures count as known

struct Signatures {
  std::mutex mutex;                                                  // guards the members below
  std::map<std::string_view, std::set<std::vector<int64_t>>> known;  // the key is a name that is never freed
  size_t count = 0;
};

// Returns whether the signature is new, and whether the operator had other signatures before.
std::pair<bool, bool> add_signature(const char* name, const int64_t* tensors, uint32_t words) {
  static auto* const signatures = new Signatures;
  const std::lock_guard guard(signatures->mutex);
  if (signatures->count >= kMostSignatures) return {false, false};
  auto& known = signatures->known[name];
  const bool had_others = !known.empty();
  const bool is_new = known.insert({tensors, tensors + words}).second;
  signatures->count += is_new;
  return {is_new, had_others};
}

void append_tensors(std::string& line, const char* kind, const int64_t* tensors, uint32_t words, bool written) {
  int number = 0;
  for (uint32_t at = 0; at < words;) {
    const int64_t head = tensors[at++];
    const auto rank = uint32_t(head & 0xff);
    if (((head & kIsWritten) != 0) == written) {
      line += text(kind, "[", number++, "]: ", data_type_name(head >> 8 & 0xffff), " ", format_name(head >> 24 & 0xffff), " [");
      for (uint32_t dim = 0; dim < rank; ++dim) line += text(dim == 0 ? "" : ",", tensors[at + dim]);
      line += "] ";
    }
    at += rank;
  }
}

}  // namespace

void log_signature(const char* name, const int64_t* tensors, uint32_t words) {
  const auto [is_new, had_others] = add_signature(name, tensors, words);
  if (!is_new) return;
  const std::string type(operator_type(name));
  std::string line = text(":aclOp = OpType: ", type, ", ");
  append_tensors(line, "InputDesc", tensors, words, false);
  append_tensors(line, "OutputDesc", tensors, words, true);
  // The published reader of logs drops the last character of the line, so the line ends with a blank.
  acl_log(LogLevel::kInfo, {__FILE__, __LINE__, "aclopCompile"}, line);
  if (had_others) {
    acl_log(LogLevel::kInfo, {__FILE__, __LINE__, "aclMatchOpModel"}, "Match op inputs/type failed. To compile op: " + type);
  }
}

}  // namespace softnpu
