// Profiles by libmsprofiler, which lies beside libascendcl.so (of softnpu or of CANN) and writes folders PROF_*.
//
//   open_profile("result");
//   const uintptr_t profile = start_profile({0}, ACL_AICORE_NONE, ACL_PROF_TASK_TIME);
//   ...
//   stop_profile(profile);        // after the device was synchronised
//   close_profile();
//
// A failure is a c10::Error with the message of the library. Thread-safe.
#pragma once

#include <c10/macros/Export.h>

#include <cstdint>
#include <string>
#include <vector>

namespace torch_npu::acl {

C10_EXPORT void open_profile(const std::string& path);
// Changes a setting of the open profile. `type` is an aclprofConfigType.
C10_EXPORT void set_profile(int type, const std::string& value);
C10_EXPORT uintptr_t start_profile(std::vector<uint32_t> devices, int metrics, uint64_t bits);
// Ends the profile, even if it throws.
C10_EXPORT void stop_profile(uintptr_t profile);
C10_EXPORT void close_profile();

// Adds a mark with this text. Its time is that when the stream (an aclrtStream) reaches the mark.
C10_EXPORT void mark_profile(const std::string& text, void* stream);

// mark_step() begins or ends a step when the stream reaches the call. `step` is the result of make_step().
C10_EXPORT uintptr_t make_step();
C10_EXPORT void mark_step(uintptr_t step, bool begins, void* stream);
C10_EXPORT void destroy_step(uintptr_t step);

}  // namespace torch_npu::acl
