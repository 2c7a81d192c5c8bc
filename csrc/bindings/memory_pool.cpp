#include "core/memory/memory_pool.h"

#include "bindings/bind.h"
#include "core/device/device.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

struct PyAllocator {
  const AllocatorFunctions* functions = nullptr;  // the user's; null for the allocator of torch_npu
};

// Never destroyed, because memory may outlive every Python object.
const AllocatorFunctions* make_allocator(uintptr_t allocate, uintptr_t free) {
  TORCH_CHECK_VALUE(allocate != 0 && free != 0, "an allocator needs a function that allocates and one that frees");
  return new AllocatorFunctions{reinterpret_cast<decltype(AllocatorFunctions::allocate)>(allocate),
                                reinterpret_cast<decltype(AllocatorFunctions::free)>(free)};
}

}  // namespace

void bind_memory_pool(py::module_& module) {
  py::class_<PyAllocator>(module, "_npu_NPUAllocator").def_property_readonly("name", [](const PyAllocator& allocator) {
    return allocator.functions != nullptr ? "pluggable" : "native";
  });
  module.def("_npu_customAllocator",
             [](uintptr_t allocate, uintptr_t free) { return PyAllocator{make_allocator(allocate, free)}; });
  module.def("_npu_getAllocator", [] { return PyAllocator{plugged_allocator()}; });
  module.def("_npu_changeCurrentAllocator", [](const PyAllocator& allocator) {
    if (allocator.functions != nullptr) use_allocator(allocator.functions);
  });

  py::class_<MemoryPool>(module, "_MemPool")
      .def(py::init([](const PyAllocator* allocator) {
             return std::make_unique<MemoryPool>(allocator != nullptr ? allocator->functions : nullptr);
           }),
           py::arg("allocator") = nullptr)
      .def_property_readonly("id", &MemoryPool::id)
      .def("use_count", &MemoryPool::use_count);
  py::class_<UsePool>(module, "_UsePool")
      .def(py::init(
          [](const MemoryPool& pool, int64_t device) { return std::make_unique<UsePool>(pool, checked_device(device)); }))
      .def(py::init(
          [](c10::MempoolId_t pool, int64_t device) { return std::make_unique<UsePool>(pool, checked_device(device)); }));
}

}  // namespace torch_npu::bindings
