#include "aten/machinery/launch.h"

#include "acl/library.h"
#include "base/printable.h"
#include "core/graph/graph.h"
#include "core/memory/allocator.h"
#include "core/stream/wait.h"

namespace torch_npu {
namespace {

void report_failure(NPUStream stream, const char* name) {
  constexpr int32_t kShortest = 1;  // in milliseconds; the stream is idle, so this does not wait
  const aclError code = ACL_FN(aclrtSynchronizeStreamWithTimeout)(stream.stream(), kShortest);
  if (code == ACL_SUCCESS || detail::is_timeout(code)) [[likely]]
    return;
  const std::string reason = acl::describe(code, name);
  TORCH_CHECK_INDEX(reason.find("IndexError") == std::string::npos, reason);
  TORCH_CHECK(false, reason);
}

}  // namespace

namespace detail {

EntryPoints find_function(const char* name) {
  void* plan = acl::find_op_symbol((std::string(name) + "GetWorkspaceSize").c_str());
  void* run = acl::find_op_symbol(name);
  TORCH_CHECK_NOT_IMPLEMENTED(plan != nullptr && run != nullptr, "The operator library beside ", acl::library_info().path,
                              " has no ", name, ", which this operator needs. Another device library may have it.");
  return {plan, reinterpret_cast<RunFunction>(run)};
}

std::string join(std::initializer_list<std::string> arguments) {
  std::string text;
  for (const std::string& argument : arguments) text += (text.empty() ? "" : ", ") + argument;
  return text;
}

void refuse(const char* name, aclnnStatus status, std::initializer_list<std::string> arguments) {
  const std::string reason = acl::describe(static_cast<aclError>(status), name);
  const auto says = [&](const char* words) { return reason.find(words) != std::string::npos; };
  const bool is_dtype = says("not implemented for") || says("not supported for complex types");
  const std::string given = printable(join(arguments));
  TORCH_CHECK_NOT_IMPLEMENTED(!is_dtype, reason, "\nArguments: ", given);
  TORCH_CHECK(false, reason, "\nArguments: ", given);
}

void run_with_workspace(NPUStream stream, const char* name, RunFunction run, uint64_t workspace_size, aclOpExecutor* executor) {
  const at::DataPtr workspace = allocate_workspace(workspace_size);
  acl::check(static_cast<aclError>(run(workspace.get(), workspace_size, executor, stream.stream())), name);
}

}  // namespace detail

void report_if_over(const char* name) {
  if (failures_name_their_launch()) return;
  const NPUStream stream = getCurrentNPUStream();
  if (is_capturing(stream)) return;
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  ACL_CALL(aclrtStreamQuery, stream.stream(), &status);
  if (status == ACL_STREAM_STATUS_COMPLETE) report_failure(stream, name);
}

}  // namespace torch_npu
