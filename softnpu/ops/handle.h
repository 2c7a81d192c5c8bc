// Handles of this library: what a client holds for a tensor, a scalar, an array, a list or an executor.
//
//   aclTensor* handle = begin_life(*tensor);                     // the client's from here on
//   const TensorObject* tensor = find<TensorObject>(handle);     // null unless live: explain<TensorObject>() says why
//   TensorObject* tensor = end_life<TensorObject>(handle);       // likewise; the caller's from here on
//
// As in the runtime (runtime/base/handle.h), a handle is a number dressed as a pointer: a generation, the kind of object and a
// slot. It is never dereferenced, so null, garbage, a destroyed object's handle and a handle of another kind are all recognised,
// also after another object has got the slot. Slots of one kind lie side by side, are reused by pool.h and are never unmapped.
//
// Thread-safe. Of several threads that end one life, one wins. What lies in an object is not protected: one thread uses it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/status.h"

namespace softnpu::ops {

enum class ObjectKind : uint8_t { kTensor, kScalar, kIntArray, kFloatArray, kBoolArray, kTensorList, kScalarList, kExecutor };
inline constexpr size_t kObjectKinds = 8;

struct Slot {
  std::atomic<uint64_t> life{0};  // the object's handle while it is live, else a number that is no handle
  Slot* next = nullptr;           // in the list of free slots
};

// Base of every type of object. C functions take and give it as a pointer to Handle.
template <typename OwnHandle, ObjectKind kOwnKind>
struct ObjectOf : Slot {
  using Handle = OwnHandle;
  static constexpr ObjectKind kKind = kOwnKind;
};

namespace detail {

// Bits of a handle: 24 of generation, odd in a live object; 8 of kind; 32 of slot.
inline constexpr uint64_t kNextGeneration = uint64_t{1} << 40;
inline constexpr unsigned kKindShift = 32;
inline constexpr uint64_t kFirstKind = 0x21;  // not 0: null is no handle

inline uint64_t number_of(const void* handle) { return reinterpret_cast<uintptr_t>(handle); }

// All slots of one kind. Those from `count` on do not exist yet.
struct Slots {
  std::atomic<uint32_t> count{0};
  std::byte* first = nullptr;  // constant from the first slot on
  size_t usable = 0;           // bytes of the reserved memory that are not closed
};
extern std::array<Slots, kObjectKinds> slots;

// Memory for one more slot. Throws std::bad_alloc. One thread at a time per kind.
void* add_memory(ObjectKind kind, size_t bytes);
uint64_t first_life(ObjectKind kind, uint32_t slot);

template <typename T>
[[gnu::always_inline]] inline T* object_at(const typename T::Handle* handle) {
  const Slots& own = slots[size_t(T::kKind)];
  const auto slot = uint32_t(number_of(handle));
  if (slot >= own.count.load(std::memory_order_acquire)) [[unlikely]]
    return nullptr;
  return reinterpret_cast<T*>(own.first + slot * sizeof(T));
}

Status explain(ObjectKind kind, const void* handle, std::string_view argument);

}  // namespace detail

// A new object that is not live. One thread at a time per type.
template <typename T>
T* add_object() {
  detail::Slots& own = detail::slots[size_t(T::kKind)];
  T* object = new (detail::add_memory(T::kKind, sizeof(T))) T;
  const uint32_t slot = own.count.load(std::memory_order_relaxed);
  object->life.store(detail::first_life(T::kKind, slot), std::memory_order_relaxed);
  own.count.store(slot + 1, std::memory_order_release);
  return object;
}

// Begins a life of an object that is not live.
template <typename T>
[[gnu::always_inline]] inline typename T::Handle* begin_life(T& object) {
  const uint64_t life = object.life.load(std::memory_order_relaxed) + detail::kNextGeneration;
  object.life.store(life, std::memory_order_release);
  return reinterpret_cast<typename T::Handle*>(life);
}

// The live object behind `handle`, or null.
template <typename T>
[[gnu::always_inline]] inline T* find(const typename T::Handle* handle) {
  T* object = detail::object_at<T>(handle);
  return object != nullptr && object->life.load(std::memory_order_acquire) == detail::number_of(handle) ? object : nullptr;
}

// Ends the life that `handle` names. Null if it is over, or never began.
template <typename T>
[[gnu::always_inline]] inline T* end_life(const typename T::Handle* handle) {
  T* object = detail::object_at<T>(handle);
  uint64_t life = detail::number_of(handle);
  const bool won =
      object != nullptr && object->life.compare_exchange_strong(life, life + detail::kNextGeneration, std::memory_order_acq_rel,
                                                                std::memory_order_relaxed);
  return won ? object : nullptr;
}

// Why find() or end_life() gave null.
template <typename T>
Status explain(const typename T::Handle* handle, std::string_view argument) {
  return detail::explain(T::kKind, handle, argument);
}

}  // namespace softnpu::ops
