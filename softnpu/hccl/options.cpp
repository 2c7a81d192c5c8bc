#include "hccl/options.h"

#include <arpa/inet.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/status.h"

namespace softnpu::hccl {
namespace {

template <typename Number>
bool parse_number(std::string_view value, Number least, Number most, Number& out) {
  Number number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least || number > most) return false;
  out = number;
  return true;
}

bool parse_address(std::string_view value, std::string& out) {
  in6_addr unused;
  const std::string address(value);
  if (inet_pton(AF_INET, address.c_str(), &unused) != 1 && inet_pton(AF_INET6, address.c_str(), &unused) != 1) return false;
  out = address;
  return true;
}

bool parse_ports(std::string_view value, std::vector<PortRange>& out) {
  std::vector<PortRange> ranges;
  if (value == "auto") {
    out.clear();
    return true;
  }
  while (!value.empty()) {
    const std::string_view item = value.substr(0, value.find(','));
    value.remove_prefix(std::min(value.size(), item.size() + 1));
    const size_t dash = item.find('-');
    PortRange range;
    if (!parse_number<uint16_t>(item.substr(0, dash), 1, 65535, range.first)) return false;
    range.last = range.first;
    if (dash != std::string_view::npos && !parse_number(item.substr(dash + 1), range.first, uint16_t{65535}, range.last))
      return false;
    ranges.push_back(range);
  }
  out = ranges;
  return !ranges.empty();
}

bool parse_transport(std::string_view value, Transport& out) {
  constexpr std::array<std::string_view, 3> kNames = {"auto", "staged", "tcp"};
  for (size_t index = 0; index < kNames.size(); ++index) {
    if (value == kNames[index]) {
      out = static_cast<Transport>(index);
      return true;
    }
  }
  return false;
}

bool parse_text(std::string_view value, std::string& out) {
  out = value;
  return true;
}

bool parse_family(std::string_view value, bool& prefer_ipv6) {
  prefer_ipv6 = value == "AF_INET6";
  return prefer_ipv6 || value == "AF_INET";
}

bool parse_disable(std::string_view value, bool& check) {
  check = value == "0";
  return check || value == "1";
}

struct Setting {
  OptionDoc doc;
  bool (*parse)(std::string_view value, Options& options);
};

constexpr Setting kSettings[] = {
    {{"HCCL_IF_IP", "an IPv4 or IPv6 address of this host", "chosen, see below", "the address that other ranks connect to"},
     [](std::string_view value, Options& o) { return parse_address(value, o.interface_address); }},
    {{"HCCL_SOCKET_IFNAME", "names of interfaces separated by commas; ^ in front excludes them, = matches whole names", "all",
      "the interfaces of which an address is chosen"},
     [](std::string_view value, Options& o) { return parse_text(value, o.interface_names); }},
    {{"HCCL_SOCKET_FAMILY", "AF_INET or AF_INET6", "AF_INET", "which kind of address is preferred"},
     [](std::string_view value, Options& o) { return parse_family(value, o.prefer_ipv6); }},
    {{"HCCL_IF_BASE_PORT", "a port from 1024 to 65520", "60000", "with a rank table, rank 0 listens there"},
     [](std::string_view value, Options& o) { return parse_number<uint16_t>(value, 1024, 65520, o.base_port); }},
    {{"HCCL_HOST_SOCKET_PORT_RANGE", "ports and ranges such as 50000-50010 separated by commas, or auto", "auto",
      "the ports that ranks listen at; auto: any free one"},
     [](std::string_view value, Options& o) { return parse_ports(value, o.listen_ports); }},
    {{"HCCL_CONNECT_TIMEOUT", "seconds, a whole number from 1 to 7200", "120", "how long a new communicator waits for its ranks"},
     [](std::string_view value, Options& o) { return parse_number<uint32_t>(value, 1, 7200, o.connect_timeout); }},
    {{"HCCL_EXEC_TIMEOUT", "seconds, a whole number from 0 to 2147483647; 0 for no limit", "1836",
      "a collective in which nothing moves for longer fails"},
     [](std::string_view value, Options& o) { return parse_number<uint32_t>(value, 0, 2147483647, o.exec_timeout); }},
    {{"HCCL_WHITELIST_DISABLE", "0 or 1", "0", "1: HCCL_WHITELIST_FILE is not looked at"},
     [](std::string_view value, Options& o) { return parse_disable(value, o.check_whitelist); }},
    {{"HCCL_WHITELIST_FILE", "a JSON file with a list host_ip", "none", "only hosts of the list may connect; none: all may"},
     [](std::string_view value, Options& o) { return parse_text(value, o.whitelist_file); }},
    {{"HCCL_BUFFSIZE", "MiB, a whole number from 1 to 65536", "200",
      "shared memory of a communicator between ranks of one host at most"},
     [](std::string_view value, Options& o) { return parse_number<uint32_t>(value, 1, 65536, o.buffer_megabytes); }},
    {{"SOFTNPU_HCCL_TRANSPORT", "auto, staged or tcp", "auto",
      "auto: ranks of one host read each other's device memory; staged: they pass data through shared memory; tcp: all use TCP"},
     [](std::string_view value, Options& o) { return parse_transport(value, o.transport); }},
    {{"SOFTNPU_HCCL_HOST", "a name", "none", "ranks with different names use TCP as if they were on different hosts; for tests"},
     [](std::string_view value, Options& o) { return parse_text(value, o.host); }},
};

constexpr size_t kCount = std::size(kSettings);

Options* load() {
  auto* options = new Options;
  for (const Setting& setting : kSettings) {
    const char* value = std::getenv(setting.doc.name.data());
    if (value == nullptr || *value == '\0' || setting.parse(value, *options)) continue;
    std::fputs(text("[hccl] bad value '", value, "' of ", setting.doc.name, "; allowed: ", setting.doc.values, "; using ",
                    setting.doc.standard, "\n")
                   .c_str(),
               stderr);
  }
  return options;
}

}  // namespace

const Options& options() {
  static const Options* const loaded = load();
  return *loaded;
}

std::span<const OptionDoc> option_docs() {
  static const auto docs = [] {
    std::array<OptionDoc, kCount> rows;
    for (size_t index = 0; index < kCount; ++index) rows[index] = kSettings[index].doc;
    return rows;
  }();
  return docs;
}

}  // namespace softnpu::hccl
