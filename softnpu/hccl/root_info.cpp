#include "hccl/root_info.h"

#include <cstring>

namespace softnpu::hccl {
namespace {

constexpr uint64_t kMagic = 0x31746f6f72736c68;  // "hlsroot1"

struct Layout {
  uint64_t magic;
  uint16_t port;
  char host[46];
  SessionId id;
  Digest secret;
  Digest check;  // of the bytes before it
};
static_assert(sizeof(Layout) <= sizeof(HcclRootInfo));

Digest check_of(const Layout& layout) { return sha256({reinterpret_cast<const char*>(&layout), offsetof(Layout, check)}); }

}  // namespace

void write_root_info(const RendezvousPoint& point, HcclRootInfo* info) {
  Layout layout{};
  layout.magic = kMagic;
  layout.port = point.endpoint.port;
  std::strncpy(layout.host, point.endpoint.host.c_str(), sizeof layout.host - 1);
  layout.id = point.id;
  layout.secret = point.secret;
  layout.check = check_of(layout);
  std::memset(info, 0, sizeof *info);
  std::memcpy(info, &layout, sizeof layout);
}

Result<RendezvousPoint> read_root_info(const HcclRootInfo& info) {
  Layout layout;
  std::memcpy(&layout, &info, sizeof layout);
  if (layout.magic != kMagic || !equal(layout.check, check_of(layout))) {
    return Status(
        HCCL_E_PARA,
        "argument 'rootInfo' was not written by HcclGetRootInfo of this library, or it was damaged; pass all bytes of the "
        "root info of rank 0 to every rank");
  }
  layout.host[sizeof layout.host - 1] = '\0';
  return RendezvousPoint{{layout.host, layout.port}, layout.id, layout.secret};
}

}  // namespace softnpu::hccl
