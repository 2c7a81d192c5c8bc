#include "aten/machinery/philox.h"

#include "acl/symbol.h"
#include "aclnn/aclnn_soft_philox.h"
#include "core/graph/generator.h"
#include "core/graph/graph.h"
#include "core/stream/stream.h"

namespace torch_npu {
namespace {

using ReadPhilox = decltype(&aclnnSoftReadPhilox);

ReadPhilox find_read_philox() {
  static const auto function = reinterpret_cast<ReadPhilox>(acl::find_op_symbol("aclnnSoftReadPhilox"));
  TORCH_CHECK_NOT_IMPLEMENTED(
      function != nullptr, "the device library cannot draw random numbers anew with each replay of a graph; draw them outside ",
      "of the capture, into a tensor that the graph reads");
  return function;
}

bool is_given(const OptionalGenerator& generator) { return generator.has_value() && generator->defined(); }

}  // namespace

Philox::~Philox() noexcept(false) {
  if (state == nullptr || std::uncaught_exceptions() > exceptions_) return;
  acl::check(
      find_read_philox()(getCurrentNPUStream().stream(), static_cast<uint64_t>(seed), static_cast<uint64_t>(offset), state),
      "aclnnSoftReadPhilox");
}

// The dispatcher calls npu kernels for a generator of npu even if the tensor is on another device.
void check_generator_device(const OptionalGenerator& generator, const at::Tensor& tensor) {
  if (!is_given(generator)) return;
  const c10::Device found = generator->device(), expected = tensor.device();
  TORCH_CHECK(found.type() == expected.type(), "Expected a '", expected.type(), "' device type for generator but found '",
              found.type(), "'");
  TORCH_CHECK(found == expected, "Expected a generator of ", expected, ", the device of the tensor, but found a generator of ",
              found, ". Make it by torch.Generator(device=\"", expected, "\").");
}

Philox draw(const OptionalGenerator& generator, const at::Tensor& tensor) {
  check_generator_device(generator, tensor);
  const at::Generator& source = is_given(generator) ? *generator : getDefaultNPUGenerator();
  if (captures_exist()) [[unlikely]] {
    if (NPUGraph* graph = NPUGraph::capturing(getCurrentNPUStream())) {
      find_read_philox();
      const NPUGraph::Draw drawn = graph->draw(source, 4);
      return {drawn.seed, drawn.offset, tensor.numel() > 0 ? drawn.state : nullptr};
    }
  }
  const auto [seed, offset] = philox(*at::check_generator<NPUGeneratorImpl>(source), 4);
  return {seed, offset};
}

void check_random_dtype(bool supported, const char* kernel, const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(supported || tensor.numel() == 0, '"', kernel, "\" not implemented for '", tensor.scalar_type(),
                              "'");
}

}  // namespace torch_npu
