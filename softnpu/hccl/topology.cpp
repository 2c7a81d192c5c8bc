#include "hccl/topology.h"

#include <map>

namespace softnpu::hccl {

Topology::Topology(const std::vector<std::string>& hosts) : places_(hosts.size()) {
  std::map<std::string, size_t> numbers;
  for (uint32_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [found, is_new] = numbers.emplace(hosts[rank], hosts_.size());
    if (is_new) hosts_.emplace_back();
    std::vector<uint32_t>& ranks = hosts_[found->second];
    places_[rank] = {found->second, ranks.size()};
    ranks.push_back(rank);
  }
  for (const std::vector<uint32_t>& ranks : hosts_) {
    order_.insert(order_.end(), ranks.begin(), ranks.end());
    width_ = width_ == 0 ? ranks.size() : std::min(width_, ranks.size());
  }
}

}  // namespace softnpu::hccl
