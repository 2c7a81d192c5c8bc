// The place in the client's program that makes a call, such as "train.py:12 in step", for reports (softnpuSetOrigin).
#pragma once

#include <string>

#include "runtime/softnpu.h"

namespace softnpu {

// Where the calling thread is in the client's program, if the client wants to be asked for `reports` (a SOFTNPU_ORIGIN_*); empty
// if nobody knows. Runs code of the client: call it without a lock.
std::string client_origin(unsigned reports);

}  // namespace softnpu
