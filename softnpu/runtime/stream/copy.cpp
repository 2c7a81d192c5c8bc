#include "runtime/stream/copy.h"

#include <cstring>
#include <memory>

#include "runtime/base/message.h"
#include "runtime/base/running_task.h"
#include "runtime/checks/races.h"
#include "runtime/engine/arena.h"
#include "runtime/engine/engine.h"
#include "runtime/memory/heaps.h"
#include "runtime/memory/host_memory.h"
#include "runtime/profile/recorder.h"
#include "runtime/stream/capture.h"
#include "runtime/stream/host_probe.h"
#include "runtime/stream/submit_with_faults.h"
#include "runtime/stream/thread_state.h"

namespace softnpu {
namespace {

constexpr uint64_t kBytesPerUnitOfCost = 8;

struct CopyTask {
  CopyShape shape;
  EngineQueue* queue;
  std::byte* staged;  // copy of the source, owned by the task; or null
};

Status move_rows(EngineQueue* queue, const CopyShape& shape) {
  auto* destination = static_cast<std::byte*>(shape.destination);
  const auto* source = static_cast<const std::byte*>(shape.source);
  for (size_t row = 0; row < shape.height; ++row) {
    SOFTNPU_RETURN_IF_ERROR(
        engine().copy(queue, destination + row * shape.destination_pitch, source + row * shape.source_pitch, shape.width));
  }
  return queue == nullptr ? Status() : engine().finish(queue);
}

aclError report(const Status& status, char* message) {
  if (!status.ok()) write_message(message, status.message());
  return status.code();
}

void visit_rows(const void* first, size_t pitch, const CopyShape& shape, uint32_t flags, SoftnpuAccessVisitor visitor,
                void* context) {
  if (shape.height > SOFTNPU_MOST_PIECES) return visitor(context, first, pitch * (shape.height - 1) + shape.width, flags);
  for (size_t row = 0; row < shape.height; ++row) {
    visitor(context, static_cast<const std::byte*>(first) + row * pitch, shape.width, flags);
  }
}

void visit_copy(const CopyShape& shape, SoftnpuAccessVisitor visitor, void* context, uint32_t flags = 0) {
  visit_rows(shape.destination, shape.destination_pitch, shape, flags | SOFTNPU_ACCESS_WRITES, visitor, context);
  visit_rows(shape.source, shape.source_pitch, shape, flags, visitor, context);
}

constexpr SoftnpuTaskKind kCopyKind = {
    .name = "aclrtMemcpyAsync",
    .run =
        [](void* payload, char* message) {
          const auto& task = *static_cast<CopyTask*>(payload);
          return report(move_rows(task.queue, task.shape), message);
        },
    .release = [](void* payload) { delete[] static_cast<CopyTask*>(payload)->staged; },
    .ready = nullptr,
    .flags = 0,
    .visit = [](const void* payload, SoftnpuAccessVisitor visitor,
                void* context) { visit_copy(static_cast<const CopyTask*>(payload)->shape, visitor, context); }};

// For copies that run in the calling thread, without a stream.
constexpr SoftnpuTaskKind kCopyNowKind = {
    .name = "aclrtMemcpy", .run = nullptr, .release = nullptr, .ready = nullptr, .flags = 0, .visit = nullptr};

struct FillTask {
  void* destination;
  size_t bytes;
  EngineQueue* queue;
  uint8_t value;
};

constexpr SoftnpuTaskKind kFillKind = {.name = "aclrtMemsetAsync",
                                       .run =
                                           [](void* payload, char* message) {
                                             const auto& task = *static_cast<FillTask*>(payload);
                                             Status status = engine().fill(task.queue, task.destination, task.value, task.bytes);
                                             if (status.ok() && task.queue != nullptr) status = engine().finish(task.queue);
                                             return report(status, message);
                                           },
                                       .release = nullptr,
                                       .ready = nullptr,
                                       .flags = 0,
                                       .visit =
                                           [](const void* payload, SoftnpuAccessVisitor visitor, void* context) {
                                             const auto& task = *static_cast<const FillTask*>(payload);
                                             visitor(context, task.destination, task.bytes, SOFTNPU_ACCESS_WRITES);
                                           }};

uint32_t direction_of(const CheckedCopy& copy) {
  if (copy.destination.is_device()) return copy.source.is_device() ? SOFTNPU_COPY_ON_DEVICE : SOFTNPU_COPY_TO_DEVICE;
  return copy.source.is_device() ? SOFTNPU_COPY_TO_HOST : SOFTNPU_COPY_ON_HOST;
}

// Records a copy or fill that runs in the calling thread.
class RecordNow {
 public:
  RecordNow(const char* name, int device, size_t bytes, uint32_t direction) {
    if (!records_tasks()) [[likely]]
      return;
    describe_next_task(bytes, direction, nullptr, 0);
    record_ = begin_task(name, device, SOFTNPU_NO_STREAM, 0);
    if (record_ != nullptr) record_->start = record_->enqueue;
  }
  ~RecordNow() {
    if (record_ != nullptr) [[unlikely]]
      end_task(*record_);
  }
  RecordNow(const RecordNow&) = delete;
  RecordNow& operator=(const RecordNow&) = delete;

 private:
  TaskRecord* record_ = nullptr;
};

// A recorded task gets no engine queue, because it will run on other streams.
EngineQueue* queue_for(const Stream& stream) {
  return stream.is_recorded.load(std::memory_order_relaxed) ? nullptr : stream.engine_queue();
}

// From the first byte of the first row to the last byte of the last one; 0 if that overflows.
size_t span_of(size_t pitch, size_t width, size_t height) {
  size_t rows = 0;
  size_t span = 0;
  if (__builtin_mul_overflow(pitch, height - 1, &rows) || __builtin_add_overflow(rows, width, &span)) return 0;
  return span;
}

bool overlaps(const CopyShape& shape, size_t destination_span, size_t source_span) {
  const auto destination = reinterpret_cast<uintptr_t>(shape.destination);
  const auto source = reinterpret_cast<uintptr_t>(shape.source);
  if (destination >= source + source_span || source >= destination + destination_span) return false;
  if (shape.height == 1 || shape.destination_pitch != shape.source_pitch) return true;
  // Two sets of columns of one matrix do not overlap, although their spans do.
  const size_t pitch = shape.source_pitch;
  const size_t shift = destination >= source ? (destination - source) % pitch : (pitch - (source - destination) % pitch) % pitch;
  return shift < shape.width || pitch - shift < shape.width;
}

}  // namespace

Result<Place> locate(const void* pointer, size_t bytes, const char* argument) {
  if (Arena::contains(pointer)) [[likely]]
    return locate_device(pointer, bytes, argument);
  const HostRange range = host_memory().find(pointer);
  if (range.kind != HostMemoryKind::kPageable) {
    SOFTNPU_RETURN_IF_ERROR(host_memory().check_range(pointer, bytes));
    return Place{Place::Kind::kPinned, -1, const_cast<void*>(pointer)};
  }
  SOFTNPU_RETURN_IF_ERROR(check_host_range_quickly(pointer, bytes, argument));
  return Place{Place::Kind::kPageable, -1, const_cast<void*>(pointer)};
}

Result<Place> locate_device(const void* pointer, size_t bytes, const char* argument) {
  if (!Arena::contains(pointer)) {
    return Status(ACL_ERROR_RT_PARAM_INVALID,
                  text("argument '", argument, "' (", pointer, ") is not a device address; use memory from aclrtMalloc"));
  }
  const Heaps::Owner owner = Heaps::find(pointer);
  if (owner.heap == nullptr) {
    return Status(ACL_ERROR_RT_PARAM_INVALID,
                  text("argument '", argument, "' (", pointer, ") is in the range of a device that was never used"));
  }
  SOFTNPU_RETURN_IF_ERROR(owner.heap->check_range(pointer, bytes));
  return Place{Place::Kind::kDevice, owner.number, Arena::kernel_address(pointer)};
}

Result<CheckedCopy> check_copy(const CopyShape& shape) {
  if (Result<Context*> context = current_context(); !context.ok()) return context.take_status();
  if (shape.width == 0 || shape.height == 0) return Status(ACL_ERROR_RT_PARAM_INVALID, "a copy of 0 bytes was asked for");
  if (shape.height > 1 && (shape.width > shape.destination_pitch || shape.width > shape.source_pitch)) {
    return Status(ACL_ERROR_RT_PARAM_INVALID,
                  text("rows of ", shape.width, " bytes do not fit the pitches ", shape.destination_pitch, " (destination) and ",
                       shape.source_pitch, " (source)"));
  }
  const size_t destination_span = span_of(shape.destination_pitch, shape.width, shape.height);
  const size_t source_span = span_of(shape.source_pitch, shape.width, shape.height);
  if (destination_span == 0 || source_span == 0) {
    return Status(ACL_ERROR_RT_PARAM_INVALID,
                  text(shape.height, " rows with these pitches are more bytes than there are addresses"));
  }
  Result<Place> destination = locate(shape.destination, destination_span, "dst");
  if (!destination.ok()) return destination.take_status();
  Result<Place> source = locate(shape.source, source_span, "src");
  if (!source.ok()) return source.take_status();
  if (overlaps(shape, destination_span, source_span)) {
    return Status(ACL_ERROR_RT_PARAM_INVALID,
                  text("source ", shape.source, " and destination ", shape.destination, " overlap; copy through other memory"));
  }
  CheckedCopy copy{destination.value(), source.value(), shape};
  copy.shape.destination = destination.value().address;
  copy.shape.source = source.value().address;
  return copy;
}

Status copy_now(const CheckedCopy& copy) {
  if (Captures::is_active()) SOFTNPU_RETURN_IF_ERROR(captures().check_unsafe("a copy that waits"));
  SOFTNPU_RETURN_IF_ERROR(Faults::at_call(FaultPoint::kCopy));
  const RunningTask running(kCopyNowKind);
  if (races_are_checked()) {
    const bool is_word = copy.shape.width == sizeof(uint64_t) && copy.shape.height == 1;  // the engine copies it atomically
    SOFTNPU_RETURN_IF_ERROR(races().check_host("aclrtMemcpy", [&](SoftnpuAccessVisitor visitor, void* context) {
      visit_copy(copy.shape, visitor, context, is_word ? SOFTNPU_ACCESS_ATOMIC : 0);
    }));
  }
  const int device = copy.destination.is_device() ? copy.destination.device : copy.source.device;
  const RecordNow record("aclrtMemcpy", device, copy.shape.width * copy.shape.height, direction_of(copy));
  return move_rows(nullptr, copy.shape);
}

Status fill_now(const Place& destination, uint8_t value, size_t bytes) {
  if (Captures::is_active()) SOFTNPU_RETURN_IF_ERROR(captures().check_unsafe("a fill that waits"));
  SOFTNPU_RETURN_IF_ERROR(Faults::at_call(FaultPoint::kCopy));
  if (races_are_checked()) {
    SOFTNPU_RETURN_IF_ERROR(races().check_host("aclrtMemset", [&](SoftnpuAccessVisitor visitor, void* context) {
      visitor(context, destination.address, bytes, SOFTNPU_ACCESS_WRITES);
    }));
  }
  const RecordNow record("aclrtMemset", destination.device, bytes, 0);
  return engine().fill(nullptr, destination.address, value, bytes);
}

Status check_direction(const CheckedCopy& copy, aclrtMemcpyKind kind) {
  const bool from_device = copy.source.is_device();
  const bool to_device = copy.destination.is_device();
  const auto wrong = [&](const char* expected) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, text("kind ", int(kind), " says ", expected, ", but the addresses say ",
                                                   from_device ? "device" : "host", " to ", to_device ? "device" : "host"));
  };
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST:
      return {ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "asynchronous copies from host to host are not supported; use memcpy or a host callback"};
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
      return !from_device && to_device ? Status() : wrong("host to device");
    case ACL_MEMCPY_DEVICE_TO_HOST:
      return from_device && !to_device ? Status() : wrong("device to host");
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
      return from_device && to_device ? Status() : wrong("device to device");
    case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
      return from_device && to_device && copy.source.device == copy.destination.device ? Status() : wrong("inside one device");
    case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
      return from_device && to_device && copy.source.device != copy.destination.device ? Status() : wrong("between two devices");
    case ACL_MEMCPY_DEFAULT:
      if (from_device || to_device) return {};
      return {ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "asynchronous copies from host to host are not supported; use memcpy or a host callback"};
  }
  return {ACL_ERROR_RT_PARAM_INVALID, text("kind ", int(kind), " is unknown; it is one of aclrtMemcpyKind")};
}

Status copy_in_order(const CheckedCopy& copy, aclrtMemcpyKind kind, Stream& stream) {
  SOFTNPU_RETURN_IF_ERROR(check_direction(copy, kind));
  const bool is_recorded = stream.is_recorded.load(std::memory_order_relaxed);
  CopyTask task{.shape = copy.shape, .queue = queue_for(stream), .staged = nullptr};
  std::unique_ptr<std::byte[]> staged;
  bool waits = copy.source.kind == Place::Kind::kPageable || copy.destination.kind == Place::Kind::kPageable;
  if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
    const size_t span = span_of(task.shape.source_pitch, task.shape.width, task.shape.height);
    staged.reset(new std::byte[span]);
    const RunningTask running(kCopyKind);
    std::memcpy(staged.get(), task.shape.source, span);
    task.shape.source = task.staged = staged.get();
    waits = false;
  }
  if (waits && is_recorded) {
    SOFTNPU_RETURN_IF_ERROR(captures().refuse_wait(stream, "a copy of pageable host memory, which waits, on"));
  }
  if (waits) SOFTNPU_RETURN_IF_ERROR(check_may_wait());
  const uint64_t cost = task.shape.width / kBytesPerUnitOfCost * task.shape.height;
  if (records_tasks()) [[unlikely]]
    describe_next_task(copy.shape.width * copy.shape.height, direction_of(copy), nullptr, 0);
  Ticket ticket = 0;
  SOFTNPU_RETURN_IF_ERROR(submit_with_faults(FaultPoint::kCopy, stream, kCopyKind, &task, sizeof task, cost, &ticket));
  staged.release();
  if (!waits) return {};
  Status status = stream.wait(ticket, Deadline::never());
  if (!status.ok()) stream.queue().wait_while_running(ticket);  // before the caller reuses its memory
  return status;
}

Status fill_in_order(const Place& destination, uint8_t value, size_t bytes, Stream& stream) {
  if (records_tasks()) [[unlikely]]
    describe_next_task(bytes, 0, nullptr, 0);
  const FillTask task{.destination = destination.address, .bytes = bytes, .queue = queue_for(stream), .value = value};
  return submit_with_faults(FaultPoint::kCopy, stream, kFillKind, &task, sizeof task, bytes / kBytesPerUnitOfCost);
}

}  // namespace softnpu
