// The functions of hccl.h that create, query and destroy communicators.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "hccl/communicator.h"
#include "hccl/library.h"
#include "hccl/options.h"
#include "hccl/rank_table.h"
#include "hccl_api.h"

const char* HcclGetErrorString(HcclResult code) { return softnpu::hccl::result_text(code); }

// Every field of HcclCommConfig is accepted; read_settings() ignores those that this library does not use.
uint32_t HcclGetCommConfigCapability() { return HCCL_COMM_CONFIG_RESERVED; }

namespace softnpu::hccl::api {
namespace {

Status check_driver() {
  if (driver() != nullptr) return {};
  return {HCCL_E_NOT_SUPPORT,
          "libhccl needs the libascendcl that was built with it, but another libascendcl is loaded; remove that one from "
          "LD_LIBRARY_PATH"};
}

Result<int32_t> current_device() {
  SOFTNPU_RETURN_IF_ERROR(check_driver());
  int32_t device = -1;
  if (aclrtGetDevice(&device) == ACL_SUCCESS) return device;
  const char* const reason = aclGetRecentErrMsg();
  return Status(HCCL_E_RUNTIME,
                text("the calling thread has no device, to which the communicator would belong; call aclrtSetDevice "
                     "first: ",
                     reason == nullptr ? "" : reason));
}

Status check_rank(uint32_t rank, uint32_t size) {
  if (size == 0) return {HCCL_E_PARA, "the number of ranks is 0; allowed: at least 1"};
  if (rank >= size) return {HCCL_E_PARA, text("the rank is ", rank, "; allowed: 0 to ", size - 1)};
  return {};
}

Result<RendezvousPoint> open_rendezvous() {
  Result<Endpoint> endpoint = Listener::instance().endpoint();
  if (!endpoint.ok()) return endpoint.take_status();
  RendezvousPoint point;
  point.endpoint = endpoint.value();
  fill_random(point.id.data(), point.id.size());
  fill_random(point.secret.data(), point.secret.size());
  RendezvousServer::start(point, {});
  return point;
}

Status create(const Communicator::Group& group, const HcclCommConfig* config, HcclComm* comm) {
  Result<CommunicatorSettings> settings = read_settings(config);
  if (!settings.ok()) return settings.take_status();
  Result<std::shared_ptr<Communicator>> created = Communicator::create(group, settings.value());
  if (!created.ok()) return created.take_status();
  *comm = created.value()->handle();
  return {};
}

Status init_root_info(uint32_t ranks, const HcclRootInfo& info, uint32_t rank, const HcclCommConfig* config, HcclComm* comm) {
  *comm = nullptr;
  Result<int32_t> device = current_device();
  if (!device.ok()) return device.take_status();
  SOFTNPU_RETURN_IF_ERROR(check_rank(rank, ranks));
  Result<RendezvousPoint> point = read_root_info(info);
  if (!point.ok()) return point.take_status();
  Communicator::Group group;
  group.point = point.value();
  group.size = ranks;
  group.rank = rank;
  group.device = device.value();
  return create(group, config, comm);
}

// The number of communicators that this process created from a rank table before. It is the same on all ranks and makes the
// secrets of these communicators different.
uint32_t count_use(const Digest& table, uint32_t rank) {
  static std::mutex mutex;
  static auto* const uses = new std::map<std::pair<Digest, uint32_t>, uint32_t>;
  const std::lock_guard lock(mutex);
  return (*uses)[{table, rank}]++;
}

Status init_cluster_info(const char* path, uint32_t rank, const HcclCommConfig* config, HcclComm* comm) {
  *comm = nullptr;
  Result<int32_t> device = current_device();
  if (!device.ok()) return device.take_status();
  Result<RankTable> read = RankTable::read(path);
  if (!read.ok()) return read.take_status();
  const RankTable& table = read.value();
  SOFTNPU_RETURN_IF_ERROR(check_rank(rank, static_cast<uint32_t>(table.hosts.size())));
  const std::string purpose = text("rank table, use ", count_use(table.hash, rank));
  Communicator::Group group;
  group.point = {{table.hosts[0], options().base_port}, derive_id(table.hash, purpose), derive_secret(table.hash, purpose)};
  group.size = static_cast<uint32_t>(table.hosts.size());
  group.rank = rank;
  group.device = device.value();
  group.retries = true;
  group.allowed_hosts = table.hosts;
  if (rank == 0) {
    const Status status = Listener::instance().listen_also(group.point.endpoint);
    if (!status.ok())
      return {HCCL_E_NETWORK, text(status.message(), "; rank 0 of a rank table listens at the port HCCL_IF_BASE_PORT")};
    RendezvousServer::start(group.point, group.allowed_hosts);
  }
  return create(group, config, comm);
}

Status check_config(HcclConfig config) {
  if (config == HCCL_DETERMINISTIC) return {};
  return {HCCL_E_PARA, text("argument 'config' is ", int(config), "; allowed: HCCL_DETERMINISTIC (0)")};
}

Status check_deterministic(HcclConfig config, HcclConfigValue value) {
  SOFTNPU_RETURN_IF_ERROR(check_config(config));
  if (value.value >= 0 && value.value <= 2) return {};
  return {HCCL_E_PARA, text("the value of HCCL_DETERMINISTIC is ", value.value, "; allowed: 0, 1 and 2")};
}

std::atomic<int32_t> g_deterministic{0};

}  // namespace

Status HcclGetRootInfo(HcclRootInfo* rootInfo) {
  SOFTNPU_RETURN_IF_ERROR(check_driver());
  Result<RendezvousPoint> point = open_rendezvous();
  if (!point.ok()) return point.take_status();
  write_root_info(point.value(), rootInfo);
  return {};
}

Status HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, HcclComm* comm) {
  return init_root_info(nRanks, *rootInfo, rank, nullptr, comm);
}

Status HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, const HcclCommConfig* config,
                                  HcclComm* comm) {
  return init_root_info(nRanks, *rootInfo, rank, config, comm);
}

Status HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank, HcclComm* comm) {
  return init_cluster_info(clusterInfo, rank, nullptr, comm);
}

Status HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config, HcclComm* comm) {
  return init_cluster_info(clusterInfo, rank, config, comm);
}

Status HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId, uint32_t subCommRankId,
                               HcclCommConfig* config, HcclComm* subComm) {
  *subComm = nullptr;
  const std::shared_ptr<Communicator> parent = Communicator::find(*comm);
  if (parent == nullptr)
    return {HCCL_E_PARA, text("argument 'comm' points to ", *comm, ", which is not a communicator of this process")};
  if (rankIds == nullptr && rankNum == 0) return {};
  if (rankIds == nullptr)
    return {HCCL_E_PTR, "argument 'rankIds' is null; allowed only if 'rankNum' is 0, for a rank that is not a member"};
  SOFTNPU_RETURN_IF_ERROR(check_rank(subCommRankId, rankNum));
  const std::vector<uint32_t> members(rankIds, rankIds + rankNum);
  std::set<uint32_t> seen;
  for (const uint32_t member : members) {
    if (member >= parent->size()) {
      return {HCCL_E_PARA, text("argument 'rankIds' contains rank ", member, "; allowed: 0 to ", parent->size() - 1)};
    }
    if (!seen.insert(member).second) return {HCCL_E_PARA, text("argument 'rankIds' contains rank ", member, " twice")};
  }
  if (members[subCommRankId] != parent->rank()) {
    return {HCCL_E_PARA, text("argument 'subCommRankId' is ", subCommRankId, ", which 'rankIds' assigns to rank ",
                              members[subCommRankId], ", but the caller is rank ", parent->rank())};
  }
  const Communicator::Group group = parent->sub_group(members, subCommId, subCommRankId);
  if (subCommRankId == 0) RendezvousServer::start(group.point, group.allowed_hosts);
  return create(group, config, subComm);
}

Status HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
  SOFTNPU_RETURN_IF_ERROR(check_driver());
  if (ndev == 0) return {HCCL_E_PARA, "argument 'ndev' is 0; allowed: at least 1"};
  std::set<int32_t> seen;
  for (uint32_t rank = 0; rank < ndev; ++rank) {
    const int32_t device = devices == nullptr ? static_cast<int32_t>(rank) : devices[rank];
    if (driver()->host_device(device) < 0)
      return {HCCL_E_PARA, text("argument 'devices' contains device ", device, ", which does not exist")};
    if (!seen.insert(device).second) return {HCCL_E_PARA, text("argument 'devices' contains device ", device, " twice")};
    comms[rank] = nullptr;
  }
  Result<CommunicatorSettings> settings = read_settings(nullptr);
  if (!settings.ok()) return settings.take_status();
  Result<RendezvousPoint> point = open_rendezvous();
  if (!point.ok()) return point.take_status();
  std::vector<std::shared_ptr<Communicator>> made(ndev);
  std::vector<Status> statuses(ndev);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ndev; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator::Group group;
      group.point = point.value();
      group.size = ndev;
      group.rank = rank;
      group.device = devices == nullptr ? static_cast<int32_t>(rank) : devices[rank];
      try {
        Result<std::shared_ptr<Communicator>> created = Communicator::create(group, settings.value());
        if (created.ok()) made[rank] = created.value();
        statuses[rank] = created.take_status();
      } catch (const std::exception& error) {
        statuses[rank] = {HCCL_E_INTERNAL, error.what()};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto bad = std::find_if(statuses.begin(), statuses.end(), [](const Status& status) { return !status.ok(); });
  for (uint32_t rank = 0; rank < ndev; ++rank) {
    if (bad == statuses.end()) {
      comms[rank] = made[rank]->handle();
    } else if (made[rank] != nullptr) {
      made[rank]->destroy();
    }
  }
  return bad == statuses.end() ? Status() : bad->copy();
}

Status HcclCommDestroy(const CommunicatorRef& comm) {
  comm->destroy();
  return {};
}

Status HcclGetRankSize(const CommunicatorRef& comm, uint32_t* rankSize) {
  *rankSize = comm->size();
  return {};
}

Status HcclGetRankId(const CommunicatorRef& comm, uint32_t* rank) {
  *rank = comm->rank();
  return {};
}

Status HcclGetCommName(const CommunicatorRef& comm, char* commName) {
  const size_t length = std::min<size_t>(comm->name().size(), COMM_NAME_MAX_LENGTH - 1);
  std::memcpy(commName, comm->name().data(), length);
  commName[length] = '\0';
  return {};
}

Status HcclGetCommAsyncError(const CommunicatorRef& comm, HcclResult* asyncError) {
  *asyncError = comm->async_error();
  return {};
}

// --- settings. Results are deterministic with every value. ---

Status HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
  SOFTNPU_RETURN_IF_ERROR(check_deterministic(config, configValue));
  g_deterministic.store(configValue.value, std::memory_order_relaxed);
  return {};
}

Status HcclGetConfig(HcclConfig config, HcclConfigValue* configValue) {
  SOFTNPU_RETURN_IF_ERROR(check_config(config));
  configValue->value = g_deterministic.load(std::memory_order_relaxed);
  return {};
}

Status HcclSetCommConfig(const CommunicatorRef& comm, HcclConfig config, HcclConfigValue configValue) {
  SOFTNPU_RETURN_IF_ERROR(check_deterministic(config, configValue));
  comm->set_deterministic(configValue.value);
  return {};
}

Status HcclGetCommConfig(const CommunicatorRef& comm, HcclConfig config, HcclConfigValue* configValue) {
  SOFTNPU_RETURN_IF_ERROR(check_config(config));
  configValue->value = comm->deterministic();
  return {};
}

// --- registration of memory. Peers can always read the memory of this device, so these functions do nothing. ---

Status HcclCommSetMemoryRange(const CommunicatorRef&, void*, size_t, size_t, uint64_t) { return {}; }
Status HcclCommUnsetMemoryRange(const CommunicatorRef&, void*) { return {}; }
Status HcclCommActivateCommMemory(const CommunicatorRef&, void*, size_t, size_t, aclrtDrvMemHandle, uint64_t) { return {}; }
Status HcclCommDeactivateCommMemory(const CommunicatorRef&, void*) { return {}; }
Status HcclCommDeregister(const CommunicatorRef&, void*) { return {}; }
Status HcclCommExchangeMem(const CommunicatorRef&, void*, uint32_t*, uint32_t) { return {}; }

Status HcclCommRegister(const CommunicatorRef&, void* addr, uint64_t size, void** handle, uint32_t) {
  if (size == 0) return {HCCL_E_PARA, "argument 'size' is 0; allowed: at least 1"};
  *handle = addr;
  return {};
}

}  // namespace softnpu::hccl::api
