#include "acl/visible_devices.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace torch_npu::acl {
namespace {

constexpr const char* kOfCuda = "CUDA_VISIBLE_DEVICES";
constexpr const char* kOfAscend = "ASCEND_RT_VISIBLE_DEVICES";

std::atomic<bool> follows_cuda{false};

// As CUDA reads the list: the first item that is not a number ends it. Nothing if devices are named by UUIDs.
std::optional<std::string> numbers_of(std::string_view text) {
  if (text.starts_with("GPU-") || text.starts_with("MIG-")) return std::nullopt;
  std::string numbers;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    if (item.empty() || item.find_first_not_of("0123456789 ") != std::string_view::npos) break;
    numbers.append(numbers.empty() ? "" : ",").append(item);
    text.remove_prefix(std::min(item.size() + 1, text.size()));
  }
  return numbers;
}

}  // namespace

void follow_visible_devices_of_cuda(bool on) { follows_cuda.store(on); }

VisibleDevices::VisibleDevices() {
  const char* const list = std::getenv(kOfCuda);
  if (!follows_cuda.load() || list == nullptr || std::getenv(kOfAscend) != nullptr) return;
  const auto numbers = numbers_of(list);
  is_set_ = numbers && setenv(kOfAscend, numbers->c_str(), 0) == 0;
}

VisibleDevices::~VisibleDevices() {
  if (is_set_) unsetenv(kOfAscend);
}

}  // namespace torch_npu::acl
