// Dumps of operators by the device library: torch.npu.init_dump(), set_dump() and finalize_dump(), and ACL_DUMP_DATA.
//
//   init_dump();
//   set_dump("dump.json");      // from now on
//   finalize_dump();            // waits for all work, unless a stream is captured, so that its files are complete
//
// Each throws what the device library refuses. Thread-safe.
#pragma once

#include <c10/macros/Export.h>

#include <string>

namespace torch_npu {

// Takes over the dump of ACL_DUMP_DATA, if there is one.
C10_EXPORT void init_dump();
C10_EXPORT void set_dump(const std::string& file);
C10_EXPORT void finalize_dump();

// With ACL_DUMP_DATA=1: begins the dump that acl.json in the current folder describes. A failure is one sentence, and the program
// goes on. Called once, when the device library is initialised.
void start_dump_of_variable() noexcept;

}  // namespace torch_npu
