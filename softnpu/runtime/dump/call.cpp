#include "runtime/dump/call.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "runtime/dump/tensors.h"

namespace softnpu {
namespace {

// Microseconds since 1970. Each call returns another number.
uint64_t unique_time() {
  static constinit std::atomic<uint64_t> newest{0};
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t present = uint64_t(now.tv_sec) * 1'000'000 + uint64_t(now.tv_nsec) / 1000;
  uint64_t before = newest.load(std::memory_order_relaxed);
  uint64_t mine = 0;
  do {
    mine = std::max(present, before + 1);
  } while (!newest.compare_exchange_weak(before, mine, std::memory_order_relaxed));
  return mine;
}

std::string type_of(std::string_view name) {
  constexpr std::string_view kPrefix = "aclnn";
  return std::string(name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name);
}

}  // namespace

std::unique_ptr<DumpedCall> DumpedCall::begin(const char* name, const DumpPlace& place) {
  std::shared_ptr<DumpSession> session = Dumps::session();
  if (session == nullptr || session->is_stopped() || !session->config().is_on || !session->config().wants(name)) return nullptr;
  std::unique_ptr<DumpedCall> call(new DumpedCall);
  call->record_ = std::make_unique<DumpRecord>();
  call->record_->session = std::move(session);
  call->record_->header.op_name = name;
  call->record_->folder = text(place.device, "/", place.graph, "/", place.replay);
  call->record_->type = type_of(name);
  call->record_->stream = place.stream;
  return call;
}

// Runs a part of the dump. A failure stops the whole dump.
template <class Body>
void DumpedCall::attempt(Body body) {
  if (record_ == nullptr) return;
  if (record_->session->is_stopped()) {
    record_ = nullptr;
    return;
  }
  Status status;
  try {
    status = body();
  } catch (const std::exception& error) {
    status = {ACL_ERROR_INTERNAL_ERROR, error.what()};
  }
  if (status.ok()) return;
  record_->session->stop(text("'", record_->header.op_name, "': ", status.message()));
  record_ = nullptr;
}

void DumpedCall::add(const SoftnpuOperatorTensor& tensor, bool is_output) {
  DumpedTensor& made = record_->header.tensors.emplace_back();
  made.is_output = is_output;
  made.dtype = tensor.dtype;
  made.format = tensor.format;
  made.sizes.assign(tensor.sizes, tensor.sizes + tensor.ndim);
  made.bytes = bytes_of(tensor).value_or(0);
  made.address = reinterpret_cast<uintptr_t>(tensor.data);
}

void DumpedCall::before(SoftnpuOperatorDescriber describe, const void* payload) {
  attempt([&]() -> Status {
    const DumpConfig& config = record_->session->config();
    record_->header.microseconds = unique_time();
    uint64_t total = 0;
    bool too_large = false;
    for_each_tensor(describe, payload, [&](const SoftnpuOperatorTensor& tensor) {
      const std::optional<uint64_t> bytes = bytes_of(tensor);
      const uint64_t copies = (config.inputs && (tensor.flags & SOFTNPU_TENSOR_READ) ? 1 : 0) +
                              (config.outputs && (tensor.flags & SOFTNPU_TENSOR_WRITTEN) ? 1 : 0);
      too_large |= copies > 0 && (!bytes || __builtin_add_overflow(total, copies * *bytes, &total));
    });
    if (too_large) return {ACL_ERROR_INVALID_PARAM, "the tensors of the operator have more than 2^62 bytes"};
    SOFTNPU_RETURN_IF_ERROR(record_->data.open(*record_->session, total));
    Status status;
    for_each_tensor(describe, payload, [&](const SoftnpuOperatorTensor& tensor) {
      if (!config.inputs || !(tensor.flags & SOFTNPU_TENSOR_READ) || !status.ok()) return;
      add(tensor, /*is_output=*/false);
      status = record_->data.append(tensor);
    });
    return status;
  });
}

void DumpedCall::after(SoftnpuOperatorDescriber describe, const void* payload) {
  attempt([&]() -> Status {
    Status status;
    if (record_->session->config().outputs) {
      for_each_tensor(describe, payload, [&](const SoftnpuOperatorTensor& tensor) {
        if (!(tensor.flags & SOFTNPU_TENSOR_WRITTEN) || !status.ok()) return;
        add(tensor, /*is_output=*/true);
        status = record_->data.append(tensor);
      });
    }
    SOFTNPU_RETURN_IF_ERROR(std::move(status));
    record_->task = *task_;
    DumpWriter::submit(std::move(record_));
    return {};
  });
}

}  // namespace softnpu
