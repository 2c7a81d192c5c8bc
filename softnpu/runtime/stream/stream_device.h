// The part of a device that contexts, streams and graphs use.
//
//   text("device ", stream.device().number());
//
// Every StreamDevice is the base of a Device (device/device.h). device_of() returns the Device of a context or stream.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace softnpu {

// The number of cores of each kind that tasks may use. It is stored and returned, and has no effect on the software device.
using CoreLimits = std::array<std::atomic<uint32_t>, 2>;

class StreamDevice {
 public:
  // `number` counts the visible devices of this process, `host_number` the devices of the host.
  StreamDevice(int number, int host_number) : number_(number), host_number_(host_number) {}
  StreamDevice(const StreamDevice&) = delete;
  StreamDevice& operator=(const StreamDevice&) = delete;

  int number() const { return number_; }
  int host_number() const { return host_number_; }

  CoreLimits core_limits{};

 private:
  const int number_;
  const int host_number_;
};

}  // namespace softnpu
