#include "core/operator_dump.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <exception>

#include "acl/symbol.h"
#include "base/first_failure.h"
#include "base/options.h"
#include "core/stream/all_work.h"

namespace torch_npu {
namespace {

constexpr const char* kConfig = "acl.json";
constinit std::atomic<bool> is_of_variable{false};  // the active dump was started by ACL_DUMP_DATA

}  // namespace

void init_dump() {
  if (!is_of_variable.exchange(false)) ACL_CALL(aclmdlInitDump);
}

void set_dump(const std::string& file) { ACL_CALL(aclmdlSetDump, file.c_str()); }

void finalize_dump() {
  is_of_variable.store(false);
  FirstFailure failure;
  failure.attempt([] {
    const NoCaptures no_captures;
    if (no_captures.holds()) wait_for_all_work();
  });
  failure.attempt([] { ACL_CALL(aclmdlFinalizeDump); });
  failure.rethrow();
}

void start_dump_of_variable() noexcept {
  if (!options().dump_operators) return;
  try {
    ACL_CALL(aclmdlInitDump);
    is_of_variable.store(true);
    ACL_CALL(aclmdlSetDump, kConfig);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const c10::Error*>(&error);
    TORCH_WARN("ACL_DUMP_DATA=1: operators are not dumped: ", known != nullptr ? known->what_without_backtrace() : error.what(),
               "; write acl.json in the current folder, or unset the variable");
  }
}

}  // namespace torch_npu
