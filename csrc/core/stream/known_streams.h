// The streams of a device on which this process may have work.
//
//   for (const NPUStream stream : known_streams(device)) stream.synchronize();
//
// Thread-safe.
#pragma once

#include <vector>

#include "core/stream/stream.h"

namespace torch_npu {

// The default stream, the streams of the pools that exist, and the streams that externalStream() wrapped.
std::vector<NPUStream> known_streams(c10::DeviceIndex device);

// Whether the owner of an external stream has destroyed it. Such a stream has no work left. False if the query fails.
bool is_destroyed(NPUStream stream) noexcept;

}  // namespace torch_npu
