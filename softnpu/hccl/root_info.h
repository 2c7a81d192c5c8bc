// What HcclGetRootInfo writes into its 4108 bytes: where the ranks meet, and what proves that they belong together.
#pragma once

#include "hccl/net/listener.h"

namespace softnpu::hccl {

struct MeetingPoint {
  Endpoint endpoint;
  SessionId id{};
  Digest secret{};
};

void write_root_info(const MeetingPoint& point, HcclRootInfo* info);

// HCCL_E_PARA for bytes that write_root_info() did not write.
Result<MeetingPoint> read_root_info(const HcclRootInfo& info);

}  // namespace softnpu::hccl
