// Dumps of operators by the device library: torch.npu.init_dump(), set_dump() and finalize_dump(), and ACL_DUMP_DATA.
//
//   init_dump();
//   set_dump("dump.json");      // from now on
//   finalize_dump();            // waits for all work and its files; does not wait while a stream is captured
//
// Each function throws if the device library returns an error. Thread-safe.
#pragma once

#include <c10/macros/Export.h>

#include <string>

namespace torch_npu {

// Prepares a dump. If ACL_DUMP_DATA has started one, the program takes it over: set_dump() and finalize_dump() change it.
C10_EXPORT void init_dump();
C10_EXPORT void set_dump(const std::string& file);
C10_EXPORT void finalize_dump();

// With ACL_DUMP_DATA=1: begins the dump that acl.json in the current folder describes. A failure prints one sentence, and the
// program continues. Called once, when the device library is initialised.
void start_dump_of_variable() noexcept;

}  // namespace torch_npu
