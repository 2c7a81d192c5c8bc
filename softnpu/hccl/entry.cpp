#include "hccl/entry.h"

#include "hccl/communicator.h"
#include "hccl/library.h"

namespace softnpu::hccl::entry {

Status null_argument(const char* name) { return {HCCL_E_PTR, text("argument '", name, "' is null")}; }

Status resolve(HcclComm handle, std::shared_ptr<Communicator>* communicator) {
  *communicator = Communicator::find(handle);
  if (*communicator != nullptr) return {};
  return {HCCL_E_PARA, text("argument 'comm' (", handle, ") is not a communicator of this process, or it was destroyed")};
}

HcclResult fail(const char* function, const Status& status) {
  const auto code = static_cast<HcclResult>(status.code());
  if (driver() != nullptr) driver()->fail(function, code, text(status.message(), " (", result_name(code), ")").c_str());
  return code;
}

HcclResult refuse(const char* function) {
  return fail(function, Status(HCCL_E_NOT_SUPPORT,
                               "the software device does not support this function; docs/acl.md lists the supported functions"));
}

}  // namespace softnpu::hccl::entry
