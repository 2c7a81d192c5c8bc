// Dumps of operators.
#include "api.h"
#include "runtime/dump/dumps.h"

namespace softnpu::api {

Status aclmdlInitDump() { return Dumps::initialise(); }

Status aclmdlSetDump(const char* dumpCfgPath) { return Dumps::set(dumpCfgPath); }

Status aclmdlFinalizeDump() { return Dumps::finalise(); }

}  // namespace softnpu::api

// acldumpRegCallback refuses, so there is no callback to remove.
void acldumpUnregCallback() {}
