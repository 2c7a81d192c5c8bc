// A rank table: a JSON file with the host of each rank.
//
//   {"version": "1.0", "status": "completed", "server_count": "1", "server_list": [
//     {"server_id": "10.0.0.1", "device": [{"device_id": "0", "device_ip": "192.168.1.8", "rank_id": "0"}, ...]}]}
//
// The address of a host is "host_ip" if the server has it, else "server_id". A number may be a JSON number or a text.
#pragma once

#include <string>
#include <vector>

#include "hccl/errors.h"
#include "hccl/net/sha256.h"

namespace softnpu::hccl {

struct RankTable {
  std::vector<std::string> hosts;  // by rank
  Digest hash{};                   // of the file

  // HCCL_E_OPEN_FILE_FAILURE if the file cannot be read; HCCL_E_PARA if it is not a rank table.
  static Result<RankTable> read(const std::string& path);
};

}  // namespace softnpu::hccl
