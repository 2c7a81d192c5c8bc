// The device library of this process.
//
//   library_info().path                          // of libascendcl.so
//
// It is the first that exists of: the library that TORCH_NPU_LIBRARY_PATH names, installed CANN, softnpu beside libtorch_npu.so.
// The choice is made once, at the first use of the device, and written to the log of the library. If the chosen library cannot be
// loaded an error is thrown, and no other library is tried. Thread-safe.
#pragma once

#include <c10/macros/Export.h>

#include <string>

namespace torch_npu::acl {

struct LibraryInfo {
  std::string path;     // of libascendcl.so
  std::string origin;   // env, cann or softnpu
  std::string version;  // of the runtime, such as 1.15.0
  std::string soc;      // such as Ascend910B3
};

// Loads the library at the first call. Throws a c10::Error if there is none. Initialises no device.
C10_EXPORT const LibraryInfo& library_info();

// The version of a package of CANN, such as 8.5.0. With softnpu, the version of CANN whose behaviour it follows. `package` is
// CANN, RUNTIME, COMPILER, HCCL, TOOLKIT, OPP, OPP_KERNEL or DRIVER; others throw. Empty if CANN does not report the version.
C10_EXPORT std::string package_version(const std::string& package);

// The dlopen handle of libascendcl.so. Loads it at the first call.
void* runtime_library();

// The dlopen handle of libhccl.so, the collective library beside libascendcl.so. Loads it at the first call. Throws a c10::Error
// if there is none.
void* collective_library();
// Whether there is a libhccl.so beside libascendcl.so. Loads libascendcl.so only. False if there is no device library.
C10_EXPORT bool has_collective_library() noexcept;

// The dlopen handle of libmsprofiler.so, the profiling library beside libascendcl.so. Loads it at the first call. Throws a
// c10::Error if there is none.
void* profiling_library();

}  // namespace torch_npu::acl
