// Which device library this process uses, and where it came from.
//
// In this order, the first that is there: what TORCH_NPU_LIBRARY_PATH names, installed CANN, softnpu beside libtorch_npu.so. The
// choice is made once, at the first use of the device, and written to the device's log. A library that is there but cannot be
// loaded is an error that says so; nothing is then used instead.
#pragma once

#include <c10/macros/Export.h>

#include <string>

namespace torch_npu::acl {

struct LibraryInfo {
  std::string path;     // of libascendcl.so
  std::string origin;   // env, cann or softnpu
  std::string version;  // the runtime's own, such as 1.15.0
  std::string soc;      // such as Ascend910B3
};

// Loads the library if nobody did; throws one c10::Error if there is none. Initialises no device.
C10_EXPORT const LibraryInfo& library_info();

// The version of a package of CANN, such as 8.5.0; of softnpu, the one whose behaviour it follows. `package` is CANN, RUNTIME,
// COMPILER, HCCL, TOOLKIT, OPP, OPP_KERNEL or DRIVER, else it throws. Empty where CANN cannot say.
C10_EXPORT std::string package_version(const std::string& package);

// libascendcl's handle of dlopen; loads it if nobody did.
void* runtime_library();

}  // namespace torch_npu::acl
