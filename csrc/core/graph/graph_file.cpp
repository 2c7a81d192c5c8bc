#include "core/graph/graph_file.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <filesystem>

#include "acl/symbol.h"
#include "base/options.h"
#include "core/device/device.h"

namespace torch_npu {
namespace {

constinit std::atomic<bool> file_failed{false};
constexpr int64_t kWithoutTensors = 3;

}  // namespace

bool writes_graph_files() { return options().graph_files != 0 && !file_failed.load(std::memory_order_relaxed); }

void write_graph_file(aclmdlRI graph, c10::DeviceIndex device) noexcept {
  static constinit std::atomic<int> graphs{0};
  try {
    const auto folder = std::filesystem::current_path() / c10::str("pid_", ::getpid(), "_deviceid_", int(device));
    std::filesystem::create_directories(folder);
    const auto path = folder / c10::str("graph_", graphs.fetch_add(1, std::memory_order_relaxed), ".json");
    const BoundDevice bound(device);
    const uint32_t flags =
        options().graph_files == kWithoutTensors ? ACL_MDLRI_DEBUG_JSON_PRINT_SUMMARY : ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE;
    ACL_CALL(aclmdlRIDebugJsonPrint, graph, path.c_str(), flags);
  } catch (const std::exception& error) {
    if (file_failed.exchange(true)) return;
    const auto* known = dynamic_cast<const c10::Error*>(&error);
    TORCH_WARN("DUMP_GE_GRAPH: the captured graph was not written, and no later one will be: ",
               known != nullptr ? known->what_without_backtrace() : error.what(), "; run in a folder that can be written");
  }
}

}  // namespace torch_npu
