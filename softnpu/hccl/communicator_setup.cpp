// The set-up of a communicator: the ranks exchange their identities, share memory within hosts and connect between hosts.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "hccl/communicator.h"
#include "hccl/library.h"
#include "hccl/options.h"
#include "hccl/transport/shared_memory.h"
#include "hccl/transport/tcp.h"

namespace softnpu::hccl {
namespace {

constexpr uint32_t kControl = kLanes;  // the control connection is numbered behind the lanes

// --- the identity of this rank ---

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Processes with the same text can open each other's files under /proc.
std::string machine_identity() {
  char name_space[64] = "";
  const ssize_t length = readlink("/proc/self/ns/pid", name_space, sizeof name_space - 1);
  return text(first_line("/proc/sys/kernel/random/boot_id"), " ",
              std::string_view(name_space, size_t(std::max<ssize_t>(length, 0))), " ", getuid(), " ", options().host);
}

RankInfo own_info(const Communicator::Group& group, const Endpoint& endpoint) {
  RankInfo info;
  const ProcessId process = this_process();
  const std::string machine = short_hex(sha256(machine_identity()));
  Digest random;
  fill_random(random.data(), random.size());
  info.rank = group.rank;
  info.world = group.size;
  info.device = driver()->host_device(group.device);
  info.pid = process.pid;
  info.start_time = process.start_time;
  copy_text(info.machine, machine);
  copy_text(info.host, options().transport == Transport::kTcp ? short_hex(random) : machine);
  char node[sizeof info.node] = "";
  gethostname(node, sizeof node - 1);
  copy_text(info.node, options().host.empty() ? node : options().host);
  copy_text(info.address, endpoint.host);
  info.port = endpoint.port;
  info.members = group.members;
  return info;
}

// --- messages of the set-up, sent as they are in memory ---

struct SegmentOffer {
  int32_t file = -1;
  uint64_t token = 0;
};

struct SetUpResult {
  int32_t code = HCCL_SUCCESS;
  uint32_t is_direct = 0;
  char reason[400] = {};
};

// The first message of a connection between two ranks.
struct Introduction {
  uint32_t rank = 0;
  uint32_t lane = 0;
};

template <typename Message>
std::string packed(const Message& message) {
  return {reinterpret_cast<const char*>(&message), sizeof message};
}

template <typename Message>
Status unpack(const std::string& content, Message* message) {
  if (content.size() != sizeof *message) return {HCCL_E_TCP_TRANSFER, "a set-up message of another rank is damaged"};
  std::memcpy(message, content.data(), sizeof *message);
  return {};
}

std::string mesh_purpose(uint32_t rank) { return text("mesh ", rank); }

}  // namespace

Status Communicator::connect() {
  const Deadline deadline = Deadline::after(std::chrono::seconds(options().connect_timeout));
  Result<Endpoint> endpoint = Listener::instance().endpoint();
  if (!endpoint.ok()) return endpoint.take_status();
  const std::string purpose = mesh_purpose(rank());
  const Digest& secret = group_.point.secret;
  Listener::Session session(derive_id(secret, purpose), derive_secret(secret, purpose), group_.allowed_hosts);
  Result<Rendezvous> joined = Rendezvous::join(group_.point, own_info(group_, endpoint.value()), deadline, group_.retries);
  if (!joined.ok()) return joined.take_status();
  Rendezvous& rendezvous = joined.value();
  std::vector<std::string> hosts;
  for (uint32_t number = 0; number < size(); ++number) {
    Peer& peer = peers_[number];
    peer.info = rendezvous.ranks()[number];
    peer.process = {peer.info.pid, peer.info.start_time};
    hosts.emplace_back(peer.info.host);
  }
  topology_ = Topology(hosts);
  Status status = share_memory(rendezvous);
  if (status.ok()) status = open_connections(session, deadline);
  SetUpResult own;
  own.code = status.code();
  copy_text(own.reason, status.message());
  own.is_direct = options().transport == Transport::kAuto ? 1 : 0;
  Result<std::vector<std::string>> results = rendezvous.exchange(packed(own));
  if (!status.ok()) return status;
  if (!results.ok()) return results.take_status();
  bool is_direct = true;
  for (uint32_t number = 0; number < size(); ++number) {
    SetUpResult result;
    SOFTNPU_RETURN_IF_ERROR(unpack(results.value()[number], &result));
    result.reason[sizeof result.reason - 1] = '\0';
    if (result.code != HCCL_SUCCESS) {
      return {HCCL_E_REMOTE, text("the set-up of ", peers_[number].info.to_text(), " failed: ", result.reason)};
    }
    is_direct = is_direct && result.is_direct != 0;
  }
  if (segment_ != nullptr) open_shared_channels(is_direct);
  return {};
}

// The first rank of a host creates the memory of the host; the others open it.
Status Communicator::share_memory(Rendezvous& rendezvous) {
  const std::vector<uint32_t>& neighbours = topology_.ranks_of(topology_.host_of(rank()));
  const auto count = static_cast<uint32_t>(neighbours.size());
  const bool is_shared = count > 1;
  SegmentOffer offer;
  Status status;
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
  Result<std::vector<std::string>> offers = rendezvous.exchange(packed(offer));
  if (!offers.ok()) return offers.take_status();
  if (!status.ok() || !is_shared) return status;
  SOFTNPU_RETURN_IF_ERROR(unpack(offers.value()[neighbours[0]], &offer));
  if (segment_ == nullptr) {
    const RankInfo& first = peers_[neighbours[0]].info;
    if (offer.file < 0) return {HCCL_E_REMOTE, text(first.to_text(), " could not create shared memory")};
    Result<std::unique_ptr<Segment>> opened = Segment::open(first.pid, offer.file, count, offer.token);
    if (!opened.ok()) return opened.take_status();
    segment_ = std::move(opened.value());
  }
  for (uint32_t index = 0; index < count; ++index) peers_[neighbours[index]].segment_rank = index;
  return {};
}

void Communicator::open_shared_channels(bool is_direct) {
  segment_->close_file();
  for (const uint32_t number : topology_.ranks_of(topology_.host_of(rank()))) {
    if (number == rank()) continue;
    Peer& peer = peers_[number];
    peer.memory = std::make_unique<ForeignMemory>(peer.info.pid);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      peer.channels[lane] =
          std::make_unique<SharedMemoryChannel>(*segment_, static_cast<Lane>(lane), segment_rank(), peer.segment_rank, is_direct);
    }
  }
}

// Between two ranks of different hosts, the rank with the higher number connects: once for each lane and once for control.
Status Communicator::open_connections(Listener::Session& session, Deadline deadline) {
  size_t expected = 0;
  for (uint32_t number = 0; number < size(); ++number) {
    if (number == rank() || shares_memory(number)) continue;
    if (number > rank()) {
      expected += kLanes + 1;
    } else {
      SOFTNPU_RETURN_IF_ERROR(connect_to_peer(number, deadline));
    }
  }
  for (; expected > 0; --expected) SOFTNPU_RETURN_IF_ERROR(accept_peer(session, deadline));
  return check_connections();
}

Status Communicator::connect_to_peer(uint32_t number, Deadline deadline) {
  const std::string purpose = mesh_purpose(number);
  const SessionId id = derive_id(group_.point.secret, purpose);
  const Digest secret = derive_secret(group_.point.secret, purpose);
  for (uint32_t lane = 0; lane <= kControl; ++lane) {
    Result<Socket> socket = join_session(peers_[number].info.endpoint(), id, secret, deadline);
    if (!socket.ok()) {
      const Status status = socket.take_status();
      return {HCCL_E_TCP_CONNECT, text("no connection to ", peers_[number].info.to_text(), ": ", status.message())};
    }
    const Introduction introduction{rank(), lane};
    SOFTNPU_RETURN_IF_ERROR(socket.value().send_all(&introduction, sizeof introduction, deadline));
    put_connection(number, lane, std::move(socket.value()));
  }
  return {};
}

Status Communicator::accept_peer(Listener::Session& session, Deadline deadline) {
  Socket socket = session.next(deadline);
  if (!socket.is_open()) return check_connections();
  Introduction introduction;
  SOFTNPU_RETURN_IF_ERROR(socket.receive_all(&introduction, sizeof introduction, deadline));
  const auto [number, lane] = introduction;
  const bool is_expected = number > rank() && number < size() && !shares_memory(number) && lane <= kControl;
  if (!is_expected) {
    return {HCCL_E_TCP_TRANSFER, text("a connection came from rank ", number, ", lane ", lane, ", which do not exist here")};
  }
  put_connection(number, lane, std::move(socket));
  return {};
}

void Communicator::put_connection(uint32_t number, uint32_t lane, Socket socket) {
  if (lane == kControl) {
    peers_[number].control = std::move(socket);
  } else {
    peers_[number].channels[lane] = std::make_unique<TcpChannel>(std::move(socket));
  }
}

// HCCL_E_TIMEOUT names the first rank that did not make all its connections.
Status Communicator::check_connections() const {
  for (uint32_t number = rank() + 1; number < size(); ++number) {
    const Peer& peer = peers_[number];
    const bool is_complete =
        peer.control.is_open() && std::ranges::all_of(peer.channels, [](const auto& channel) { return channel != nullptr; });
    if (shares_memory(number) || is_complete) continue;
    return {HCCL_E_TIMEOUT, text(peer.info.to_text(), " did not connect to ", peers_[rank()].info.endpoint().to_text(),
                                 " within ", options().connect_timeout, " s (HCCL_CONNECT_TIMEOUT)")};
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
  group.retries = true;
  group.allowed_hosts = group_.allowed_hosts;
  return group;
}

}  // namespace softnpu::hccl
