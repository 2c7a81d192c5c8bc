#include "distributed/communicator.h"

#include <c10/util/Exception.h>

#include <cstring>

#include "base/first_failure.h"
#include "core/device/process_end.h"

namespace torch_npu::distributed {
namespace {

// The first letter of the text that rank 0 writes to the store. The root info follows it, or the reason why there is none.
constexpr char kRootInfo = 'i';
constexpr char kFailure = 'f';

HcclRootInfo publish_root_info(c10d::Store& store, const std::string& key) {
  HcclRootInfo info{};
  try {
    HCCL_CALL(HcclGetRootInfo, &info);
  } catch (const c10::Error& error) {
    store.set(key, kFailure + std::string(error.what_without_backtrace()));
    throw;
  }
  std::string message(1, kRootInfo);
  message.append(reinterpret_cast<const char*>(&info), sizeof info);
  store.set(key, message);
  return info;
}

HcclRootInfo read_root_info(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout) {
  try {
    store.wait({key}, timeout);
  } catch (const std::exception& error) {
    C10_THROW_ERROR(DistBackendError, c10::str("rank 0 did not begin to make the communicator within ", timeout.count(),
                                               " ms. Every rank of the group must call the first collective, and rank 0 must be "
                                               "alive. The store reports: ",
                                               error.what()));
  }
  const std::string message = store.get_to_str(key);
  HcclRootInfo info{};
  if (message.size() == 1 + sizeof info && message[0] == kRootInfo) {
    std::memcpy(&info, message.data() + 1, sizeof info);
    return info;
  }
  const bool is_failure = !message.empty() && message[0] == kFailure;
  C10_THROW_ERROR(DistBackendError, c10::str("rank 0 cannot make the communicator: ",
                                             is_failure ? message.substr(1) : "the store has something else"));
}

}  // namespace

std::shared_ptr<Communicator> Communicator::meet(c10d::Store& store, const std::string& key, int rank, int size,
                                                 c10::DeviceIndex device, const Settings& settings) {
  const BoundDevice bound(device);
  const std::string place = "root_info/" + key;
  const HcclRootInfo info = rank == 0 ? publish_root_info(store, place) : read_root_info(store, place, settings.timeout);
  HcclComm handle = nullptr;
  HCCL_CALL(HcclCommInitRootInfoConfig, static_cast<uint32_t>(size), &info, static_cast<uint32_t>(rank), &settings.config,
            &handle);
  if (rank == 0) store.deleteKey(place);  // all ranks have read it; a later group may use the same store
  return std::make_shared<Communicator>(handle, device, settings);
}

std::shared_ptr<Communicator> Communicator::split(const std::vector<uint32_t>& ranks, uint64_t id, uint32_t rank,
                                                  const Settings& settings) {
  const BoundDevice bound(device_);
  HcclComm parent = handle_, handle = nullptr;
  HcclCommConfig config = settings.config;
  std::vector<uint32_t> members = ranks;
  HCCL_CALL(HcclCreateSubCommConfig, &parent, static_cast<uint32_t>(members.size()), members.data(), id, rank, &config, &handle);
  return std::make_shared<Communicator>(handle, device_, settings);
}

Communicator::Communicator(HcclComm handle, c10::DeviceIndex device, const Settings& settings)
    : handle_(handle),
      device_(device),
      high_priority_(settings.high_priority),
      collective_stream_(device, settings.high_priority) {
  char name[COMM_NAME_MAX_LENGTH] = "";
  if (HCCL_FN(HcclGetCommName)(handle_, name) == HCCL_SUCCESS) name_ = name;
}

Communicator::~Communicator() { destroy(); }

HcclResult Communicator::error() const noexcept {
  HcclResult error = HCCL_SUCCESS;
  if (is_destroyed()) return HCCL_E_UNAVAIL;
  return HCCL_FN(HcclGetCommAsyncError)(handle_, &error) == HCCL_SUCCESS ? error : HCCL_SUCCESS;
}

void Communicator::destroy() noexcept {
  // When the process ends, libhccl destroys its communicators itself.
  if (is_destroyed_.exchange(true) || is_in_bad_fork() || process_ends()) return;
  try {
    const BoundDevice bound(device_);
    HCCL_FN(HcclCommDestroy)(handle_);
  } catch (const std::exception&) {  // without a device there is nothing to destroy
  }
}

NPUStream Communicator::batch_stream() {
  if (batch_stream_ == nullptr) batch_stream_ = std::make_unique<GroupStream>(device_, high_priority_);
  return batch_stream_->get();
}

NPUStream Communicator::message_stream(int peer, bool is_send) {
  std::unique_ptr<GroupStream>& stream = messages_[{peer, is_send}].stream;
  if (stream == nullptr) stream = std::make_unique<GroupStream>(device_, high_priority_);
  return stream->get();
}

void Communicator::wait() const {
  FirstFailure failure;
  failure.attempt([this] { collective_order_.wait(); });
  for (const auto& [direction, messages] : messages_) {
    const StreamOrder& order = messages.order;
    failure.attempt([&order] { order.wait(); });
  }
  failure.rethrow();
}

}  // namespace torch_npu::distributed
