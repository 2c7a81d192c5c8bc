#include "core/graph/generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>
#include <c10/core/StorageImpl.h>

#include <cstring>
#include <mutex>

#include "core/graph/graph.h"

namespace at_npu {
namespace {

using torch_npu::captures_exist;
using torch_npu::checked_device;
using torch_npu::is_capturing;

constexpr size_t kStateSize = 2 * sizeof(uint64_t);

struct DefaultGenerator {
  std::once_flag once;
  at::Generator generator;
};

// The offset for the next captured call, relative to the offset that the generator has at a replay. Null if the current stream is
// not captured.
uint64_t* captured_offset(const NPUGeneratorImpl& generator) {
  if (!captures_exist()) return nullptr;
  torch_npu::NPUGraph* graph = torch_npu::NPUGraph::capturing(torch_npu::getCurrentNPUStream());
  if (graph == nullptr) return nullptr;
  auto* itself = const_cast<NPUGeneratorImpl*>(&generator);
  return &graph->drawn(at::Generator(c10::intrusive_ptr<c10::GeneratorImpl>::reclaim_copy(itself)));
}

// Works without a device.
const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* const generators = new std::array<DefaultGenerator, torch_npu::kMaxDevices>;
  DefaultGenerator& entry = generators->at(static_cast<size_t>(index));
  std::call_once(entry.once, [&] { entry.generator = at::make_generator<NPUGeneratorImpl>(index); });
  return entry.generator;
}

void check_seed_stays() {
  TORCH_CHECK(!captures_exist() || !is_capturing(torch_npu::getCurrentNPUStream()),
              "the seed of a generator cannot be set while the current stream is being captured for a graph: replays draw with ",
              "the seed that the generator has then. Set it before a replay");
}

}  // namespace

NPUGeneratorImpl::NPUGeneratorImpl(c10::DeviceIndex device_index)
    : c10::GeneratorImpl(torch_npu::npu_device(device_index < 0 ? torch_npu::current_device() : device_index),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

std::pair<uint64_t, uint64_t> NPUGeneratorImpl::philox_engine_inputs(uint64_t increment) {
  TORCH_CHECK(
      !captures_exist() || !is_capturing(torch_npu::getCurrentNPUStream()),
      "seed and offset of a generator were asked for while the current stream is being captured for a graph, whose replays ",
      "would all draw the same numbers; draw outside of the capture");
  const uint64_t offset = offset_;
  offset_ += (increment + 3) / 4 * 4;
  return {seed_, offset};
}

PhiloxNpuState NPUGeneratorImpl::philox_npu_state(uint64_t increment) {
  const auto [seed, offset] = philox_engine_inputs(increment);
  return {seed, offset};
}

std::shared_ptr<NPUGeneratorImpl> NPUGeneratorImpl::clone() const { return std::shared_ptr<NPUGeneratorImpl>(clone_impl()); }

void NPUGeneratorImpl::set_current_seed(uint64_t seed) {
  check_seed_stays();
  seed_ = seed;
  offset_ = 0;
}

void NPUGeneratorImpl::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % 4 == 0, "the offset of an NPU generator must be a multiple of 4, but is ", offset);
  uint64_t* captured = captured_offset(*this);
  (captured == nullptr ? offset_ : *captured) = offset;
}

uint64_t NPUGeneratorImpl::get_offset() const {
  const uint64_t* captured = captured_offset(*this);
  return captured == nullptr ? offset_ : *captured;
}

uint64_t NPUGeneratorImpl::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom(true));
  return seed_;
}

void NPUGeneratorImpl::set_state(const c10::TensorImpl& new_state) {
  at::detail::check_rng_state(new_state);
  TORCH_CHECK(static_cast<size_t>(new_state.numel()) == kStateSize, "the state of an NPU generator has ", kStateSize,
              " bytes, but ", new_state.numel(), " were given");
  uint64_t words[2];
  std::memcpy(words, new_state.data(), kStateSize);
  if (words[0] != seed_) check_seed_stays();
  set_offset(words[1]);
  seed_ = words[0];
}

c10::intrusive_ptr<c10::TensorImpl> NPUGeneratorImpl::get_state() const {
  const at::Tensor state = at::detail::empty_cpu({static_cast<int64_t>(kStateSize)}, c10::ScalarType::Byte, std::nullopt,
                                                 std::nullopt, std::nullopt, std::nullopt);
  const uint64_t words[2] = {seed_, get_offset()};
  std::memcpy(state.mutable_data_ptr(), words, kStateSize);
  return state.getIntrusivePtr();
}

NPUGeneratorImpl* NPUGeneratorImpl::clone_impl() const {
  auto* copy = new NPUGeneratorImpl(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& detail::getDefaultNPUGenerator(c10::DeviceIndex device_index) {
  return default_generator(checked_device(device_index));
}

at::Generator detail::createNPUGenerator(c10::DeviceIndex device_index) {
  return at::make_generator<NPUGeneratorImpl>(checked_device(device_index));
}

}  // namespace at_npu

void torch_npu::seed_default_generators(uint64_t seed) {
  for (c10::DeviceIndex index = 0; index < kMaxDevices; ++index) {
    at::Generator generator = at_npu::default_generator(index);
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  }
}

std::pair<uint64_t, uint64_t> torch_npu::philox(NPUGeneratorImpl& generator, uint64_t count) {
  const std::lock_guard lock(generator.mutex_);
  return generator.philox_engine_inputs(count);
}
