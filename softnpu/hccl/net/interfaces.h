// The address of this host that other ranks connect to.
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

// The interfaces that are up, one entry per address. Link-local IPv6 addresses are left out: another host cannot use them.
std::vector<Interface> list_interfaces();

// The address of the best interface, or an empty text. Order: interfaces that are neither docker's nor the loopback, then
// docker's, then the loopback; within these, addresses of the preferred family first; then by name. `names` is as in
// HCCL_SOCKET_IFNAME.
std::string choose_interface(std::vector<Interface> interfaces, const std::string& names, bool prefer_ipv6);

// HCCL_IF_IP if it is set, else the result of choose_interface(). HCCL_E_NOT_FOUND if HCCL_SOCKET_IFNAME selects no interface.
Result<std::string> own_address();

}  // namespace softnpu::hccl
