#include "hccl/communicator.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>

#include "hccl/library.h"
#include "hccl/options.h"
#include "hccl/transport/shared_memory.h"
#include "hccl/transport/tcp.h"

namespace softnpu::hccl {
namespace {

constexpr uint32_t kControl = kLanes;                         // the connection behind those of the lanes
constexpr auto kWordOfFate = std::chrono::milliseconds(200);  // how long a closed connection may be ahead of its reason

// --- handles ---

struct Handles {
  std::mutex mutex;
  std::map<uintptr_t, std::shared_ptr<Communicator>> live;
  uintptr_t next = 0;
};

Handles& handles() {
  static auto* const all = new Handles;
  return *all;
}

int g_first_pid = 0;  // the process that made the first communicator

constexpr uintptr_t kHandleTag = uintptr_t{0x4CC1} << 48;  // no address of a program

// --- who this rank is ---

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string hex_of(const Digest& digest) {
  std::string hex;
  for (size_t index = 0; index < 16; ++index) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[digest[index] >> 4];
    hex += kDigits[digest[index] & 15];
  }
  return hex;
}

// Processes with the same text see each other under /proc and may open each other's files there.
std::string machine_identity() {
  char name_space[64] = "";
  const ssize_t length = readlink("/proc/self/ns/pid", name_space, sizeof name_space - 1);
  return text(first_line("/proc/sys/kernel/random/boot_id"), " ",
              std::string_view(name_space, size_t(std::max<ssize_t>(length, 0))), " ", getuid(), " ", options().host);
}

template <size_t kSize>
void copy_text(char (&field)[kSize], const std::string& value) {
  std::memset(field, 0, kSize);
  std::memcpy(field, value.data(), std::min(value.size(), kSize - 1));
}

RankInfo own_info(const Communicator::Group& group, const Endpoint& endpoint) {
  RankInfo info;
  const ProcessId process = this_process();
  const std::string machine = hex_of(sha256(machine_identity()));
  Digest random;
  fill_random(random.data(), random.size());
  info.rank = group.rank;
  info.world = group.size;
  info.device = driver()->host_device(group.device);
  info.pid = process.pid;
  info.start_time = process.start_time;
  copy_text(info.machine, machine);
  copy_text(info.host, options().transport == Transport::kTcp ? hex_of(random) : machine);
  char node[sizeof info.node] = "";
  gethostname(node, sizeof node - 1);
  copy_text(info.node, options().host.empty() ? node : options().host);
  copy_text(info.address, endpoint.host);
  info.port = endpoint.port;
  info.members = group.members;
  return info;
}

// --- messages of the set-up ---

struct SegmentOffer {
  int32_t file = -1;
  uint64_t token = 0;
};

struct SetUpResult {
  int32_t code = HCCL_SUCCESS;
  uint32_t is_direct = 0;
  char reason[400] = {};
};

template <typename Message>
std::string packed(const Message& message) {
  return {reinterpret_cast<const char*>(&message), sizeof message};
}

template <typename Message>
Status unpack(const std::string& content, Message* message) {
  if (content.size() != sizeof *message) return {HCCL_E_TCP_TRANSFER, "a message of another rank is damaged"};
  std::memcpy(message, content.data(), sizeof *message);
  return {};
}

// The only message of a control connection.
struct FateMessage {
  uint32_t fate = 0;
  char reason[444] = {};
};

Status fate_status(const RankInfo& info, Fate fate, const std::string& reason) {
  switch (fate) {
    case Fate::kRunning:
      return {};
    case Fate::kLeft:
      return {HCCL_E_REMOTE, text(info.to_text(), " ", reason)};
    default:
      return {HCCL_E_REMOTE, text(info.to_text(), " failed: ", reason)};
  }
}

}  // namespace

// Connections from ranks of higher numbers, as the listener hands them over.
struct Communicator::Mesh {
  struct Queue {
    std::mutex mutex;
    std::condition_variable arrived;
    std::deque<Socket> sockets;
  };

  Mesh(const Digest& secret, uint32_t rank, std::vector<std::string> allowed_hosts) : id(derive_id(secret, text("mesh ", rank))) {
    const auto accept = [queue = queue](Socket socket) {
      const std::lock_guard lock(queue->mutex);
      queue->sockets.push_back(std::move(socket));
      queue->arrived.notify_one();
    };
    Listener::instance().add({id, derive_secret(secret, text("mesh ", rank)), accept, std::move(allowed_hosts)});
  }
  ~Mesh() { Listener::instance().remove(id); }
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Not open at the deadline.
  Socket next(Deadline deadline) {
    std::unique_lock lock(queue->mutex);
    if (!queue->arrived.wait_until(lock, deadline.at(), [&] { return !queue->sockets.empty(); })) return {};
    Socket socket = std::move(queue->sockets.front());
    queue->sockets.pop_front();
    return socket;
  }

  const SessionId id;
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
};

Result<CommunicatorSettings> read_settings(const HcclCommConfig* config) {
  CommunicatorSettings settings;
  settings.exec_timeout = std::chrono::seconds(options().exec_timeout);
  settings.buffer_megabytes = options().buffer_megabytes;
  if (config == nullptr) return settings;
  struct {
    uint64_t size;
    uint32_t magic;
    uint32_t version;
  } head;
  std::memcpy(&head, config, sizeof head);
  if (head.magic != HCCL_COMM_CONFIG_MAGIC_WORD || head.version == 0 || head.size < HCCL_COMM_CONFIG_INFO_BYTES) {
    return Status(HCCL_E_PARA, "argument 'config' was not prepared with HcclCommConfigInit");
  }
  HcclCommConfig known;  // fields that the caller's version lacks are as if they were not set
  HcclCommConfigInit(&known);
  std::memcpy(&known, config, std::min<size_t>(head.size, sizeof known));
  if (known.hcclBufferSize != HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET) {
    if (known.hcclBufferSize == 0) return Status(HCCL_E_PARA, "hcclBufferSize of argument 'config' is 0; it is at least 1 MiB");
    settings.buffer_megabytes = known.hcclBufferSize;
  }
  if (known.hcclDeterministic != HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET) {
    if (known.hcclDeterministic > 2) {
      return Status(HCCL_E_PARA,
                    text("hcclDeterministic of argument 'config' is ", known.hcclDeterministic, "; it is 0, 1 or 2"));
    }
    settings.deterministic = static_cast<int32_t>(known.hcclDeterministic);
  }
  if (static_cast<uint32_t>(known.hcclExecTimeOut) != HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET) {
    if (known.hcclExecTimeOut < 0) {
      return Status(HCCL_E_PARA,
                    text("hcclExecTimeOut of argument 'config' is ", known.hcclExecTimeOut, "; it is 0 or more seconds"));
    }
    settings.exec_timeout = std::chrono::seconds(known.hcclExecTimeOut);
  }
  settings.name = std::string(known.hcclCommName, strnlen(known.hcclCommName, COMM_NAME_MAX_LENGTH - 1));
  return settings;
}

Communicator::Communicator(const Group& group, const CommunicatorSettings& settings)
    : group_(group), pid_(getpid()), settings_(settings), deterministic_(settings.deterministic), peers_(group.size) {
  if (settings_.name.empty()) settings_.name = text("hccl_", hex_of(sha256(bytes_of(group.point.secret))).substr(0, 16));
}

Communicator::~Communicator() { leave_by_choice("destroyed its communicator"); }

Result<std::shared_ptr<Communicator>> Communicator::create(const Group& group, const CommunicatorSettings& settings) {
  auto communicator = std::make_shared<Communicator>(group, settings);
  SOFTNPU_RETURN_IF_ERROR(communicator->connect());
  static const int registered = [] {
    g_first_pid = getpid();
    return std::atexit(leave_all);
  }();
  static_cast<void>(registered);
  Handles& all = handles();
  const std::lock_guard lock(all.mutex);
  const uintptr_t number = kHandleTag | ++all.next << 4;
  communicator->handle_ = reinterpret_cast<HcclComm>(number);
  all.live.emplace(number, communicator);
  return communicator;
}

std::shared_ptr<Communicator> Communicator::find(HcclComm handle) {
  Handles& all = handles();
  const std::lock_guard lock(all.mutex);
  const auto found = all.live.find(reinterpret_cast<uintptr_t>(handle));
  return found == all.live.end() ? nullptr : found->second;
}

// In a child of fork() another thread may have held the lock.
void Communicator::leave_all() {
  if (getpid() != g_first_pid) return;
  std::map<uintptr_t, std::shared_ptr<Communicator>> live;
  {
    Handles& all = handles();
    const std::lock_guard lock(all.mutex);
    live = all.live;
  }
  for (const auto& [number, communicator] : live) communicator->leave_by_choice("ended its process");
}

void Communicator::destroy() {
  {
    Handles& all = handles();
    const std::lock_guard lock(all.mutex);
    all.live.erase(reinterpret_cast<uintptr_t>(handle_));
  }
  leave_by_choice("destroyed its communicator");
}

// --- set-up ---

Status Communicator::connect() {
  const Deadline deadline = Deadline::after(std::chrono::seconds(options().connect_timeout));
  Result<Endpoint> endpoint = Listener::instance().endpoint();
  if (!endpoint.ok()) return endpoint.take_status();
  Mesh mesh(group_.point.secret, rank(), group_.allowed_hosts);
  Result<Rendezvous> meeting = Rendezvous::join(group_.point, own_info(group_, endpoint.value()), deadline, group_.is_patient);
  if (!meeting.ok()) return meeting.take_status();
  for (uint32_t number = 0; number < size(); ++number) {
    Peer& peer = peers_[number];
    peer.info = meeting.value().ranks()[number];
    peer.process = {peer.info.pid, peer.info.start_time};
  }
  SetUpResult own;
  Status status = share_memory(meeting.value());
  if (status.ok()) status = open_connections(mesh, deadline);
  own.code = status.code();
  copy_text(own.reason, status.message());
  own.is_direct = options().transport == Transport::kAuto ? 1 : 0;
  Result<std::vector<std::string>> results = meeting.value().exchange(packed(own));
  if (!status.ok()) return status;
  if (!results.ok()) return results.take_status();
  bool is_direct = true;
  for (uint32_t number = 0; number < size(); ++number) {
    SetUpResult result;
    SOFTNPU_RETURN_IF_ERROR(unpack(results.value()[number], &result));
    result.reason[sizeof result.reason - 1] = '\0';
    if (result.code != HCCL_SUCCESS) {
      return {HCCL_E_REMOTE, text(peers_[number].info.to_text(), " could not be set up: ", result.reason)};
    }
    is_direct = is_direct && result.is_direct != 0;
  }
  if (segment_ == nullptr) return {};
  segment_->close_file();
  for (uint32_t number = 0; number < size(); ++number) {
    Peer& peer = peers_[number];
    if (number == rank() || !shares_memory(number)) continue;
    peer.memory = std::make_unique<ForeignMemory>(peer.info.pid);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      peer.channels[lane] =
          std::make_unique<SharedMemoryChannel>(*segment_, static_cast<Lane>(lane), segment_rank(), peer.segment_rank, is_direct);
    }
  }
  return {};
}

// The first rank of a host makes the memory for all ranks of the host.
Status Communicator::share_memory(Rendezvous& meeting) {
  std::vector<uint32_t> neighbours;
  for (uint32_t number = 0; number < size(); ++number) {
    if (std::strcmp(peers_[number].info.host, peers_[rank()].info.host) == 0) neighbours.push_back(number);
  }
  SegmentOffer offer;
  Status status;
  const bool is_shared = neighbours.size() > 1;
  const auto count = static_cast<uint32_t>(neighbours.size());
  if (is_shared && neighbours[0] == rank()) {
    fill_random(&offer.token, sizeof offer.token);
    Result<std::unique_ptr<Segment>> made = Segment::create(count, offer.token, size_t{settings_.buffer_megabytes} << 20);
    if (made.ok()) {
      segment_ = std::move(made.value());
      offer.file = segment_->file();
    } else {
      status = made.take_status();
    }
  }
  Result<std::vector<std::string>> offers = meeting.exchange(packed(offer));
  if (!offers.ok()) return offers.take_status();
  if (!status.ok() || !is_shared) return status;
  SOFTNPU_RETURN_IF_ERROR(unpack(offers.value()[neighbours[0]], &offer));
  if (segment_ == nullptr) {
    const RankInfo& first = peers_[neighbours[0]].info;
    if (offer.file < 0) return {HCCL_E_REMOTE, text(first.to_text(), " could not make shared memory")};
    Result<std::unique_ptr<Segment>> opened = Segment::open(first.pid, offer.file, count, offer.token);
    if (!opened.ok()) return opened.take_status();
    segment_ = std::move(opened.value());
  }
  for (uint32_t index = 0; index < count; ++index) peers_[neighbours[index]].segment_rank = index;
  return {};
}

// Between two ranks of different hosts, that with the higher number connects, once per lane and once for messages of fate.
Status Communicator::open_connections(Mesh& mesh, Deadline deadline) {
  const auto put = [&](uint32_t number, uint32_t lane, Socket socket) {
    if (lane == kControl) {
      peers_[number].control = std::move(socket);
    } else {
      peers_[number].channels[lane] = std::make_unique<TcpChannel>(std::move(socket));
    }
  };
  size_t expected = 0;
  for (uint32_t number = 0; number < size(); ++number) {
    if (number == rank() || shares_memory(number)) continue;
    if (number > rank()) {
      expected += kLanes + 1;
      continue;
    }
    const std::string purpose = text("mesh ", number);
    for (uint32_t lane = 0; lane <= kControl; ++lane) {
      Result<Socket> socket = join_session(peers_[number].info.endpoint(), derive_id(group_.point.secret, purpose),
                                           derive_secret(group_.point.secret, purpose), deadline);
      if (!socket.ok()) {
        const Status status = socket.take_status();
        return {HCCL_E_TCP_CONNECT, text("no connection to ", peers_[number].info.to_text(), ": ", status.message())};
      }
      const uint32_t introduction[2] = {rank(), lane};
      SOFTNPU_RETURN_IF_ERROR(socket.value().send_all(introduction, sizeof introduction, deadline));
      put(number, lane, std::move(socket.value()));
    }
  }
  for (; expected > 0; --expected) {
    Socket socket = mesh.next(deadline);
    if (!socket.is_open()) break;
    uint32_t introduction[2] = {};
    SOFTNPU_RETURN_IF_ERROR(socket.receive_all(introduction, sizeof introduction, deadline));
    const auto [number, lane] = introduction;
    if (number <= rank() || number >= size() || shares_memory(number) || lane > kControl) {
      return {HCCL_E_TCP_TRANSFER, "a rank introduced itself with numbers that make no sense"};
    }
    put(number, lane, std::move(socket));
  }
  for (uint32_t number = 0; number < size(); ++number) {
    const Peer& peer = peers_[number];
    if (number == rank() || shares_memory(number)) continue;
    if (!peer.control.is_open() || peer.channels[0] == nullptr || peer.channels[1] == nullptr) {
      return {HCCL_E_TIMEOUT, text(peer.info.to_text(), " did not connect to ", peers_[rank()].info.endpoint().to_text(),
                                   " within ", options().connect_timeout, " s (HCCL_CONNECT_TIMEOUT)")};
    }
  }
  return {};
}

Communicator::Group Communicator::sub_group(const std::vector<uint32_t>& members, uint64_t id, uint32_t rank) {
  uint32_t use = 0;
  {
    const std::lock_guard lock(failure_lock_);
    use = sub_groups_[{id, members[0]}]++;
  }
  const std::string purpose = text("sub ", id, " of ", members[0], " use ", use);
  Group group;
  group.point = {peers_[members[0]].info.endpoint(), derive_id(group_.point.secret, purpose),
                 derive_secret(group_.point.secret, purpose)};
  group.size = static_cast<uint32_t>(members.size());
  group.rank = rank;
  group.device = device();
  group.members = sha256({reinterpret_cast<const char*>(members.data()), members.size() * sizeof members[0]});
  group.is_patient = true;
  group.allowed_hosts = group_.allowed_hosts;
  return group;
}

// --- fate ---

void Communicator::leave(Fate fate, const std::string& reason) {
  if (getpid() != pid_) return;
  {
    const std::lock_guard lock(failure_lock_);
    if (has_left_) return;
    has_left_ = true;
    if (failure_.ok()) {
      failure_ = {HCCL_E_UNAVAIL, text("the communicator '", name(), "' was destroyed")};
    }
  }
  has_failed_.store(true, std::memory_order_release);
  FateMessage message;
  message.fate = static_cast<uint32_t>(fate);
  copy_text(message.reason, reason);
  for (Peer& peer : peers_) {
    if (!peer.control.is_open()) continue;
    send(peer.control.file(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (const auto& channel : peer.channels) {
      if (channel != nullptr) shutdown(channel->file(), SHUT_RDWR);
    }
    shutdown(peer.control.file(), SHUT_WR);
  }
  if (segment_ != nullptr && segment_rank() != kNone) {
    segment_->set_fate(segment_rank(), fate, reason);
  }
}

void Communicator::leave_by_choice(const std::string& how) {
  if (running_.load() == 0) {
    leave(Fate::kLeft, how);
  } else {
    leave(Fate::kFailed, text("it ", how, " in the middle of a collective"));
  }
}

void Communicator::fail(const Status& status) {
  {
    const std::lock_guard lock(failure_lock_);
    if (!failure_.ok()) return;
    failure_ = status.copy();
  }
  leave(Fate::kFailed, status.message());
}

Status Communicator::failure() const {
  const std::lock_guard lock(failure_lock_);
  return failure_.copy();
}

HcclResult Communicator::async_error() {
  if (has_failed()) return static_cast<HcclResult>(failure().code());
  return static_cast<HcclResult>(check_peers().code());
}

Status Communicator::check_peers() {
  for (uint32_t number = 0; number < size(); ++number) {
    if (number == rank()) continue;
    Status fate = peer_fate(number);
    if (!fate.ok() && peer_has_failed(number)) return fate;
  }
  return {};
}

Status Communicator::peer_fate(uint32_t number) {
  Peer& peer = peers_[number];
  if (shares_memory(number)) {
    const Fate fate = segment_->fate(peer.segment_rank);
    return fate == Fate::kRunning ? Status() : fate_status(peer.info, fate, segment_->reason(peer.segment_rank));
  }
  const std::lock_guard lock(peer.control_lock);
  if (!peer.fate.ok()) return peer.fate.copy();
  FateMessage message;
  ssize_t got = recv(peer.control.file(), &message, sizeof message, MSG_DONTWAIT | MSG_PEEK);
  std::string problem = peer.channels[0]->problem();
  if (problem.empty()) problem = peer.channels[1]->problem();
  if (got < 0 && problem.empty()) return {};
  if (got < ssize_t(sizeof message) && got != 0) {
    const Socket& control = peer.control;
    got = control.receive_all(&message, sizeof message, Deadline::after(kWordOfFate)).ok() ? ssize_t(sizeof message) : 0;
  }
  if (got == ssize_t(sizeof message) && message.fate != 0) {
    message.reason[sizeof message.reason - 1] = '\0';
    peer.has_failed = message.fate != uint32_t(Fate::kLeft);
    peer.fate = fate_status(peer.info, peer.has_failed ? Fate::kFailed : Fate::kLeft, message.reason);
  } else {
    peer.has_failed = true;
    peer.fate = {HCCL_E_REMOTE, text("the connection to ", peer.info.to_text(),
                                     " broke: ", problem.empty() ? "its process has ended" : problem)};
  }
  return peer.fate.copy();
}

bool Communicator::peer_has_failed(uint32_t number) {
  Peer& peer = peers_[number];
  if (shares_memory(number)) return segment_->fate(peer.segment_rank) == Fate::kFailed;
  const std::lock_guard lock(peer.control_lock);
  return peer.has_failed;
}

bool Communicator::peer_is_alive(uint32_t number) const {
  const bool is_here = std::strcmp(peers_[number].info.machine, peers_[rank()].info.machine) == 0;
  return !is_here || is_alive(peers_[number].process);
}

std::byte* Communicator::scratch(size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

}  // namespace softnpu::hccl
