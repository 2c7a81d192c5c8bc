// What a rank tells the other ranks about itself while a communicator is set up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "hccl/net/sha256.h"
#include "hccl/net/socket.h"

namespace softnpu::hccl {

// Sent as it is in memory.
struct RankInfo {
  uint32_t version = 2;
  uint32_t rank = 0;
  uint32_t world = 0;
  int32_t device = 0;  // the host's number of the device
  int32_t pid = 0;
  uint64_t start_time = 0;  // of the process, see other_process.h
  char machine[40] = {};    // ranks with the same text share devices
  char host[40] = {};       // ranks with the same text share memory
  char node[64] = {};       // the name of the host, for messages
  char address[46] = {};    // where the rank listens
  uint16_t port = 0;
  Digest members{};  // hash of the list of members of a sub-communicator

  Endpoint endpoint() const { return {address, port}; }
  // "rank 1 (process 123 on node7, device 0)"
  std::string to_text() const { return text("rank ", rank, " (process ", pid, " on ", node, ", device ", device, ")"); }
};

// Fills a field of a message; longer text is cut, and the last byte is always 0.
template <size_t kSize>
void copy_text(char (&field)[kSize], const std::string& value) {
  std::memset(field, 0, kSize);
  std::memcpy(field, value.data(), std::min(value.size(), kSize - 1));
}

}  // namespace softnpu::hccl
