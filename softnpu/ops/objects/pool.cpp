#include "ops/objects/pool.h"

#include "ops/calls/alias.h"
#include "ops/calls/executor.h"
#include "ops/objects/objects.h"

namespace softnpu::ops {
namespace {

template <typename T>
void drain_all(Magazine<T>& magazine) {
  Pool<T>::drain(magazine, 0);
}

void leave_thread(void* argument) {
  auto* cache = static_cast<ThreadCache*>(argument);
  current_cache = nullptr;
  std::apply([](auto&... magazine) { (drain_all(magazine), ...); }, cache->magazines);
  delete cache->aliases;
  delete cache;
}

}  // namespace

constinit thread_local ThreadCache* current_cache __attribute__((tls_model("initial-exec"))) = nullptr;

ThreadCache& make_thread_cache() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, leave_thread);
    return made;
  }();
  current_cache = new ThreadCache;
  pthread_setspecific(key, current_cache);
  return *current_cache;
}

}  // namespace softnpu::ops
