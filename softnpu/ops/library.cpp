#include "ops/library.h"

#include <c10/util/Exception.h>

#include <new>

#include "ops/calls/executor.h"
#include "runtime/operators.h"

#pragma weak softnpuDriver
#pragma weak softnpuDescribeOperators

namespace softnpu::ops {

const SoftnpuDriver* open_driver() {
  const SoftnpuDriver* const driver = softnpuDriver == nullptr ? nullptr : softnpuDriver(SOFTNPU_DRIVER_VERSION);
  if (driver != nullptr && softnpuDescribeOperators != nullptr) softnpuDescribeOperators(describe_task);
  return driver;
}

aclnnStatus fail(const char* function, const Status& status) {
  return driver() == nullptr ? status.code() : driver()->fail(function, status.code(), status.message().c_str());
}

aclnnStatus fail_by_exception(const char* function) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(function, Status(ACL_ERROR_BAD_ALLOC, "the host has no memory left for the operator library's own data"));
  } catch (const std::exception& error) {
    return fail(function, Status(ACLNN_ERR_INNER, plain_message(error)));
  }
}

std::string plain_message(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string message = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  message.resize(std::min(message.find('\n'), message.size()));
  return message;
}

}  // namespace softnpu::ops
