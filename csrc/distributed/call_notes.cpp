#include "distributed/call_notes.h"

#include <dlfcn.h>

#include "acl/library.h"

namespace torch_npu::distributed {
namespace {

// Functions of softnpu's libhccl, softnpu/hccl/extensions.h. Null with another library.
struct Extensions {
  void (*note)(const char* text);
  bool (*describe)(HcclComm communicator, char* text, size_t bytes);
};

const Extensions& extensions() {
  static const Extensions found = [] {
    void* const library = acl::collective_library();
    return Extensions{reinterpret_cast<decltype(Extensions::note)>(dlsym(library, "HcclSoftnpuNote")),
                      reinterpret_cast<decltype(Extensions::describe)>(dlsym(library, "HcclSoftnpuDescribe"))};
  }();
  return found;
}

const char* order_of(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return "";
  return tensor.dim() == 5 ? "channels_last_3d" : "channels_last";
}

}  // namespace

void note_call(const at::Tensor& tensor, const char* reduction) {
  if (extensions().note == nullptr) return;
  std::string text;
  const auto add = [&text](const std::string& word) { text += (text.empty() || word.empty() ? "" : ", ") + word; };
  const c10::ScalarType type = tensor.scalar_type();
  // libhccl gets these types as another type. For example, an average of integers is reduced as int64.
  const bool is_reduced_as_another = *reduction != '\0' && c10::isIntegralType(type, /*includeBool=*/false);
  if (type == c10::kBool || c10::isComplexType(type) || is_reduced_as_another) add(c10::toString(type));
  add(reduction);
  add(order_of(tensor));
  extensions().note(text.c_str());
}

void forget_notes() noexcept {
  if (extensions().note != nullptr) extensions().note(nullptr);
}

std::string words_of(HcclComm communicator) {
  char text[512] = "";
  return extensions().describe != nullptr && extensions().describe(communicator, text, sizeof text) ? text : "";
}

}  // namespace torch_npu::distributed
