// The hooks that torch calls besides the device guard. This file has no header: it registers the hooks with torch.
#include "acl/symbol.h"
#include "core/device/device.h"
#include "core/exit_report.h"
#include "core/graph/generator.h"
#include "core/memory/host_allocator.h"
#include "core/memory/storage.h"
#include "core/operator_dump.h"
#include "core/stream/launch_trace.h"
#include "torch_npu/csrc/core/npu/NPUHooksInterface.h"

const at::Generator& c10_npu::NPUHooksInterface::getDefaultGenerator(c10::DeviceIndex device_index) const {
  return torch_npu::getDefaultNPUGenerator(device_index);
}

namespace torch_npu {
namespace {

struct Hooks final : c10_npu::NPUHooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  void init() const override { initialize(); }
  bool hasPrimaryContext(c10::DeviceIndex device) const override { return has_context(device); }

  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_device(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device() : exchange_device(device);
  }

  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return createNPUGenerator(device); }

  at::Allocator* getPinnedMemoryAllocator() const override { return getNPUHostAllocator(); }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }

  at::Device getDeviceFromPtr(void* data) const override {
    bind_device();
    aclrtPtrAttributes attributes{};
    ACL_CALL(aclrtPointerGetAttributes, data, &attributes);
    TORCH_CHECK(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE, "the pointer is not an address of an NPU");
    return npu_device(static_cast<c10::DeviceIndex>(attributes.location.id));
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

[[maybe_unused]] const bool hooks_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  for (void (*const function)() : {tell_device_origins, watch_exit, +[] { start_dump_of_variable(); }})
    call_at_initialization(function);
  return true;
}();

}  // namespace
}  // namespace torch_npu
