// Cases as text.
#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "ops/fuzz/case.h"

namespace softnpu::fuzz {
namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, pattern);
  vsnprintf(line, sizeof line, pattern, arguments);
  va_end(arguments);
  return line;
}

std::string dtype_text(int32_t dtype) {
  for (const NamedType& type : named_types()) {
    if (type.dtype == dtype) return type.name;
  }
  return format("(aclDataType)%d", dtype);
}

std::string integer_text(int64_t value) { return value == INT64_MIN ? "INT64_MIN" : format("%" PRId64, value); }

std::string real_text(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value < 0 ? "-INFINITY" : "INFINITY";
  return format("%.17g", value);
}

template <typename T, typename Text>
std::string list_text(const T* values, int count, Text text) {
  std::string result;
  for (int i = 0; i < count; ++i) result += (i == 0 ? "" : ", ") + text(values[i]);
  return result;
}

std::string integers_text(const int64_t* values, int count) { return list_text(values, count, integer_text); }

std::string bytes_text(const uint8_t* bytes, size_t count) {
  std::string result = "\"";
  for (size_t i = 0; i < count; ++i) result += format("\\x%02x", bytes[i]);
  return result + "\"";
}

std::string string_text(const char* text) { return bytes_text(reinterpret_cast<const uint8_t*>(text), std::strlen(text)); }

std::string describe_tensor(const Case& one, int number) {
  const Tensor& tensor = one.tensors[number];
  if (tensor.is_null) return "null";
  std::string result = dtype_text(tensor.dtype) + "[" + integers_text(tensor.sizes, tensor.rank) + "]";
  Tensor dense = tensor;
  set_dense(dense);
  if (tensor.has_strides && std::memcmp(dense.strides, tensor.strides, sizeof(int64_t) * static_cast<size_t>(tensor.rank)) != 0) {
    result += " strides [" + integers_text(tensor.strides, tensor.rank) + "]";
  }
  if (!tensor.has_strides) result += " no strides";
  if (tensor.offset != 0) result += " offset " + integer_text(tensor.offset);
  if (tensor.format != ACL_FORMAT_ND) result += format(" format %d", tensor.format);
  if (tensor.shares >= 0) result += format(" in the memory of tensor %d", tensor.shares);
  if (!tensor.has_memory) result += " without memory";
  if (tensor.missing != 0) result += format(" less %" PRId64 " bytes", tensor.missing);
  result += std::string(" ") + kFillNames[static_cast<int>(tensor.fill)];
  const bool is_random = tensor.fill == Fill::kSmall || tensor.fill == Fill::kSpecial;
  return is_random ? result + format(" %" PRIu64, tensor.fill_seed) : result;
}

std::string describe_scalar(const Scalar& scalar) {
  if (scalar.is_null) return "null";
  const bool is_complex = scalar.dtype == ACL_COMPLEX32 || scalar.dtype == ACL_COMPLEX64 || scalar.dtype == ACL_COMPLEX128;
  return dtype_text(scalar.dtype) + " " + real_text(scalar.real) + (is_complex ? " + " + real_text(scalar.imaginary) + "i" : "");
}

std::string describe_argument(const Case& one, const Parameter& parameter, const Argument& argument) {
  if (argument.is_null) return "null";
  std::string items;
  switch (parameter.kind) {
    case Kind::kTensor:
      return describe_tensor(one, argument.first);
    case Kind::kTensorList:
      for (int i = 0; i < argument.count; ++i) items += (i == 0 ? "" : ", ") + describe_tensor(one, argument.first + i);
      return "{" + items + "}";
    case Kind::kScalar:
      return describe_scalar(one.scalars[argument.first]);
    case Kind::kScalarList:
      for (int i = 0; i < argument.count; ++i) items += (i == 0 ? "" : ", ") + describe_scalar(one.scalars[argument.first + i]);
      return "{" + items + "}";
    case Kind::kIntArray:
    case Kind::kBoolArray:
      return "{" + integers_text(argument.integers, argument.count) + "}";
    case Kind::kFloatArray:
      return "{" + list_text(argument.reals, argument.count, real_text) + "}";
    case Kind::kFloat:
    case Kind::kDouble:
      return real_text(argument.reals[0]);
    case Kind::kString:
      return format("text %d", argument.text);
    case Kind::kDataType:
      return dtype_text(static_cast<int32_t>(argument.integers[0]));
    default:
      return integer_text(argument.integers[0]);
  }
}

// Writes the program of one case.
class Program {
 public:
  explicit Program(const Case& one) : case_(one), function_(function_of(one)) {}

  std::string text(const std::string& comment) {
    head(comment);
    declare_memory();
    for (int i = 0; i < case_.tensor_count; ++i) declare_tensor(i);
    for (int i = 0; i < case_.scalar_count; ++i) declare_scalar(i);
    std::string arguments;
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      arguments += declare_argument(function_.parameters[i], case_.arguments[i]) + ", ";
    }
    call(arguments);
    return text_;
  }

 private:
  void line(const std::string& text) { text_ += text + "\n"; }

  void head(const std::string& comment) {
    line("// " + comment);
    line("#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n");
    line(format("#include \"acl/acl.h\"\n#include \"aclnn/aclnn_base.h\"\n#include \"%s\"\n", function_.header));
    line("// Device memory that repeats a pattern.");
    line("static void *fill(size_t bytes, const char *pattern, size_t period) {");
    line("  void *block = NULL;\n  char *host = malloc(bytes);");
    line("  for (size_t i = 0; i < bytes; ++i) host[i] = pattern[i % period];");
    line("  if (aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST) != 0) abort();");
    line("  if (aclrtMemcpy(block, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE) != 0) abort();");
    line("  free(host);\n  return block;\n}\n");
    line("// Prints the bytes that differ from the pattern.");
    line("static void compare(int tensor, void *block, size_t bytes, const char *pattern, size_t period) {");
    line("  char *host = malloc(bytes);");
    line("  if (aclrtMemcpy(host, bytes, block, bytes, ACL_MEMCPY_DEVICE_TO_HOST) != 0) abort();");
    line("  printf(\"changed bytes of tensor %d:\", tensor);");
    line("  for (size_t i = 0; i < bytes; ++i) {");
    line("    if (host[i] != pattern[i % period]) printf(\" %zu\", i);");
    line("  }\n  printf(\"\\n\");\n  free(host);\n}\n");
    line("static int report(const char *what, int status) {");
    line("  const char *message = status == 0 ? NULL : aclGetRecentErrMsg();");
    line("  printf(\"%s: %d %s\\n\", what, status, message == NULL ? \"\" : message);");
    line("  return status;\n}\n");
    line("int main(void) {");
    line("  setenv(\"SOFTNPU_MEMORY_CHECK\", \"redzone,guard\", 0);");
    line("  if (aclInit(NULL) != 0 || aclrtSetDevice(0) != 0) return 1;");
  }

  void declare_memory() {
    const std::vector<Block> blocks = plan_memory(case_);
    for (int i = 0; i < case_.tensor_count; ++i) {
      const Block& block = blocks[static_cast<size_t>(i)];
      if (case_.tensors[i].is_null) continue;
      if (block.owner != i) {
        line(format("  void *memory%d = memory%d;", i, block.owner));
      } else if (block.bytes == 0) {
        line(format("  void *memory%d = NULL;", i));
      } else {
        const std::vector<uint8_t> pattern = pattern_of(case_.tensors[i]);
        line(format("  const char pattern%d[] = ", i) + bytes_text(pattern.data(), pattern.size()) + ";");
        line(format("  void *memory%d = fill(%" PRId64 ", pattern%d, %zu);", i, block.bytes, i, pattern.size()));
      }
    }
  }

  void declare_tensor(int number) {
    const Tensor& tensor = case_.tensors[number];
    if (tensor.is_null) return;
    // C has no empty arrays.
    const auto array = [](const int64_t* values, int count) { return count == 0 ? "0" : integers_text(values, count); };
    line(format("  const int64_t sizes%d[] = {", number) + array(tensor.sizes, tensor.rank) + "};");
    if (tensor.has_strides) line(format("  const int64_t strides%d[] = {", number) + array(tensor.strides, tensor.rank) + "};");
    line(format("  aclTensor *tensor%d = aclCreateTensor(sizes%d, %d, %s, %s, %s, (aclFormat)%d, sizes%d, %d, memory%d);", number,
                number, tensor.rank, dtype_text(tensor.dtype).c_str(),
                tensor.has_strides ? format("strides%d", number).c_str() : "NULL", integer_text(tensor.offset).c_str(),
                tensor.format, number, tensor.rank, number));
  }

  void declare_scalar(int number) {
    const Scalar& scalar = case_.scalars[number];
    if (scalar.is_null) return;
    uint8_t bytes[16];
    store_number(scalar.dtype, scalar.real, scalar.imaginary, bytes);
    line(format("  char number%d[] = ", number) + bytes_text(bytes, static_cast<size_t>(item_size(scalar.dtype))) + ";");
    line(format("  aclScalar *scalar%d = aclCreateScalar(number%d, ", number, number) + dtype_text(scalar.dtype) + ");");
  }

  // Declares the variables of an argument and returns its expression.
  std::string declare_argument(const Parameter& parameter, const Argument& argument) {
    if (argument.is_null) return "NULL";
    switch (parameter.kind) {
      case Kind::kTensor:
        return tensor_name(argument.first);
      case Kind::kScalar:
        return scalar_name(argument.first);
      case Kind::kTensorList:
        return declare_array(parameter, argument.count, "const aclTensor *const", items_text(argument, &Program::tensor_name),
                             "aclCreateTensorList");
      case Kind::kScalarList:
        return declare_array(parameter, argument.count, "const aclScalar *const", items_text(argument, &Program::scalar_name),
                             "aclCreateScalarList");
      case Kind::kIntArray:
        return declare_array(parameter, argument.count, "int64_t", integers_text(argument.integers, argument.count),
                             "aclCreateIntArray");
      case Kind::kBoolArray:
        return declare_array(parameter, argument.count, "bool", integers_text(argument.integers, argument.count),
                             "aclCreateBoolArray");
      case Kind::kFloatArray:
        return declare_array(parameter, argument.count, "float", list_text(argument.reals, argument.count, real_text),
                             "aclCreateFloatArray");
      case Kind::kFloat:
      case Kind::kDouble:
        return real_text(argument.reals[0]);
      case Kind::kString:
        return string_text(kTexts[argument.text]);
      case Kind::kDataType:
        return dtype_text(static_cast<int32_t>(argument.integers[0]));
      case Kind::kUint64:
        return format("%" PRIu64 "u", static_cast<uint64_t>(argument.integers[0]));
      default:
        return integer_text(argument.integers[0]);
    }
  }

  std::string declare_array(const Parameter& parameter, int count, const char* type, const std::string& values,
                            const char* create) {
    line(format("  %s values_%s[] = {", type, parameter.name) + (count == 0 ? "0" : values) + "};");
    return format("%s(values_%s, %d)", create, parameter.name, count);
  }

  std::string tensor_name(int number) const { return case_.tensors[number].is_null ? "NULL" : format("tensor%d", number); }
  std::string scalar_name(int number) const { return case_.scalars[number].is_null ? "NULL" : format("scalar%d", number); }

  std::string items_text(const Argument& argument, std::string (Program::*name)(int) const) const {
    std::string items;
    for (int i = 0; i < argument.count; ++i) items += (i == 0 ? "" : ", ") + (this->*name)(argument.first + i);
    return items;
  }

  void call(const std::string& arguments) {
    const char* size = case_.mode == Mode::kNullSize ? "NULL" : "&size";
    const char* executor = case_.mode == Mode::kNullExecutor ? "NULL" : "&executor";
    if (case_.mode != Mode::kNullSize) line("  uint64_t size = 0;");
    line("  aclOpExecutor *executor = NULL;");
    line(format("  aclnnStatus status = %sGetWorkspaceSize(", function_.name) + arguments + size + ", " + executor + ");");
    line("  if (report(\"phase one\", status) != 0) return 0;");
    const std::string second = format("  report(\"phase two\", %s(NULL, 0, executor, NULL));", function_.name);
    if (case_.mode == Mode::kOnlyPhaseOne) {
      line("  aclDestroyAclOpExecutor(executor);");
    } else if (case_.mode == Mode::kTwice) {
      line("  report(\"repeatable\", aclSetAclOpExecutorRepeatable(executor));");
      line(second);
      line(second);
    } else {
      line(second);
    }
    if (case_.destroys_early) destroy_tensors();
    line("  report(\"synchronise\", aclrtSynchronizeStream(NULL));");
    if (case_.mode == Mode::kTwice) line("  report(\"destroy\", aclDestroyAclOpExecutor(executor));");
    if (!case_.destroys_early) destroy_tensors();
    const std::vector<Block> blocks = plan_memory(case_);
    for (int i = 0; i < case_.tensor_count; ++i) {
      const Block& block = blocks[static_cast<size_t>(i)];
      if (block.owner != i || block.bytes == 0) continue;
      line(format("  compare(%d, memory%d, %" PRId64 ", pattern%d, %zu);", i, i, block.bytes, i,
                  pattern_of(case_.tensors[i]).size()));
      line(format("  report(\"memory of tensor %d\", aclrtFree(memory%d));", i, i));
    }
    line("  return 0;\n}");
  }

  void destroy_tensors() {
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      const Argument& argument = case_.arguments[i];
      if (function_.parameters[i].kind != Kind::kTensor || argument.is_null || case_.tensors[argument.first].is_null) continue;
      line(format("  aclDestroyTensor(tensor%d);", argument.first));
    }
  }

  const Case& case_;
  const Function& function_;
  std::string text_;
};

}  // namespace

std::string describe(const Case& one) {
  const Function& function = function_of(one);
  std::string result = std::string(function.name) + "(";
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const Parameter& parameter = function.parameters[i];
    result += (i == 0 ? "" : ", ") + std::string(parameter.name) + "=" + describe_argument(one, parameter, one.arguments[i]);
  }
  return result + ")" + kModeNames[static_cast<int>(one.mode)] + (one.destroys_early ? kDestroysEarly : "");
}

std::string as_program(const Case& one, const std::string& comment) { return Program(one).text(comment); }

}  // namespace softnpu::fuzz
