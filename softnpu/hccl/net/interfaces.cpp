#include "hccl/net/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <tuple>

#include "hccl/options.h"
#include "runtime/base/parse.h"

namespace softnpu::hccl {
namespace {

// `names` is a list such as "a,b", "=a,b", "^a" or "^=a".
bool is_selected(const std::string& interface, std::string_view names) {
  if (names.empty()) return true;
  const bool excludes = names.starts_with('^');
  if (excludes) names.remove_prefix(1);
  const bool is_exact = names.starts_with('=');
  if (is_exact) names.remove_prefix(1);
  for (const std::string_view name : split(names)) {
    if (is_exact ? interface == name : interface.starts_with(name)) return !excludes;
  }
  return excludes;
}

int preference(const Interface& interface) {
  if (interface.is_loopback) return 2;
  return interface.name.starts_with("docker") ? 1 : 0;
}

}  // namespace

std::vector<Interface> list_interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
    const void* const number = family == AF_INET
                                   ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr)
                                   : static_cast<const void*>(&v6->sin6_addr);
    char address[INET6_ADDRSTRLEN] = "";
    inet_ntop(family, number, address, sizeof address);
    found.push_back({entry->ifa_name, address, family == AF_INET6, (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(list);
  return found;
}

std::string choose_interface(std::vector<Interface> interfaces, const std::string& names, bool prefer_ipv6) {
  std::erase_if(interfaces, [&](const Interface& interface) { return !is_selected(interface.name, names); });
  const auto rank = [&](const Interface& interface) {
    return std::tuple(preference(interface), interface.is_ipv6 != prefer_ipv6, interface.name);
  };
  const auto best = std::min_element(interfaces.begin(), interfaces.end(),
                                     [&](const Interface& a, const Interface& b) { return rank(a) < rank(b); });
  return best == interfaces.end() ? "" : best->address;
}

Result<std::string> own_address() {
  const Options& settings = options();
  if (!settings.interface_address.empty()) return settings.interface_address;
  const std::string chosen = choose_interface(list_interfaces(), settings.interface_names, settings.prefer_ipv6);
  if (!chosen.empty()) return chosen;
  if (settings.interface_names.empty()) return std::string("127.0.0.1");
  return Status(HCCL_E_NOT_FOUND, text("HCCL_SOCKET_IFNAME '", settings.interface_names, "' selects no interface that is up"));
}

}  // namespace softnpu::hccl
