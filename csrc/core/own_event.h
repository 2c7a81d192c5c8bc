// Events outside of the pool: one that other processes open by its handle, and one that can be reset. Who makes one destroys it;
// in between event.h records it and waits for it.
//
//   PooledEvent* event = make_event(EventKind::kShared, 0);
//   send(event_handle(*event));                       // open_event(handle, device) in the other process
//   record_event(*event, stream);
//   destroy_event(event);
#pragma once

#include "core/event.h"

namespace torch_npu {

enum class EventKind : bool { kShared, kResettable };

C10_EXPORT PooledEvent* make_event(EventKind kind, c10::DeviceIndex device);
// The event of another process, or of this one. Throws if `handle` is no handle of a living event.
C10_EXPORT PooledEvent* open_event(const aclrtIpcEventHandle& handle, c10::DeviceIndex device);
// A pending mark does not matter. Null is nothing to destroy. Never throws.
C10_EXPORT void destroy_event(PooledEvent* event) noexcept;

// For shared ones: what open_event() takes.
C10_EXPORT aclrtIpcEventHandle event_handle(const PooledEvent& event);
// For resettable ones: as if never recorded.
C10_EXPORT void reset_event(const PooledEvent& event, NPUStream stream);

}  // namespace torch_npu
