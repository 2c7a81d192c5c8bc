#include "acl/msprofiler.h"

#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <dlfcn.h>

#include "acl/acl_prof.h"
#include "acl/library.h"
#include "acl/symbol.h"

namespace torch_npu::acl {
namespace {

void* require_profiling_symbol(const char* name) {
  if (void* const symbol = dlsym(profiling_library(), name)) return symbol;
  TORCH_CHECK(false, "libmsprofiler.so beside ", library_info().path, " has no function ", name,
              ": it is too old, or its installation is incomplete. Install the device library again, in a newer version.");
}

}  // namespace

#define PROF_FN(name) (Symbol<decltype(&::name), #name, require_profiling_symbol>::get())
#define PROF_CALL(name, ...) check(PROF_FN(name)(__VA_ARGS__), #name)

void open_profile(const std::string& path) { PROF_CALL(aclprofInit, path.c_str(), path.size()); }

void set_profile(int type, const std::string& value) {
  PROF_CALL(aclprofSetConfig, aclprofConfigType(type), value.c_str(), value.size());
}

uintptr_t start_profile(std::vector<uint32_t> devices, int metrics, uint64_t bits) {
  const auto count = static_cast<uint32_t>(devices.size());
  aclprofConfig* const config = PROF_FN(aclprofCreateConfig)(devices.data(), count, aclprofAicoreMetrics(metrics), nullptr, bits);
  if (config == nullptr) fail(ACL_ERROR_INVALID_PROFILING_CONFIG, "aclprofCreateConfig");
  if (const aclError code = PROF_FN(aclprofStart)(config); code != ACL_SUCCESS) {
    PROF_FN(aclprofDestroyConfig)(config);
    fail(code, "aclprofStart");
  }
  return reinterpret_cast<uintptr_t>(config);
}

void stop_profile(uintptr_t profile) {
  auto* const config = reinterpret_cast<const aclprofConfig*>(profile);
  const auto destroy = c10::make_scope_exit([config] { PROF_FN(aclprofDestroyConfig)(config); });
  PROF_CALL(aclprofStop, config);
}

void close_profile() { PROF_CALL(aclprofFinalize); }

void mark_profile(const std::string& text, void* stream) { PROF_CALL(aclprofMarkEx, text.data(), text.size(), stream); }

uintptr_t make_step() {
  aclprofStepInfo* const step = PROF_FN(aclprofCreateStepInfo)();
  TORCH_CHECK(step != nullptr, "aclprofCreateStepInfo failed: the host is out of memory");
  return reinterpret_cast<uintptr_t>(step);
}

void mark_step(uintptr_t step, bool begins, void* stream) {
  PROF_CALL(aclprofGetStepTimestamp, reinterpret_cast<aclprofStepInfo*>(step), begins ? ACL_STEP_START : ACL_STEP_END, stream);
}

void destroy_step(uintptr_t step) { PROF_FN(aclprofDestroyStepInfo)(reinterpret_cast<aclprofStepInfo*>(step)); }

#undef PROF_CALL
#undef PROF_FN

}  // namespace torch_npu::acl
