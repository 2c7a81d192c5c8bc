// Events that do not come from the pool: shared events, which other processes open by a handle, and resettable events. The code
// that makes an event destroys it. The functions of event.h record it and wait for it.
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
// The mark may still be pending. `event` may be null. Never throws.
C10_EXPORT void destroy_event(PooledEvent* event) noexcept;

struct DestroyEvent {
  void operator()(PooledEvent* event) const noexcept { destroy_event(event); }
};
using UniqueEvent = std::unique_ptr<PooledEvent, DestroyEvent>;

// The handle of a shared event for open_event(), as a struct and as bytes.
C10_EXPORT aclrtIpcEventHandle event_handle(const PooledEvent& event);
C10_EXPORT std::string handle_bytes(const PooledEvent& event);
C10_EXPORT UniqueEvent open_event(std::string_view handle_bytes, c10::DeviceIndex device);
// Resets a resettable event, in the order of the stream: it then counts as never recorded.
C10_EXPORT void reset_event(const PooledEvent& event, NPUStream stream);

}  // namespace torch_npu
