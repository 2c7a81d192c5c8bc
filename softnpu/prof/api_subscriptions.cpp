// Subscriptions, and the functions that read the records of operators from the pipe.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "prof/entry.h"
#include "prof/recording.h"
#include "prof/subscriptions.h"
#include "prof_api.h"

namespace softnpu::prof {
namespace {

Result<const OpInfo*> find(const void* op_info, size_t length, uint32_t index) {
  if (op_info == nullptr) return entry::null_argument("opInfo");
  if (length == 0 || length % sizeof(OpInfo) != 0) {
    return Status(ACL_ERROR_INVALID_PARAM,
                  text("argument 'opInfoLen' (", length, ") is not a multiple of aclprofGetOpDescSize, ", sizeof(OpInfo)));
  }
  if (index >= length / sizeof(OpInfo)) {
    return Status(ACL_ERROR_INVALID_PARAM,
                  text("argument 'index' (", index, ") must be below the number of operators, ", length / sizeof(OpInfo)));
  }
  const auto* const at = static_cast<const std::byte*>(op_info) + index * sizeof(OpInfo);
  uint32_t magic = 0;
  std::memcpy(&magic, at, sizeof magic);
  if (magic != OpInfo::kMagic || reinterpret_cast<uintptr_t>(at) % alignof(OpInfo) != 0) {
    return Status(ACL_ERROR_INVALID_PARAM, "argument 'opInfo' was not written by a subscription, or is not aligned to 8 bytes");
  }
  return reinterpret_cast<const OpInfo*>(at);
}

template <size_t kSize>
Status length_of(const void* op_info, size_t length, uint32_t index, char (OpInfo::*member)[kSize], size_t* result) {
  Result<const OpInfo*> info = find(op_info, length, index);
  if (!info.ok()) return info.take_status();
  *result = strnlen(info.value()->*member, kSize - 1) + 1;
  return {};
}

template <size_t kSize>
Status copy_of(const void* op_info, size_t length, uint32_t index, char (OpInfo::*member)[kSize], char* target, size_t bytes) {
  Result<const OpInfo*> info = find(op_info, length, index);
  if (!info.ok()) return info.take_status();
  const std::string_view text_of(info.value()->*member, strnlen(info.value()->*member, kSize - 1));
  if (bytes <= text_of.size()) {
    return {ACL_ERROR_INVALID_PARAM, text("the buffer has ", bytes, " bytes; the text needs ", text_of.size() + 1)};
  }
  std::memcpy(target, text_of.data(), text_of.size());
  target[text_of.size()] = '\0';
  return {};
}

// Returns a property of an operator, or `otherwise` for a wrong argument.
template <typename T, typename Get>
T property(T otherwise, const char* function, const void* op_info, size_t length, uint32_t index, Get get) {
  return entry::value_or<T>(otherwise, function, [&]() -> Result<T> {
    Result<const OpInfo*> info = find(op_info, length, index);
    if (!info.ok()) return info.take_status();
    return T(get(*info.value()));
  });
}

}  // namespace

namespace api {

Status aclprofDestroySubscribeConfig(const aclprofSubscribeConfig* profSubscribeConfig) {
  return Subscriptions::get().destroy_config(profSubscribeConfig);
}

Status aclprofModelSubscribe(uint32_t modelId, const aclprofSubscribeConfig* profSubscribeConfig) {
  return Subscriptions::get().subscribe(modelId, profSubscribeConfig);
}

Status aclprofModelUnSubscribe(uint32_t modelId) { return Subscriptions::get().unsubscribe(modelId); }

Status aclprofGetOpDescSize(size_t* opDescSize) {
  *opDescSize = sizeof(OpInfo);
  return {};
}

Status aclprofGetOpNum(const void* opInfo, size_t opInfoLen, uint32_t* opNumber) {
  if (Result<const OpInfo*> info = find(opInfo, opInfoLen, 0); !info.ok()) return info.take_status();
  *opNumber = uint32_t(opInfoLen / sizeof(OpInfo));
  return {};
}

Status aclprofGetOpTypeLen(const void* opInfo, size_t opInfoLen, uint32_t index, size_t* opTypeLen) {
  return length_of(opInfo, opInfoLen, index, &OpInfo::type, opTypeLen);
}

Status aclprofGetOpType(const void* opInfo, size_t opInfoLen, uint32_t index, char* opType, size_t opTypeLen) {
  return copy_of(opInfo, opInfoLen, index, &OpInfo::type, opType, opTypeLen);
}

Status aclprofGetOpNameLen(const void* opInfo, size_t opInfoLen, uint32_t index, size_t* opNameLen) {
  return length_of(opInfo, opInfoLen, index, &OpInfo::name, opNameLen);
}

Status aclprofGetOpName(const void* opInfo, size_t opInfoLen, uint32_t index, char* opName, size_t opNameLen) {
  return copy_of(opInfo, opInfoLen, index, &OpInfo::name, opName, opNameLen);
}

}  // namespace api
}  // namespace softnpu::prof

using softnpu::Result;
using softnpu::Status;
using softnpu::prof::OpInfo;
using softnpu::prof::property;

aclprofSubscribeConfig* aclprofCreateSubscribeConfig(int8_t timeInfoSwitch, aclprofAicoreMetrics aicoreMetrics, void* fd) {
  using Created = Result<aclprofSubscribeConfig*>;
  return softnpu::prof::entry::value_or<aclprofSubscribeConfig*>(nullptr, "aclprofCreateSubscribeConfig", [&]() -> Created {
    if (fd == nullptr) return softnpu::prof::entry::null_argument("fd");
    if (softnpu::prof::metrics_name(aicoreMetrics) == nullptr) {
      return Status(ACL_ERROR_INVALID_PARAM,
                    softnpu::text("argument 'aicoreMetrics' (", int(aicoreMetrics),
                                  ") is not an aclprofAicoreMetrics; allowed are 0 to 8, and 255 (none)"));
    }
    const int pipe = *static_cast<const int*>(fd);
    if (const int flags = fcntl(pipe, F_GETFL); flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
      return Status(ACL_ERROR_INVALID_PARAM,
                    softnpu::text("argument 'fd' points to ", pipe, ", which is not a descriptor open for writing"));
    }
    return softnpu::prof::Subscriptions::get().create_config({.has_times = timeInfoSwitch != 0, .pipe = pipe});
  });
}

uint64_t aclprofGetOpStart(const void* opInfo, size_t opInfoLen, uint32_t index) {
  return property<uint64_t>(0, "aclprofGetOpStart", opInfo, opInfoLen, index, [](const OpInfo& info) { return info.start_ns; });
}

uint64_t aclprofGetOpEnd(const void* opInfo, size_t opInfoLen, uint32_t index) {
  return property<uint64_t>(0, "aclprofGetOpEnd", opInfo, opInfoLen, index, [](const OpInfo& info) { return info.end_ns; });
}

uint64_t aclprofGetOpDuration(const void* opInfo, size_t opInfoLen, uint32_t index) {
  return property<uint64_t>(0, "aclprofGetOpDuration", opInfo, opInfoLen, index,
                            [](const OpInfo& info) { return info.end_ns - info.start_ns; });
}

size_t aclprofGetModelId(const void* opInfo, size_t opInfoLen, uint32_t index) {
  return property<size_t>(0, "aclprofGetModelId", opInfo, opInfoLen, index, [](const OpInfo& info) { return info.model; });
}

aclprofSubscribeOpFlag aclprofGetOpFlag(const void* opInfo, size_t opInfoLen, uint32_t index) {
  return property(ACL_SUBSCRIBE_NONE, "aclprofGetOpFlag", opInfo, opInfoLen, index,
                  [](const OpInfo&) { return ACL_SUBSCRIBE_OP; });
}

const char* aclprofGetOpAttriValue(const void* opInfo, size_t opInfoLen, uint32_t index, aclprofSubscribeOpAttri attri) {
  return softnpu::prof::entry::value_or<const char*>(nullptr, "aclprofGetOpAttriValue", [&]() -> Result<const char*> {
    if (attri != ACL_SUBSCRIBE_ATTRI_THREADID) {
      return Status(ACL_ERROR_INVALID_PARAM, softnpu::text("argument 'attri' (", int(attri),
                                                           ") is unknown; the only attribute is ACL_SUBSCRIBE_ATTRI_THREADID"));
    }
    Result<const OpInfo*> info = softnpu::prof::find(opInfo, opInfoLen, index);
    if (!info.ok()) return info.take_status();
    return static_cast<const char*>(info.value()->thread);
  });
}
