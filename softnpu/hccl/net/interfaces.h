// Which address of this host other ranks connect to.
#pragma once

#include <string>
#include <vector>

#include "hccl/errors.h"

namespace softnpu::hccl {

struct Interface {
  std::string name;
  std::string address;
  bool is_ipv6 = false;
  bool is_loopback = false;
};

// The interfaces of the host that are up. Link-local IPv6 addresses are left out: they mean nothing on another host.
std::vector<Interface> list_interfaces();

// The best one: ordinary interfaces by name, then those of docker, then the loopback. `names` as HCCL_SOCKET_IFNAME. Empty if
// none fits.
std::string choose_interface(std::vector<Interface> interfaces, const std::string& names, bool prefer_ipv6);

// HCCL_IF_IP, or what choose_interface() says, or 127.0.0.1.
Result<std::string> own_address();

}  // namespace softnpu::hccl
