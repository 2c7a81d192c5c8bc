// Profiles by libmsprofiler, the library beside libascendcl.so: of softnpu, or of CANN. It writes folders PROF_*.
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
// A setting of the open profile: a number of aclprofConfigType and its text.
C10_EXPORT void set_profile(int type, const std::string& value);
C10_EXPORT uintptr_t start_profile(std::vector<uint32_t> devices, int metrics, uint64_t bits);
// Also if it throws, the profile has ended.
C10_EXPORT void stop_profile(uintptr_t profile);
C10_EXPORT void close_profile();

// Marks a text at the time when the stream (an aclrtStream) reaches it.
C10_EXPORT void mark_profile(const std::string& text, void* stream);

// Begins and ends a step at the time when the stream reaches it. `step` is the result of make_step().
C10_EXPORT uintptr_t make_step();
C10_EXPORT void mark_step(uintptr_t step, bool begins, void* stream);
C10_EXPORT void destroy_step(uintptr_t step);

}  // namespace torch_npu::acl
