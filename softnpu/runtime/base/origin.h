// The place in the client's program that makes a call, for reports (softnpuSetOrigin).
//
//   client_origin(SOFTNPU_ORIGIN_RACES);      // "train.py:12 in step"
#pragma once

#include <string>

#include "runtime/softnpu.h"

namespace softnpu {

// Calls the client's function, if one is set for `reports` (a SOFTNPU_ORIGIN_*). Empty if there is none or it does not know the
// place. Call it without holding a lock, since it runs code of the client.
std::string client_origin(unsigned reports);

}  // namespace softnpu
