#include "core/memory/kept_graphs.h"

#include <atomic>

namespace torch_npu {
namespace {

constinit std::atomic<void (*)()> kept_graph_release{nullptr};

}  // namespace

void set_kept_graph_release(void (*release)()) { kept_graph_release.store(release, std::memory_order_release); }

void release_kept_graphs() {
  if (auto* const release = kept_graph_release.load(std::memory_order_acquire)) release();
}

}  // namespace torch_npu
