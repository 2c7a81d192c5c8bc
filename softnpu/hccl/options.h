// Every setting of libhccl, in one place; docs/environment.md has the same rows.
//
// The environment is read once, by the first call of options(). A bad value never stops the program: one warning on stderr names
// the variable, its value, what is allowed and what is used instead.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace softnpu::hccl {

enum class Transport {
  kAuto,    // shared memory within a host, and peers read each other's device memory; TCP between hosts
  kStaged,  // shared memory within a host, through buffers; TCP between hosts
  kTcp,     // TCP everywhere
};

struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
};

struct Options {
  std::string interface_address;        // HCCL_IF_IP; empty: chosen by net/interfaces.h
  std::string interface_names;          // HCCL_SOCKET_IFNAME
  bool prefer_ipv6 = false;             // HCCL_SOCKET_FAMILY
  uint16_t base_port = 60000;           // HCCL_IF_BASE_PORT
  std::vector<PortRange> listen_ports;  // HCCL_HOST_SOCKET_PORT_RANGE; empty: any free port
  uint32_t connect_timeout = 120;       // seconds
  uint32_t exec_timeout = 1836;         // seconds; 0: no limit
  bool check_whitelist = true;          // HCCL_WHITELIST_DISABLE=0
  std::string whitelist_file;           // empty: everybody is on it
  uint32_t buffer_megabytes = 200;      // HCCL_BUFFSIZE
  Transport transport = Transport::kAuto;
  std::string host;  // SOFTNPU_HCCL_HOST
};

const Options& options();

struct OptionDoc {
  std::string_view name;
  std::string_view values;
  std::string_view standard;  // the default, in words
  std::string_view effect;
};
std::span<const OptionDoc> option_docs();

}  // namespace softnpu::hccl
