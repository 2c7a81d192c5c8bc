// How the ranks of a new communicator find each other: all connect to one server, which tells each of them about all.
//
//   RendezvousServer::start(point, {});                                         // in the process of the root
//   Result<Rendezvous> meeting = Rendezvous::join(point, own, deadline, ...);   // in each rank
//   Result<std::vector<std::string>> all = meeting.value().exchange("...");     // what every rank gave, in the order of ranks
//
// The first exchange is that of RankInfo, which the server checks: other world sizes, two ranks of one number, two ranks on one
// device, and ranks that do not come in time are errors that every rank gets, with the numbers of the ranks.
#pragma once

#include <string>
#include <vector>

#include "hccl/root_info.h"

namespace softnpu::hccl {

// What a rank tells the others. Fixed size: sent as it is.
struct RankInfo {
  uint32_t version = 1;
  uint32_t rank = 0;
  uint32_t world = 0;
  int32_t device = 0;  // as the host counts
  int32_t pid = 0;
  uint64_t start_time = 0;  // of the process, see other_process.h
  char machine[40] = {};    // ranks with the same text share devices
  char host[40] = {};       // ranks with the same text share memory
  char node[64] = {};       // name of the host, for messages
  char address[46] = {};    // where the rank listens
  uint16_t port = 0;
  Digest members{};  // hash of the list of members of a sub-communicator

  Endpoint endpoint() const { return {address, port}; }
  // "rank 1 (process 123 on node7, device 0)"
  std::string to_text() const;
};

class RendezvousServer {
 public:
  // Starts a thread that serves this one meeting. Once the first rank is there the others have HCCL_CONNECT_TIMEOUT.
  static void start(const MeetingPoint& point, std::vector<std::string> allowed_hosts);
};

class Rendezvous {
 public:
  Rendezvous() = default;
  // With `is_patient`, a server that is not there yet is tried again until the deadline.
  static Result<Rendezvous> join(const MeetingPoint& point, const RankInfo& own, Deadline deadline, bool is_patient);

  const std::vector<RankInfo>& ranks() const { return ranks_; }

  // What all ranks gave, by rank.
  Result<std::vector<std::string>> exchange(const std::string& content);

 private:
  Socket socket_;
  Deadline deadline_;
  std::vector<RankInfo> ranks_;
};

// How many exchanges follow that of RankInfo.
constexpr int kExchanges = 2;

}  // namespace softnpu::hccl
