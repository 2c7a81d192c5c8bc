// A rank table: a JSON file that says which rank is on which host.
//
//   {"version": "1.0", "status": "completed", "server_count": "1", "server_list": [
//     {"server_id": "10.0.0.1", "device": [{"device_id": "0", "device_ip": "192.168.1.8", "rank_id": "0"}, ...]}]}
//
// The address of a host is "host_ip" where the server has that, else "server_id". Numbers may be texts or numbers.
#pragma once

#include <string>
#include <vector>

#include "hccl/errors.h"
#include "hccl/net/sha256.h"

namespace softnpu::hccl {

struct RankTable {
  std::vector<std::string> hosts;  // by rank
  Digest hash{};                   // of the file

  // HCCL_E_OPEN_FILE_FAILURE, or HCCL_E_PARA with the place in the file.
  static Result<RankTable> read(const std::string& path);
};

}  // namespace softnpu::hccl
