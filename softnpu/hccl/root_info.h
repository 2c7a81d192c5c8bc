// The content of the 4108 bytes that HcclGetRootInfo writes: where the ranks of a communicator connect, and their secret.
#pragma once

#include "hccl/net/listener.h"

namespace softnpu::hccl {

// Where the server of a rendezvous listens, and the session that ranks join there.
struct RendezvousPoint {
  Endpoint endpoint;
  SessionId id{};
  Digest secret{};
};

void write_root_info(const RendezvousPoint& point, HcclRootInfo* info);

// HCCL_E_PARA for bytes that write_root_info() did not write.
Result<RendezvousPoint> read_root_info(const HcclRootInfo& info);

}  // namespace softnpu::hccl
