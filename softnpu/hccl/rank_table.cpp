#include "hccl/rank_table.h"

#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "hccl/net/socket.h"
#include "runtime/base/json.h"
#include "runtime/base/parse.h"

namespace softnpu::hccl {
namespace {

constexpr uint32_t kMostRanks = 1 << 20;

std::optional<uint32_t> number_of(const Json* value) {
  if (value == nullptr) return std::nullopt;
  if (const std::optional<int64_t> number = value->integer(); number && *number >= 0 && *number < kMostRanks) {
    return static_cast<uint32_t>(*number);
  }
  uint32_t number = 0;
  const std::string* const digits = value->string();
  if (digits == nullptr || !parse_number<uint32_t>(*digits, 0, kMostRanks - 1, number)) return std::nullopt;
  return number;
}

}  // namespace

Result<RankTable> RankTable::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  if (!file) return Status(HCCL_E_OPEN_FILE_FAILURE, text("the rank table '", path, "' cannot be read"));
  const auto wrong = [&](const std::string& reason) {
    return Status(HCCL_E_PARA, text("the rank table '", path, "': ", reason));
  };
  Result<Json> parsed = Json::parse(content.str());
  if (!parsed.ok()) return wrong(parsed.take_status().message());
  const Json* const servers = parsed.value().find("server_list");
  if (servers == nullptr || servers->array() == nullptr) return wrong("it has no list 'server_list'");
  std::map<uint32_t, std::string> hosts;
  for (const Json& server : *servers->array()) {
    const Json* host = server.find("host_ip");
    if (host == nullptr) host = server.find("server_id");
    if (host == nullptr || host->string() == nullptr) return wrong("a server has neither 'host_ip' nor 'server_id'");
    if (!is_address(*host->string())) {
      return wrong(text("host not found: '", *host->string(), "' is not an IPv4 or IPv6 address; add 'host_ip' to the server"));
    }
    const Json* const devices = server.find("device");
    if (devices == nullptr || devices->array() == nullptr) return wrong("a server has no list 'device'");
    for (const Json& device : *devices->array()) {
      const std::optional<uint32_t> rank = number_of(device.find("rank_id"));
      if (!rank) return wrong("a device has no number 'rank_id'");
      if (!hosts.emplace(*rank, *host->string()).second) return wrong(text("rank ", *rank, " occurs twice"));
    }
  }
  RankTable table;
  for (const auto& [rank, host] : hosts) {
    if (rank != table.hosts.size()) return wrong(text("rank ", table.hosts.size(), " is missing"));
    table.hosts.push_back(host);
  }
  if (table.hosts.empty()) return wrong("it has no ranks");
  table.hash = sha256(content.str());
  return table;
}

}  // namespace softnpu::hccl
