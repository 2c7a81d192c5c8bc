// The streams of a device that this process can have work on: the default one, those of the pools that were handed out, and those
// that externalStream() wrapped.
#pragma once

#include <vector>

#include "core/stream/stream.h"

namespace torch_npu {

std::vector<NPUStream> known_streams(c10::DeviceIndex device);

// Whether the owner of the stream has destroyed it: it has no work left then. False if the device cannot be asked.
bool is_destroyed(NPUStream stream) noexcept;

}  // namespace torch_npu
