// Events outside of the pool: one that other processes open by its handle, and one that can be reset. Who makes one destroys it;
// in between event.h records it and waits for it.
//
//   PooledEvent* event = make_event(EventKind::kShared, 0);
//   send(event_handle(*event));                       // open_event(handle, device) in the other process
//   record_event(*event, stream);
//   destroy_event(event);
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/stream/event.h"

namespace torch_npu {

enum class EventKind : bool { kShared, kResettable };

C10_EXPORT PooledEvent* make_event(EventKind kind, c10::DeviceIndex device);
// The event of another process, or of this one. Throws if `handle` is no handle of a living event.
C10_EXPORT PooledEvent* open_event(const aclrtIpcEventHandle& handle, c10::DeviceIndex device);
// A pending mark does not matter. Null is nothing to destroy. Never throws.
C10_EXPORT void destroy_event(PooledEvent* event) noexcept;

struct DestroyEvent {
  void operator()(PooledEvent* event) const noexcept { destroy_event(event); }
};
using OwnEvent = std::unique_ptr<PooledEvent, DestroyEvent>;

// For shared ones: what open_event() takes. As bytes, for whoever sends them.
C10_EXPORT aclrtIpcEventHandle event_handle(const PooledEvent& event);
C10_EXPORT std::string handle_bytes(const PooledEvent& event);
C10_EXPORT OwnEvent open_event(std::string_view handle_bytes, c10::DeviceIndex device);
// For resettable ones: as if never recorded.
C10_EXPORT void reset_event(const PooledEvent& event, NPUStream stream);

}  // namespace torch_npu
