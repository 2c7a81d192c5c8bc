#include "acl/softnpu.h"

#include "acl/library.h"
#include "acl/symbol.h"

namespace torch_npu::acl {

std::string softnpu_control(const std::string& command) {
  using Control = aclError (*)(const char* command, char* reply, size_t reply_bytes);
  const auto control = reinterpret_cast<Control>(find_symbol("softnpuControl"));
  TORCH_CHECK_NOT_IMPLEMENTED(control != nullptr, "The device library ", library_info().path,
                              " is not the software device, which alone knows the command '", command, "'.");
  std::string reply(64 << 10, '\0');
  check(control(command.c_str(), reply.data(), reply.size()), "softnpuControl");
  reply.resize(reply.find('\0'));
  return reply;
}

void set_softnpu_origin(int (*origin)(char* text, size_t bytes), bool of_all_launches) {
  using SetOrigin = void (*)(int (*)(char*, size_t), unsigned);
  constexpr unsigned kRaces = 1, kFailures = 2;  // SOFTNPU_ORIGIN_* of softnpu.h
  if (const auto set = reinterpret_cast<SetOrigin>(find_symbol("softnpuSetOrigin"))) {
    set(origin, of_all_launches ? kRaces | kFailures : kFailures);
  }
}

}  // namespace torch_npu::acl
