// Every public C++ symbol, with its signature, its header and its place in the library: what lacks does not compile or link.
#include <third_party/op-plugin/op_plugin/include/ops.h>
#include <torch_npu/csrc/aten/NPUGeneratorImpl.h>
#include <torch_npu/csrc/core/npu/NPUEvent.h>
#include <torch_npu/csrc/core/npu/NPUException.h>
#include <torch_npu/csrc/core/npu/NPUFormat.h>
#include <torch_npu/csrc/core/npu/NPUFunctions.h>
#include <torch_npu/csrc/core/npu/NPUGuard.h>
#include <torch_npu/csrc/core/npu/NPUHooksInterface.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>
#include <torch_npu/csrc/framework/OpCommand.h>
#include <torch_npu/csrc/libs/init_npu.h>

#include <string>
#include <torch_npu/csrc/distributed/ProcessGroupHCCL.hpp>
#include <type_traits>
#include <vector>

namespace {

using at_npu::NPUGeneratorImpl;
using at_npu::native::OpCommand;
using c10_npu::NPUEvent;
using c10_npu::NPUStream;
using c10_npu::NPUStreamGuard;
using std::string;

template <class Symbol>
void keep(Symbol symbol) {
  [[maybe_unused]] volatile Symbol kept = symbol;
}

void streams() {
  static_assert(std::is_constructible_v<NPUStream, c10::Stream> && std::is_destructible_v<NPUStream>);
  static_assert(std::is_constructible_v<NPUStream, NPUStream::Unchecked, c10::Stream>);
  static_assert(std::is_convertible_v<NPUStream, aclrtStream> && std::is_convertible_v<NPUStream, c10::Stream>);
  keep<bool (NPUStream::*)(const NPUStream&) const noexcept>(&NPUStream::operator==);
  keep<bool (NPUStream::*)(const NPUStream&) const noexcept>(&NPUStream::operator!=);
  keep<c10::DeviceType (NPUStream::*)() const>(&NPUStream::device_type);
  keep<c10::DeviceIndex (NPUStream::*)() const>(&NPUStream::device_index);
  keep<c10::Device (NPUStream::*)() const>(&NPUStream::device);
  keep<c10::StreamId (NPUStream::*)() const>(&NPUStream::id);
  keep<bool (NPUStream::*)() const>(&NPUStream::query);
  keep<void (NPUStream::*)() const>(&NPUStream::synchronize);
  keep<aclrtStream (NPUStream::*)() const>(&NPUStream::stream);
  keep<aclrtStream (NPUStream::*)(const bool) const>(&NPUStream::stream);
  keep<c10::Stream (NPUStream::*)() const>(&NPUStream::unwrap);
  keep<c10::StreamData3 (NPUStream::*)() const>(&NPUStream::pack3);
  keep<NPUStream (*)(c10::StreamId, c10::DeviceIndex, c10::DeviceType)>(&NPUStream::unpack3);
  keep<bool (NPUStream::*)()>(&NPUStream::isDataPreprocessStream);
  keep<void (NPUStream::*)(bool)>(&NPUStream::setDataPreprocessStream);
  keep<NPUStream (*)(c10::DeviceIndex)>(&c10_npu::getCurrentNPUStream);
  keep<NPUStream (*)(c10::DeviceIndex)>(&c10_npu::getDefaultNPUStream);
  keep<NPUStream (*)(c10::DeviceIndex)>(&c10_npu::getNPUStreamFromPool);
  keep<void (*)(NPUStream)>(&c10_npu::setCurrentNPUStream);

  static_assert(std::is_constructible_v<NPUStreamGuard, c10::Stream>);
  keep<c10::Device (NPUStreamGuard::*)() const>(&NPUStreamGuard::current_device);
  keep<NPUStream (NPUStreamGuard::*)() const>(&NPUStreamGuard::current_stream);
  keep<c10::Device (NPUStreamGuard::*)() const>(&NPUStreamGuard::original_device);
  keep<NPUStream (NPUStreamGuard::*)() const>(&NPUStreamGuard::original_stream);
  keep<void (NPUStreamGuard::*)(c10::Stream)>(&NPUStreamGuard::reset_stream);
}

void events() {
  static_assert(std::is_default_constructible_v<NPUEvent> && std::is_constructible_v<NPUEvent, unsigned int>);
  static_assert(std::is_constructible_v<NPUEvent, c10::DeviceIndex, const aclrtIpcEventHandle*>);
  static_assert(std::is_move_constructible_v<NPUEvent> && !std::is_copy_constructible_v<NPUEvent>);
  static_assert(std::is_destructible_v<NPUEvent> && std::is_convertible_v<NPUEvent&, aclrtEvent>);
  keep<void (NPUEvent::*)(const NPUStream&)>(&NPUEvent::block);
  keep<std::optional<at::Device> (NPUEvent::*)() const>(&NPUEvent::device);
  keep<c10::DeviceIndex (NPUEvent::*)() const>(&NPUEvent::device_index);
  keep<float (NPUEvent::*)(const NPUEvent&) const>(&NPUEvent::elapsed_time);
  keep<aclrtEvent (NPUEvent::*)() const>(&NPUEvent::event);
  keep<void (NPUEvent::*)(aclrtIpcEventHandle*)>(&NPUEvent::ipc_handle);
  keep<bool (NPUEvent::*)() const>(&NPUEvent::isCreated);
  keep<bool (NPUEvent::*)() const>(&NPUEvent::query);
  keep<void (NPUEvent::*)()>(&NPUEvent::record);
  keep<void (NPUEvent::*)(const NPUStream&)>(&NPUEvent::record);
  keep<void (NPUEvent::*)(const NPUStream&)>(&NPUEvent::recordOnce);
  keep<void (NPUEvent::*)() const>(&NPUEvent::synchronize);
}

void devices() {
  keep<aclError (*)(int32_t*)>(&c10_npu::GetDevice);
  keep<aclError (*)(c10::DeviceIndex)>(&c10_npu::SetDevice);
  keep<c10::DeviceIndex (*)()>(&c10_npu::current_device);
  keep<c10::DeviceIndex (*)() noexcept>(&c10_npu::device_count);
  keep<void (*)(c10::DeviceIndex)>(&c10_npu::set_device);
  keep<void (*)(aclrtStream)>(&c10_npu::stream_synchronize);
  keep<c10_npu::WarningState& (*)()>(&c10_npu::warning_state);
  keep<void (*)()>(&c10_npu::warn_or_error_on_sync);
  keep<const char* (*)()>(&c10_npu::c10_npu_get_error_message);

  keep<void (*)(const at::Device&)>(&torch_npu::init_npu);
  keep<void (*)(const c10::DeviceIndex)>(&torch_npu::init_npu);
  keep<void (*)(const string&)>(&torch_npu::init_npu);
  keep<void (*)()>(&torch_npu::finalize_npu);
  keep<void (*)(int64_t)>(&torch::npu::synchronize);
  keep<c10::DeviceIndex (*)()>(&c10::npu::current_device);
}

void generators() {
  using Impl = NPUGeneratorImpl;
  static_assert(std::is_default_constructible_v<Impl> && std::is_constructible_v<Impl, c10::DeviceIndex>);
  keep<std::shared_ptr<Impl> (Impl::*)() const>(&Impl::clone);
  keep<uint64_t (Impl::*)() const>(&Impl::current_seed);
  keep<c10::DeviceType (*)()>(&Impl::device_type);
  keep<uint64_t (Impl::*)() const>(&Impl::get_offset);
  keep<c10::intrusive_ptr<c10::TensorImpl> (Impl::*)() const>(&Impl::get_state);
  keep<std::pair<uint64_t, uint64_t> (Impl::*)(uint64_t)>(&Impl::philox_engine_inputs);
  keep<at_npu::PhiloxNpuState (Impl::*)(uint64_t)>(&Impl::philox_npu_state);
  keep<uint64_t (Impl::*)() const>(&Impl::philox_offset_per_thread);
  keep<uint64_t (Impl::*)()>(&Impl::seed);
  keep<void (Impl::*)(uint64_t)>(&Impl::set_current_seed);
  keep<void (Impl::*)(uint64_t)>(&Impl::set_offset);
  keep<void (Impl::*)(uint64_t)>(&Impl::set_philox_offset_per_thread);
  keep<void (Impl::*)(const c10::TensorImpl&)>(&Impl::set_state);
  keep<at::Generator (*)(c10::DeviceIndex)>(&at_npu::detail::createNPUGenerator);
  keep<const at::Generator& (*)(c10::DeviceIndex)>(&at_npu::detail::getDefaultNPUGenerator);
  keep<const at::Generator& (c10_npu::NPUHooksInterface::*)(c10::DeviceIndex) const>(
      &c10_npu::NPUHooksInterface::getDefaultGenerator);
}

void commands() {
  using namespace at_npu::native;
  using Format = std::optional<aclFormat>;
  static_assert(std::is_default_constructible_v<OpCommand> && std::is_destructible_v<OpCommand>);
  keep<OpCommand& (OpCommand::*)(const string&, float)>(&OpCommand::Attr<float>);
  keep<OpCommand& (OpCommand::*)(const string&, float, bool)>(&OpCommand::Attr<float>);
  keep<OpCommand& (OpCommand::*)(DynamicInputRegFunc, DyNumAndIndex)>(&OpCommand::DynamicInputReg);
  keep<OpCommand& (OpCommand::*)(UnifiedResult)>(&OpCommand::Expect);
  keep<OpCommand& (OpCommand::*)()>(&OpCommand::Input);
  keep<OpCommand& (OpCommand::*)(const at::Tensor&, const string&, const Format&, const string&)>(&OpCommand::Input);
  keep<OpCommand& (OpCommand::*)(const c10::ArrayRef<float>&, at::IntArrayRef, at::ScalarType, CompileType, const string&,
                                 const string&)>(&OpCommand::Input<float>);
  keep<OpCommand& (OpCommand::*)(const c10::ArrayRef<double>&, at::IntArrayRef, at::ScalarType, CompileType, const string&)>(
      &OpCommand::Input);
  keep<OpCommand& (OpCommand::*)(const c10::IntArrayRef&, at::ScalarType, CompileType, const string&, const string&)>(
      &OpCommand::Input);
  keep<OpCommand& (OpCommand::*)(const c10::Scalar&, const at::ScalarType, CompileType)>(&OpCommand::Input);
  keep<OpCommand& (OpCommand::*)(const c10::Scalar&, const at::ScalarType)>(&OpCommand::InputScalarToNPUTensor);
  keep<OpCommand& (OpCommand::*)(const at::Tensor&, const string&, const string&)>(&OpCommand::InputWithoutContiguous);
  keep<OpCommand& (OpCommand::*)(const at::TensorList&)>(&OpCommand::Inputs);
  keep<OpCommand& (OpCommand::*)(const string&)>(&OpCommand::Name);
  keep<OpCommand& (OpCommand::*)(at::Tensor&, const string&, const Format&, const string&)>(&OpCommand::Output);
  keep<void (OpCommand::*)()>(&OpCommand::Run);
  keep<OpCommand& (OpCommand::*)(PROC_FUNC)>(&OpCommand::SetCustomHandler);
  keep<OpCommand& (OpCommand::*)()>(&OpCommand::Sync);
  keep<OpCommand& (OpCommand::*)(c10::SmallVector<int64_t, N>&)>(&OpCommand::Sync);

  using OptionalBool = std::optional<bool>;
  keep<at::Tensor (*)(c10::IntArrayRef, const c10::TensorOptions&, int64_t, bool)>(&empty_with_format);
  keep<at::Tensor (*)(c10::IntArrayRef, std::optional<at::ScalarType>, std::optional<c10::Device>)>(&empty_with_swapped_memory);
  keep<int64_t (*)(const at::Tensor&)>(&get_npu_format);
  keep<std::vector<int64_t> (*)(const at::Tensor&)>(&get_npu_storage_sizes);
  keep<at::Tensor (*)(const at::Tensor&, int64_t)>(&npu_format_cast);
  keep<at::Tensor (*)(const at::Tensor&, at::IntArrayRef, double, int64_t, int64_t, OptionalBool, OptionalBool)>(
      &npu_dropout_gen_mask);

  using Group = c10d_npu::ProcessGroupHCCL;
  using Work = c10::intrusive_ptr<c10d::Work>;
  keep<Work (Group::*)(std::vector<string>&, std::vector<at::Tensor>&, std::vector<int64_t>)>(&Group::batch_isend_irecv);
}

void defaults() {
  const std::vector<double> numbers(3);
  NPUGeneratorImpl generator;
  NPUEvent empty, timed(ACL_EVENT_TIME_LINE), moved(std::move(empty)), opened(0, nullptr);
  c10_npu::getCurrentNPUStream(), c10_npu::getDefaultNPUStream(), c10_npu::getNPUStreamFromPool();
  at_npu::detail::createNPUGenerator(), at_npu::detail::getDefaultNPUGenerator();
  at_npu::native::empty_with_format({1}, {}, 2);
  torch_npu::init_npu(), torch::npu::synchronize();
  OpCommand().Input(c10::IntArrayRef{1}).Input(c10::ArrayRef<double>(numbers), {3}).Input(c10::Scalar(1), at::kFloat);
}

}  // namespace

void use_every_symbol(bool really) {
  if (really) defaults();
  streams();
  events();
  devices();
  generators();
  commands();
}
