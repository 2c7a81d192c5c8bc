// Which ranks share memory. Computed from the same data on every rank, so that all ranks have the same topology.
//
// A host here is a set of ranks that share memory. Hosts are ordered by their lowest rank, and the ranks of a host by their
// number. With TCP everywhere every rank is a host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace softnpu::hccl {

class Topology {
 public:
  Topology() = default;
  // `hosts` has the name of each rank's host, by rank.
  explicit Topology(const std::vector<std::string>& hosts);

  size_t host_count() const { return hosts_.size(); }
  // The ranks of a host.
  const std::vector<uint32_t>& ranks_of(size_t host) const { return hosts_[host]; }
  size_t host_of(uint32_t rank) const { return places_[rank].host; }
  // The place of a rank in ranks_of() its host.
  size_t index_of(uint32_t rank) const { return places_[rank].index; }

  // Several hosts, and at least one of them has several ranks.
  bool is_mixed() const { return hosts_.size() > 1 && hosts_.size() < places_.size(); }
  // The number of ranks of the smallest host.
  size_t width() const { return width_; }
  // All ranks, host by host: the order in which reductions combine them.
  const std::vector<uint32_t>& order() const { return order_; }

 private:
  struct Place {
    size_t host = 0;
    size_t index = 0;
  };

  std::vector<std::vector<uint32_t>> hosts_;
  std::vector<Place> places_;  // by rank
  std::vector<uint32_t> order_;
  size_t width_ = 0;
};

}  // namespace softnpu::hccl
