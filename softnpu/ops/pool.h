// Free objects, kept for the next taker: a warm aclnn call allocates nothing.
//
//   TensorObject* tensor = Pool<TensorObject>::take();   // as its last owner left it, not live
//   Pool<TensorObject>::give(tensor);
//
// Every thread keeps a few. What one thread takes and another gives back (phase one and phase two may run on two threads) travels
// through a shared list. Objects are never freed: a handle of any age may come back (see handle.h). Thread-safe.
#pragma once

#include <pthread.h>

#include <array>
#include <mutex>
#include <tuple>

#include "ops/handle.h"
#include "ops/known_memory.h"

namespace softnpu::ops {

struct TensorObject;
struct ScalarObject;
struct IntArrayObject;
struct FloatArrayObject;
struct BoolArrayObject;
struct TensorListObject;
struct ScalarListObject;
struct Executor;
class AliasTensors;

inline constexpr int kKeptPerThread = 32;

template <typename T>
struct Magazine {
  std::array<T*, kKeptPerThread> items;
  int count = 0;
};

// What a thread keeps for this library; only the thread itself touches it.
struct ThreadCache {
  std::tuple<Magazine<TensorObject>, Magazine<ScalarObject>, Magazine<IntArrayObject>, Magazine<FloatArrayObject>,
             Magazine<BoolArrayObject>, Magazine<TensorListObject>, Magazine<ScalarListObject>, Magazine<Executor>>
      magazines;
  AliasTensors* aliases = nullptr;  // owned; see alias.h
  KnownMemory known_memory;
};

// One word of static TLS, all that a library loaded after torch may take.
extern constinit thread_local ThreadCache* current_cache __attribute__((tls_model("initial-exec")));
ThreadCache& make_thread_cache();

inline ThreadCache& thread_cache() {
  if (current_cache == nullptr) [[unlikely]]
    return make_thread_cache();
  return *current_cache;
}

template <typename T>
class Pool {
 public:
  static T* take(ThreadCache& cache = thread_cache()) {
    Magazine<T>& magazine = std::get<Magazine<T>>(cache.magazines);
    if (magazine.count == 0) [[unlikely]]
      refill(magazine);
    return magazine.items[--magazine.count];
  }

  static void give(T* item) {
    Magazine<T>& magazine = std::get<Magazine<T>>(thread_cache().magazines);
    if (magazine.count == kKeptPerThread) [[unlikely]]
      drain(magazine, kKeptPerThread / 2);
    magazine.items[magazine.count++] = item;
  }

  // Hands all but `keep` objects to the shared list.
  [[gnu::noinline]] static void drain(Magazine<T>& magazine, int keep) {
    const std::lock_guard lock(shared.mutex);
    while (magazine.count > keep) {
      T* item = magazine.items[--magazine.count];
      item->next = shared.first;
      shared.first = item;
    }
  }

 private:
  struct Shared {
    std::mutex mutex;
    Slot* first = nullptr;
  };
  static constinit inline Shared shared;

  [[gnu::noinline]] static void refill(Magazine<T>& magazine) {
    const std::lock_guard lock(shared.mutex);
    while (shared.first != nullptr && magazine.count < kKeptPerThread / 2) {
      magazine.items[magazine.count++] = static_cast<T*>(shared.first);
      shared.first = shared.first->next;
    }
    if (magazine.count == 0) magazine.items[magazine.count++] = add_object<T>();
  }
};

}  // namespace softnpu::ops
