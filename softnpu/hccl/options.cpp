#include "hccl/options.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "hccl/net/socket.h"
#include "runtime/base/parse.h"
#include "runtime/base/status.h"

namespace softnpu::hccl {
namespace {

constexpr std::string_view kTransportNames[] = {"auto", "staged", "tcp"};  // in the order of Transport
constexpr std::string_view kFamilyNames[] = {"AF_INET", "AF_INET6"};       // false and true of prefer_ipv6
constexpr std::string_view kWhitelistNames[] = {"1", "0"};                 // false and true of check_whitelist
constexpr uint16_t kBasePorts = 16;                                        // how many ports HCCL_IF_BASE_PORT reserves

bool parse_text(std::string_view value, std::string& out) {
  out = value;
  return true;
}

bool parse_address(std::string_view value, std::string& out) { return is_address(std::string(value)) && parse_text(value, out); }

// The first port is for rank 0 of a rank table, which all ranks must find without being told; the others are for the ranks.
bool parse_base_port(std::string_view value, Options& options) {
  if (!parse_number<uint16_t>(value, 1024, 65520, options.base_port)) return false;
  options.listen_ports = {
      {static_cast<uint16_t>(options.base_port + 1), static_cast<uint16_t>(options.base_port + kBasePorts - 1)}};
  return true;
}

bool parse_ports(std::string_view value, std::vector<PortRange>& out) {
  std::vector<PortRange> ranges;
  if (value == "auto") {
    out.clear();
    return true;
  }
  for (const std::string_view item : split(value)) {
    const size_t dash = item.find('-');
    PortRange range;
    if (!parse_number<uint16_t>(item.substr(0, dash), 1, 65535, range.first)) return false;
    range.last = range.first;
    const bool is_range = dash != std::string_view::npos;
    if (is_range && !parse_number(item.substr(dash + 1), range.first, uint16_t{65535}, range.last)) return false;
    ranges.push_back(range);
  }
  out = ranges;
  return true;
}

// One environment variable. `parse` leaves the default in place and returns false for a bad value.
struct Setting {
  OptionDoc doc;
  bool (*parse)(std::string_view value, Options& options);
};

constexpr std::array kSettings = {
    Setting{
        {"HCCL_IF_IP", "an IPv4 or IPv6 address of this host", "chosen, see below", "the address that other ranks connect to"},
        [](std::string_view value, Options& o) { return parse_address(value, o.interface_address); }},
    Setting{{"HCCL_SOCKET_IFNAME", "names of interfaces separated by commas; ^ in front excludes them, = matches whole names",
             "all", "the interfaces from which an address is chosen"},
            [](std::string_view value, Options& o) { return parse_text(value, o.interface_names); }},
    Setting{{"HCCL_SOCKET_FAMILY", "AF_INET or AF_INET6", "AF_INET", "the preferred kind of address, IPv4 or IPv6"},
            [](std::string_view value, Options& o) { return parse_name(value, kFamilyNames, o.prefer_ipv6); }},
    Setting{{"HCCL_IF_BASE_PORT", "a port from 1024 to 65520", "60000",
             "the first of 16 ports: rank 0 of a rank table listens at it; if the variable is set, ranks listen at the other 15"},
            [](std::string_view value, Options& o) { return parse_base_port(value, o); }},
    Setting{{"HCCL_HOST_SOCKET_PORT_RANGE", "ports and ranges such as 50000-50010 separated by commas, or auto", "auto",
             "the ports that ranks listen at, one for each process; auto: any free port"},
            [](std::string_view value, Options& o) { return parse_ports(value, o.listen_ports); }},
    Setting{{"HCCL_CONNECT_TIMEOUT", "seconds, a whole number from 1 to 7200", "120",
             "how long a new communicator waits for its ranks"},
            [](std::string_view value, Options& o) { return parse_number<uint32_t>(value, 1, 7200, o.connect_timeout); }},
    Setting{{"HCCL_EXEC_TIMEOUT", "seconds, a whole number from 0 to 2147483647; 0 for no limit", "1836",
             "a collective that makes no progress for this time fails"},
            [](std::string_view value, Options& o) { return parse_number<uint32_t>(value, 0, 2147483647, o.exec_timeout); }},
    Setting{{"HCCL_WHITELIST_DISABLE", "0 or 1", "0", "1: HCCL_WHITELIST_FILE is ignored"},
            [](std::string_view value, Options& o) { return parse_name(value, kWhitelistNames, o.check_whitelist); }},
    Setting{{"HCCL_WHITELIST_FILE", "a JSON file with a list host_ip", "none",
             "only hosts of the list may connect; none: every host may"},
            [](std::string_view value, Options& o) { return parse_text(value, o.whitelist_file); }},
    Setting{{"HCCL_BUFFSIZE", "MiB, a whole number from 1 to 65536", "200",
             "the most shared memory that a communicator uses on one host"},
            [](std::string_view value, Options& o) { return parse_number<uint32_t>(value, 1, 65536, o.buffer_megabytes); }},
    Setting{
        {"SOFTNPU_HCCL_TRANSPORT", "auto, staged or tcp", "auto",
         "auto: ranks of one host read each other's device memory; staged: they pass data through shared memory; tcp: all use "
         "TCP"},
        [](std::string_view value, Options& o) { return parse_name(value, kTransportNames, o.transport); }},
    Setting{{"SOFTNPU_HCCL_HOST", "a name", "none",
             "ranks with different names use TCP as if they were on different hosts; for tests"},
            [](std::string_view value, Options& o) { return parse_text(value, o.host); }},
};

const Options* load() {
  auto* options = new Options;
  for (const Setting& setting : kSettings) {
    const char* value = std::getenv(setting.doc.name.data());
    const std::string_view trimmed = trim(value == nullptr ? "" : value);
    if (trimmed.empty() || setting.parse(trimmed, *options)) continue;
    const std::string warning = text("[WARNING] hccl: bad value '", trimmed, "' of ", setting.doc.name,
                                     "; allowed: ", setting.doc.values, "; using ", setting.doc.standard, "\n");
    std::fputs(warning.c_str(), stderr);
  }
  return options;
}

}  // namespace

const Options& options() {
  static const Options* const loaded = load();
  return *loaded;
}

std::span<const OptionDoc> option_docs() {
  static constexpr auto kDocs = [] {
    std::array<OptionDoc, kSettings.size()> docs;
    std::transform(kSettings.begin(), kSettings.end(), docs.begin(), [](const Setting& setting) { return setting.doc; });
    return docs;
  }();
  return kDocs;
}

}  // namespace softnpu::hccl
