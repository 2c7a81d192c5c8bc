// Streams as Python passes them: the (stream_id, device_index, device_type) of a torch.Stream.
//
//   module.def("_npu_set_stream", [](int64_t id, int64_t device, int64_t type) { ...unpack_stream(id, device, type)... });
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "core/stream/stream.h"

namespace torch_npu::bindings {

inline pybind11::tuple pack_stream(NPUStream stream) {
  const c10::StreamData3 data = stream.unwrap().pack3();
  return pybind11::make_tuple(data.stream_id, data.device_index, static_cast<int64_t>(data.device_type));
}

// Throws if there is no such device, or the device type is another one.
inline NPUStream unpack_stream(int64_t id, int64_t device, int64_t type) {
  return NPUStream(c10::Stream::unpack3(id, checked_device(device), static_cast<c10::DeviceType>(type)));
}

}  // namespace torch_npu::bindings
