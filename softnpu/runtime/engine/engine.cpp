#include "runtime/engine/engine.h"

#include <atomic>

namespace softnpu {
namespace {

std::atomic<Engine*> g_engine{nullptr};

}  // namespace

bool has_engine() { return g_engine.load(std::memory_order_acquire) != nullptr; }

void set_engine(std::unique_ptr<Engine> engine) { g_engine.store(engine.release(), std::memory_order_release); }

Engine& engine() { return *g_engine.load(std::memory_order_acquire); }

}  // namespace softnpu
