// What test_cpp_extension.py does with the public symbols, as operators of the namespace extension_test.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_div_mod.h>
#include <aclnnop/aclnn_mul.h>
#include <aclnnop/aclnn_normal.h>
#include <aclnnop/aclnn_reduce_sum.h>
#include <third_party/op-plugin/op_plugin/include/ops.h>
#include <torch/library.h>
#include <torch_npu/csrc/aten/NPUGeneratorImpl.h>
#include <torch_npu/csrc/core/npu/NPUEvent.h>
#include <torch_npu/csrc/core/npu/NPUFormat.h>
#include <torch_npu/csrc/core/npu/NPUFunctions.h>
#include <torch_npu/csrc/core/npu/NPUHooksInterface.h>
#include <torch_npu/csrc/framework/OpCommand.h>
#include <torch_npu/csrc/libs/init_npu.h>
#include <torch_npu/extension.h>

#include <mutex>

namespace {

using at_npu::native::OpCommand;
using c10_npu::NPUEvent;
using c10_npu::NPUStream;

at::Tensor add(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  const c10_npu::OptionalNPUGuard guard(at::device_of(self));
  at::Tensor out = at::empty_like(self);
  NPU_LAUNCH(aclnnAdd, self, other, alpha, out);
  return out;
}

at::Tensor add_by_types(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  at::Tensor out = at::empty(self.sizes(), self.options());
  EXEC_NPU_CMD(aclnnAdd, self, other, alpha, out);
  return out;
}

// Lists, dtypes, flags and integers of 32 bits, both ways.
std::vector<at::Tensor> sum_and_floor(const at::Tensor& self, at::IntArrayRef dims, const at::Tensor& divisor) {
  std::vector<at::Tensor> outs;
  for (int i = 0; i < 2; ++i) outs.push_back(at::empty({}, self.options().dtype(at::kDouble)));
  for (int i = 0; i < 2; ++i) outs.push_back(at::empty_like(self));
  NPU_LAUNCH(aclnnReduceSum, self, dims, false, at::kDouble, outs[0]);
  EXEC_NPU_CMD(aclnnReduceSum, self, dims, false, at::kDouble, outs[1]);
  constexpr int kFloor = 2;
  NPU_LAUNCH(aclnnDivMod, self, divisor, kFloor, outs[2]);
  EXEC_NPU_CMD(aclnnDivMod, self, divisor, kFloor, outs[3]);
  return outs;
}

void call_what_is_not_there(const at::Tensor& self) { EXEC_NPU_CMD(aclnnNobodyKnows, self, self); }

// a * b + a, where the product is made by another stream. Wrong unless the sum waits for it.
at::Tensor on_two_streams(const at::Tensor& a, const at::Tensor& b, bool waits) {
  const c10_npu::NPUGuard device(a.device());
  const NPUStream first = c10_npu::getCurrentNPUStream(), second = c10_npu::getNPUStreamFromPool();
  at::Tensor product = at::empty_like(a), out = at::empty_like(a);
  NPUEvent ready, done;
  ready.record();
  {
    const c10_npu::NPUStreamGuard guard(second);
    TORCH_CHECK(c10_npu::getCurrentNPUStream() == second && guard.current_stream() == second);
    TORCH_CHECK(guard.original_stream() == first && guard.original_device() == guard.current_device());
    ready.block(second);
    NPU_LAUNCH(aclnnMul, a, b, product);
    done.record(second);
  }
  TORCH_CHECK(c10_npu::getCurrentNPUStream() == first && first != second);
  if (waits) done.block(first);
  NPU_LAUNCH(aclnnAdd, product, a, 1, out);
  return out;
}

void check_streams() {
  const NPUStream stream = c10_npu::getNPUStreamFromPool(), standard = c10_npu::getDefaultNPUStream();
  const c10::StreamData3 packed = stream.pack3();
  TORCH_CHECK(NPUStream::unpack3(packed.stream_id, packed.device_index, packed.device_type) == stream);
  TORCH_CHECK(NPUStream(stream.unwrap()) == stream && NPUStream(NPUStream::UNCHECKED, stream) == stream);
  TORCH_CHECK(standard.id() == 0 && stream.id() != 0 && stream.device().type() == at::kPrivateUse1);
  TORCH_CHECK(stream.stream() != nullptr && stream.stream() == stream.stream(false) && aclrtStream(stream) == stream.stream());
  NPUStream copy = stream;
  copy.setDataPreprocessStream(true);
  TORCH_CHECK(NPUStream(stream).isDataPreprocessStream() && !NPUStream(standard).isDataPreprocessStream());
  copy.setDataPreprocessStream(false);
  TORCH_CHECK(!copy.isDataPreprocessStream());
  c10_npu::setCurrentNPUStream(stream);
  TORCH_CHECK(c10_npu::getCurrentNPUStream() == stream);
  c10_npu::setCurrentNPUStream(standard);
  {
    c10_npu::NPUStreamGuard guard(stream);
    guard.reset_stream(c10_npu::getStreamFromPool(/*isHighPriority=*/true));
    TORCH_CHECK(c10_npu::getCurrentNPUStream() == guard.current_stream() && guard.current_stream() != stream);
  }
  TORCH_CHECK(c10_npu::getCurrentNPUStream() == standard);
  stream.synchronize();
  c10_npu::stream_synchronize(stream);
  TORCH_CHECK(stream.query());
}

void refuse_stream_of_the_cpu() { NPUStream(c10::Stream(c10::Stream::DEFAULT, at::kCPU)); }

double check_events(const at::Tensor& work) {
  NPUEvent start(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE), end(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
  TORCH_CHECK(!start.isCreated() && start.event() == nullptr && !start.device() && start.device_index() == -1 && start.query());
  const NPUStream stream = c10_npu::getCurrentNPUStream();
  start.record(stream);
  TORCH_CHECK(start.isCreated() && aclrtEvent(start) == start.event() && start.device() == stream.device());
  at::Tensor out = at::empty_like(work);
  NPU_LAUNCH(aclnnMul, work, work, out);
  end.recordOnce(stream);
  end.recordOnce(stream);
  end.synchronize();
  NPUEvent moved(std::move(start));
  TORCH_CHECK(!start.isCreated() && moved.isCreated() && end.query());
  return moved.elapsed_time(end);
}

void check_shared_event() {
  NPUEvent shared(ACL_EVENT_IPC);
  aclrtIpcEventHandle handle{};
  shared.ipc_handle(&handle);
  NPUEvent opened(0, &handle);
  shared.record();
  opened.synchronize();
  TORCH_CHECK(opened.query() && opened.device_index() == 0);
}

void share_ordinary_event() {
  aclrtIpcEventHandle handle{};
  NPUEvent().ipc_handle(&handle);
}

void check_devices() {
  int32_t device = -1;
  TORCH_CHECK(c10_npu::GetDevice(&device) == ACL_SUCCESS && device == c10_npu::current_device());
  TORCH_CHECK(c10_npu::GetDevice(nullptr) == ACL_ERROR_INVALID_PARAM && c10::npu::current_device() == device);
  TORCH_CHECK(c10_npu::SetDevice(0) == ACL_SUCCESS && c10_npu::SetDevice(-3) != ACL_SUCCESS);
  TORCH_CHECK(c10_npu::device_count() >= 1 && c10_npu::device_count_ensure_non_zero() == c10_npu::device_count());
  c10_npu::set_device(0);
  torch_npu::init_npu("npu:0");
  torch_npu::init_npu(at::Device("npu"));
  c10_npu::device_synchronize();
  torch::npu::synchronize();
  torch_npu::finalize_npu();
}

void wait_in_mode(int64_t mode) {
  c10_npu::warning_state().set_sync_debug_mode(static_cast<c10_npu::SyncDebugMode>(mode));
  TORCH_CHECK(static_cast<int64_t>(c10_npu::warning_state().get_sync_debug_mode()) == mode);
  c10_npu::warn_or_error_on_sync();
}

// Memory by AscendCL itself.
void fill_bytes(const at::Tensor& self, int64_t value) {
  NPU_CHECK_ERROR(NPU_ACL(aclrtMemsetAsync)(self.mutable_data_ptr(), self.nbytes(), static_cast<int32_t>(value), self.nbytes(),
                                            c10_npu::getCurrentNPUStream()));
}

void fail_in_acl(const at::Tensor& self) {
  NPU_CHECK_ERROR(NPU_ACL(aclrtMemset)(self.mutable_data_ptr(), self.nbytes(), 0, self.nbytes() + (1 << 30)));
}

// Normal numbers of a generator, drawn as torch's own operators draw them.
at::Tensor normal(at::IntArrayRef sizes, const std::optional<at::Generator>& generator) {
  auto* source = at::get_generator_or_default<at_npu::NPUGeneratorImpl>(generator, at_npu::detail::getDefaultNPUGenerator());
  std::pair<uint64_t, uint64_t> philox;
  {
    const std::lock_guard lock(source->mutex_);
    philox = source->philox_engine_inputs(4);
  }
  at::Tensor out = at::empty(sizes, at::TensorOptions(at::kFloat).device(source->device()));
  NPU_LAUNCH(aclnnInplaceNormal, out, 0, 1, philox.first, philox.second);
  return out;
}

void check_generators() {
  at::Generator made = at_npu::detail::createNPUGenerator();
  auto* generator = made.get<at_npu::NPUGeneratorImpl>();
  generator->set_current_seed(7);
  generator->set_philox_offset_per_thread(8);
  const auto copy = generator->clone();
  const at_npu::PhiloxNpuState state = generator->philox_npu_state(3);
  TORCH_CHECK(state.seed_.val == 7 && state.offset_.val == 8 && !state.captured_);
  TORCH_CHECK(generator->philox_offset_per_thread() == 12 && generator->get_offset() == 12);
  TORCH_CHECK(copy->current_seed() == 7 && copy->get_offset() == 8 && copy->device_type() == at::kPrivateUse1);
  copy->set_state(*generator->get_state());
  TORCH_CHECK(copy->get_offset() == 12);
  const auto& hooks = dynamic_cast<const c10_npu::NPUHooksInterface&>(at::detail::getPrivateUse1Hooks());
  TORCH_CHECK(hooks.getDefaultGenerator(0) == at_npu::detail::getDefaultNPUGenerator(0));
}

at::Tensor by_handler(const at::Tensor& self, int64_t result) {
  at::Tensor out = at::empty_like(self);
  const auto handler = [&]() -> int {
    NPU_LAUNCH(aclnnMul, self, self, out);
    return static_cast<int>(result);
  };
  OpCommand().Name("square").SetCustomHandler(handler).Run();
  return out;
}

at::Tensor by_name(const std::string& name, at::TensorList inputs, at::Tensor out) {
  OpCommand().Name(name).Inputs(inputs).Output(out).Sync().Run();
  return out;
}

at::Tensor matmul_of_transposed(const at::Tensor& a, const at::Tensor& b, at::Tensor out) {
  OpCommand().Name("MatMul").Input(a).Input(b).Output(out).Attr("transpose_x1", false).Attr("transpose_x2", true).Run();
  return out;
}

// Values of the host as inputs, and the type that operands have in common.
at::Tensor with_host_inputs(const at::Tensor& self, at::Tensor out) {
  const std::vector<double> doubles{1, 2};
  at::Tensor sum = at::empty_like(out), scaled = at::empty_like(out);
  const at_npu::native::UnifiedResult expected{at::kFloat, std::nullopt, true};
  OpCommand().Name("Add").Expect(expected).Input(self).Input(c10::IntArrayRef{10, 20}, at::kFloat).Output(sum).Run();
  OpCommand().Name("Mul").Input(sum).Input(c10::ArrayRef<double>(doubles), {2}, at::kFloat).Output(scaled).Run();
  OpCommand().Name("Sub").Input(scaled).Input(c10::Scalar(0.5), at::kFloat).Output(scaled).Run();
  OpCommand().Name("Adds").Input(scaled).Output(out).Attr("value", 100.0F).Run();
  return out;
}

void check_formats(const at::Tensor& image) {
  namespace native = at_npu::native;
  TORCH_CHECK(native::get_npu_format(image) == ACL_FORMAT_NCHW && native::get_npu_storage_sizes(image) == image.sizes());
  TORCH_CHECK(native::npu_format_cast(image, ACL_FORMAT_NC1HWC0).sizes() == image.sizes());
  TORCH_CHECK(native::empty_with_format({2, 3}, at::kHalf, ACL_FORMAT_FRACTAL_NZ).device() == image.device());
  TORCH_CHECK(native::empty_with_swapped_memory({4}, at::kInt, std::nullopt).scalar_type() == at::kInt);
}

void cast_to_no_format(const at::Tensor& self) { at_npu::native::npu_format_cast(self, 77); }

at::Tensor dropout_mask(const at::Tensor& self, double p) {
  return at_npu::native::npu_dropout_gen_mask(self, self.sizes(), p, 3, 0, true, false);
}

}  // namespace

TORCH_LIBRARY(extension_test, m) {
  m.def("add(Tensor self, Tensor other, Scalar alpha) -> Tensor");
  m.def("add_by_types", add_by_types);
  m.def("sum_and_floor", sum_and_floor);
  m.def("call_what_is_not_there", call_what_is_not_there);
  m.def("on_two_streams", on_two_streams);
  m.def("check_streams", check_streams);
  m.def("refuse_stream_of_the_cpu", refuse_stream_of_the_cpu);
  m.def("check_events", check_events);
  m.def("check_shared_event", check_shared_event);
  m.def("share_ordinary_event", share_ordinary_event);
  m.def("check_devices", check_devices);
  m.def("wait_in_mode", wait_in_mode);
  m.def("fill_bytes", fill_bytes);
  m.def("fail_in_acl", fail_in_acl);
  m.def("normal", normal);
  m.def("check_generators", check_generators);
  m.def("by_handler", by_handler);
  m.def("by_name", by_name);
  m.def("matmul_of_transposed", matmul_of_transposed);
  m.def("with_host_inputs", with_host_inputs);
  m.def("check_formats", check_formats);
  m.def("cast_to_no_format", cast_to_no_format);
  m.def("dropout_mask", dropout_mask);
}

TORCH_LIBRARY_IMPL(extension_test, PrivateUse1, m) { m.impl("add", add); }
