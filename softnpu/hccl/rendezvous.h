// How the ranks of a new communicator exchange data before they are connected: all ranks connect to one server.
//
//   RendezvousServer::start(point, {});                                          // in one process
//   Result<Rendezvous> rendezvous = Rendezvous::join(point, own, deadline, ...);  // in each rank
//   Result<std::vector<std::string>> all = rendezvous.value().exchange("...");    // the texts of all ranks, by rank
//
// The first exchange is that of RankInfo. The server checks it: different world sizes, two ranks with one number, two ranks on
// one device, and ranks that do not connect in time are errors. Every rank gets the same error, which names the ranks.
#pragma once

#include <string>
#include <vector>

#include "hccl/rank_info.h"
#include "hccl/root_info.h"

namespace softnpu::hccl {

class RendezvousServer {
 public:
  // Starts a thread that serves the ranks of one communicator. All ranks must connect within HCCL_CONNECT_TIMEOUT after the
  // first.
  static void start(const RendezvousPoint& point, const std::vector<std::string>& allowed_hosts);
};

class Rendezvous {
 public:
  Rendezvous() = default;
  // With `retries`, a server that does not exist yet is tried again until the deadline.
  static Result<Rendezvous> join(const RendezvousPoint& point, const RankInfo& own, Deadline deadline, bool retries);

  // By rank.
  const std::vector<RankInfo>& ranks() const { return ranks_; }

  // Sends `content` and returns the contents of all ranks, by rank. Every rank calls it kExchanges times.
  Result<std::vector<std::string>> exchange(const std::string& content);

  static constexpr int kExchanges = 2;

 private:
  Socket socket_;
  Deadline deadline_;
  std::vector<RankInfo> ranks_;
};

}  // namespace softnpu::hccl
