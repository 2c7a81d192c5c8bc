// Implements torch.accelerator.Graph for versions of torch that have it.
#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>

#include "core/graph/graph.h"

namespace torch_npu {
namespace {

aclmdlRICaptureMode mode_of(at::GraphCaptureMode mode) {
  switch (mode) {
    case at::GraphCaptureMode::ThreadLocal:
      return ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
    case at::GraphCaptureMode::Relaxed:
      return ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    default:
      return ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  }
}

class AcceleratorGraph final : public at::GraphImplInterface {
 public:
  explicit AcceleratorGraph(const at::GraphImplArgs&) {}

  void capture_begin(at::MempoolId_t pool, at::GraphCaptureMode mode) override {
    const bool is_given = pool != at::MempoolId_t{0, 0};
    graph_.capture_begin(is_given ? std::optional(pool) : std::nullopt, mode_of(mode));
  }
  void capture_end() override { graph_.capture_end(); }
  void instantiate() override {}  // replay() needs no such step
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  at::MempoolId_t pool() const override { return graph_.pool(); }
  void enable_debug_mode() override {}  // debug_dump() works without it
  void debug_dump(const std::string& path) override { graph_.debug_dump(path); }

 private:
  NPUGraph graph_;
};

}  // namespace
}  // namespace torch_npu

namespace at {

using torch_npu::AcceleratorGraph;
REGISTER_GRAPH_IMPL(NPU, AcceleratorGraph)

}  // namespace at
#endif
