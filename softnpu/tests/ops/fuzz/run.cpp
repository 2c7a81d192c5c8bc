#include "ops/fuzz/run.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "acl/acl.h"

#ifdef __SANITIZE_ADDRESS__
// A kernel that allocates too much gets an exception. Signals have their default action.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=4096:detect_leaks=0:"
         "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0";
}
#endif

namespace softnpu::fuzz {
namespace {

void require(aclError code, const char* what) {
  if (code == ACL_SUCCESS) return;
  const char* message = aclGetRecentErrMsg();
  fprintf(stderr, "fuzzer: %s failed with %d: %s\n", what, code, message == nullptr ? "" : message);
  exit(EXIT_FAILURE);
}

class Call {
 public:
  Call(const Case& one, Outcome& outcome)
      : case_(one), function_(function_of(one)), outcome_(outcome), blocks_(plan_memory(one)) {}

  void run() {
    allocate();
    create_objects();
    both_phases();
    if (!destroyed_) destroy_objects();
    if (outcome_.result != Result::kRefused) compare_memory();
    free_memory();
  }

 private:
  struct Memory {
    void* address = nullptr;
    std::vector<uint8_t> before;
  };

  // Keeps the first failure; a write outside of the tensors replaces others.
  void report(Result result, const std::string& message) {
    if (outcome_.result == Result::kOutside) return;
    if (outcome_.result == Result::kLate && result != Result::kOutside) return;
    outcome_.result = result;
    snprintf(outcome_.message, sizeof outcome_.message, "%s", message.c_str());
  }

  // Reports the result of a call after phase one.
  void expect(int code) {
    if (code == ACL_SUCCESS) return;
    const char* message = aclGetRecentErrMsg();
    report(code == ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW ? Result::kOutside : Result::kLate, message == nullptr ? "" : message);
  }

  void allocate() {
    memory_.resize(blocks_.size());
    is_passed_.resize(blocks_.size());
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      if (block.owner != static_cast<int>(i)) {
        memory_[i].address = memory_[static_cast<size_t>(block.owner)].address;
      } else if (block.bytes > 0) {
        fill(memory_[i], case_.tensors[i], static_cast<size_t>(block.bytes));
      }
    }
  }

  void fill(Memory& memory, const Tensor& tensor, size_t bytes) {
    require(aclrtMalloc(&memory.address, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    const std::vector<uint8_t> pattern = pattern_of(tensor);
    memory.before.resize(bytes);
    for (size_t i = 0; i < bytes; ++i) memory.before[i] = pattern[i % pattern.size()];
    require(aclrtMemcpy(memory.address, bytes, memory.before.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
  }

  aclTensor* create_tensor(int number) {
    const Tensor& tensor = case_.tensors[number];
    if (tensor.is_null) return nullptr;
    aclTensor* created =
        aclCreateTensor(tensor.sizes, static_cast<uint64_t>(tensor.rank), static_cast<aclDataType>(tensor.dtype),
                        tensor.has_strides ? tensor.strides : nullptr, tensor.offset, static_cast<aclFormat>(tensor.format),
                        tensor.sizes, static_cast<uint64_t>(tensor.rank), memory_[static_cast<size_t>(number)].address);
    is_passed_[static_cast<size_t>(number)] = created != nullptr;
    return created;
  }

  aclScalar* create_scalar(int number) const {
    const Scalar& scalar = case_.scalars[number];
    if (scalar.is_null) return nullptr;
    uint8_t bytes[16];
    store_number(scalar.dtype, scalar.real, scalar.imaginary, bytes);
    return aclCreateScalar(bytes, static_cast<aclDataType>(scalar.dtype));
  }

  void create_objects() {
    for (size_t i = 0; i < function_.parameters.size(); ++i)
      values_[i] = create(function_.parameters[i].kind, case_.arguments[i]);
  }

  Value create(Kind kind, const Argument& argument) {
    Value value = {.integer = 0};
    if (argument.is_null) return value;
    const auto count = static_cast<uint64_t>(argument.count);
    switch (kind) {
      case Kind::kTensor:
        value.tensor = create_tensor(argument.first);
        break;
      case Kind::kTensorList: {
        const aclTensor* items[kMaxItems];
        for (int i = 0; i < argument.count; ++i) items[i] = create_tensor(argument.first + i);
        value.tensors = aclCreateTensorList(items, count);
        break;
      }
      case Kind::kScalar:
        value.scalar = create_scalar(argument.first);
        break;
      case Kind::kScalarList: {
        const aclScalar* items[kMaxItems];
        for (int i = 0; i < argument.count; ++i) items[i] = create_scalar(argument.first + i);
        value.scalars = aclCreateScalarList(items, count);
        break;
      }
      case Kind::kIntArray:
        value.int_array = aclCreateIntArray(argument.integers, count);
        break;
      case Kind::kBoolArray: {
        bool flags[kMaxValues];
        std::copy_n(argument.integers, argument.count, flags);
        value.bool_array = aclCreateBoolArray(flags, count);
        break;
      }
      case Kind::kFloatArray: {
        float reals[kMaxValues];
        std::copy_n(argument.reals, argument.count, reals);
        value.float_array = aclCreateFloatArray(reals, count);
        break;
      }
      case Kind::kFloat:
      case Kind::kDouble:
        value.real = argument.reals[0];
        break;
      case Kind::kString:
        value.text = kTexts[argument.text];
        break;
      default:
        value.integer = argument.integers[0];
    }
    return value;
  }

  void both_phases() {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus status = function_.first(values_, case_.mode == Mode::kNullSize ? nullptr : &size,
                                               case_.mode == Mode::kNullExecutor ? nullptr : &executor);
    if (status != ACLNN_SUCCESS) {
      const char* message = aclGetRecentErrMsg();
      return report(Result::kRefused, message == nullptr ? "" : message);
    }
    outcome_.result = Result::kSucceeded;
    if (case_.mode == Mode::kOnlyPhaseOne) return expect(aclDestroyAclOpExecutor(executor));
    if (case_.mode == Mode::kTwice) expect(aclSetAclOpExecutorRepeatable(executor));
    expect(function_.second(nullptr, 0, executor, nullptr));
    if (case_.mode == Mode::kTwice) expect(function_.second(nullptr, 0, executor, nullptr));
    if (case_.destroys_early) destroy_objects();
    expect(aclrtSynchronizeStream(nullptr));
    if (case_.mode == Mode::kTwice) expect(aclDestroyAclOpExecutor(executor));
  }

  void destroy_objects() {
    destroyed_ = true;
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      const Value& value = values_[i];
      if (value.tensor == nullptr) continue;
      switch (function_.parameters[i].kind) {
        case Kind::kTensor:
          aclDestroyTensor(value.tensor);
          break;
        case Kind::kTensorList:
          aclDestroyTensorList(value.tensors);
          break;
        case Kind::kScalar:
          aclDestroyScalar(value.scalar);
          break;
        case Kind::kScalarList:
          aclDestroyScalarList(value.scalars);
          break;
        case Kind::kIntArray:
          aclDestroyIntArray(value.int_array);
          break;
        case Kind::kBoolArray:
          aclDestroyBoolArray(value.bool_array);
          break;
        case Kind::kFloatArray:
          aclDestroyFloatArray(value.float_array);
          break;
        default:
          break;
      }
    }
  }

  // Marks the bytes of a tensor. If the shape depends on data, the result may be anywhere after the address.
  void mark(const Tensor& tensor, std::vector<bool>& mask) const {
    const int64_t bytes = bytes_of(tensor);
    const int64_t item = item_size(tensor.dtype);
    if (bytes <= 0) return;
    if (static_cast<size_t>(bytes) > mask.size()) mask.resize(static_cast<size_t>(bytes));
    if (function_.sync) {
      std::fill(mask.begin() + tensor.offset * item, mask.begin() + bytes, true);
      return;
    }
    Tensor view = tensor;
    if (!view.has_strides) set_dense(view);
    for (int64_t i = 0, count = count_elements(view); i < count; ++i) {
      int64_t place = view.offset;
      for (int64_t rest = i, axis = view.rank; axis-- > 0; rest /= view.sizes[axis]) {
        place += rest % view.sizes[axis] * view.strides[axis];
      }
      std::fill_n(mask.begin() + place * item, item, true);
    }
  }

  // For each block: the bytes that the function may write.
  std::vector<std::vector<bool>> writable() const {
    std::vector<std::vector<bool>> masks(memory_.size());
    for (size_t i = 0; i < masks.size(); ++i) masks[i].resize(memory_[i].before.size());
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      const Parameter& parameter = function_.parameters[i];
      const Argument& argument = case_.arguments[i];
      if (!parameter.written || !is_tensor(parameter.kind) || argument.is_null) continue;
      const int count = parameter.kind == Kind::kTensor ? 1 : argument.count;
      for (int number = argument.first; number < argument.first + count; ++number) {
        if (is_passed_[static_cast<size_t>(number)]) mark(case_.tensors[number], masks[static_cast<size_t>(owner_of(number))]);
      }
    }
    return masks;
  }

  int owner_of(int number) const { return blocks_[static_cast<size_t>(number)].owner; }

  void compare_memory() {
    for (int i = 0; i < case_.tensor_count; ++i) {
      const Tensor& tensor = case_.tensors[i];
      if (!is_passed_[static_cast<size_t>(i)] || bytes_of(tensor) <= blocks_[static_cast<size_t>(i)].bytes) continue;
      return report(Result::kOutside, "phase one took tensor " + std::to_string(i) + ", which is larger than its memory");
    }
    const std::vector<std::vector<bool>> masks = writable();
    for (size_t i = 0; i < memory_.size(); ++i) {
      const std::vector<uint8_t>& before = memory_[i].before;
      if (before.empty()) continue;
      std::vector<uint8_t> after(before.size());
      const aclError code = aclrtMemcpy(after.data(), after.size(), memory_[i].address, after.size(), ACL_MEMCPY_DEVICE_TO_HOST);
      if (code != ACL_SUCCESS) return expect(code);
      for (size_t byte = 0; byte < before.size(); ++byte) {
        if (before[byte] == after[byte] || masks[i][byte]) continue;
        return report(Result::kOutside, "byte " + std::to_string(byte) + " of the memory of tensor " + std::to_string(i) +
                                            " belongs to no output and was changed");
      }
    }
  }

  void free_memory() {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (!memory_[i].before.empty()) expect_free(aclrtFree(memory_[i].address));
    }
  }

  // Red zones are also checked for refused calls.
  void expect_free(int code) {
    if (code == ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW) return expect(code);
    require(code, "aclrtFree");
  }

  const Case& case_;
  const Function& function_;
  Outcome& outcome_;
  std::vector<Block> blocks_;
  std::vector<Memory> memory_;
  std::vector<bool> is_passed_;  // for each tensor: whether it could be created
  Value values_[kMaxArguments] = {};
  bool destroyed_ = false;
};

}  // namespace

void set_environment() {
  setenv("SOFTNPU_MEMORY_CHECK", "redzone,guard", 0);
  setenv("SOFTNPU_DEVICE_COUNT", "1", 0);
  setenv("SOFTNPU_DEVICE_MEMORY", "1G", 0);
  setenv("ASCEND_GLOBAL_LOG_LEVEL", "4", 0);
}

void start_device() {
  require(aclInit(nullptr), "aclInit");
  require(aclrtSetDevice(0), "aclrtSetDevice");
}

void run(const Case& one, Outcome& outcome) {
  outcome = Outcome();
  Call(one, outcome).run();
}

}  // namespace softnpu::fuzz
