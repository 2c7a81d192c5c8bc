// Every setting of libhccl, in one place. docs/environment.md has the same rows.
//
// The environment is read once, by the first call of options(). A bad value never stops the program: one warning on stderr has
// the variable, its value, the allowed values and the value that is used instead.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/option_doc.h"

namespace softnpu::hccl {

enum class Transport {
  kAuto,    // within a host: shared memory, and large data is read from the peer's device memory; between hosts: TCP
  kStaged,  // within a host: shared memory; between hosts: TCP
  kTcp,     // TCP everywhere
};

struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
};

struct Options {
  std::string interface_address;        // HCCL_IF_IP; empty: net/interfaces.h chooses one
  std::string interface_names;          // HCCL_SOCKET_IFNAME
  bool prefer_ipv6 = false;             // HCCL_SOCKET_FAMILY
  uint16_t base_port = 60000;           // HCCL_IF_BASE_PORT
  std::vector<PortRange> listen_ports;  // HCCL_HOST_SOCKET_PORT_RANGE, else HCCL_IF_BASE_PORT; empty: any free port
  uint32_t connect_timeout = 120;       // seconds
  uint32_t exec_timeout = 1836;         // seconds; 0: no limit
  bool check_whitelist = true;          // HCCL_WHITELIST_DISABLE=0
  std::string whitelist_file;           // empty: every host may connect
  uint32_t buffer_megabytes = 200;      // HCCL_BUFFSIZE
  Transport transport = Transport::kAuto;
  std::string host;  // SOFTNPU_HCCL_HOST
};

// Thread-safe; the reference stays valid until the process ends.
const Options& options();

// The rows of docs/environment.md.
std::span<const OptionDoc> option_docs();

}  // namespace softnpu::hccl
