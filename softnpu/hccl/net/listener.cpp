#include "hccl/net/listener.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "hccl/net/interfaces.h"
#include "hccl/options.h"
#include "runtime/base/json.h"

namespace softnpu::hccl {
namespace {

constexpr std::array<char, 8> kMagic = {'H', 'C', 'C', 'L', 's', 'o', 'f', '1'};
constexpr auto kHandshakeTimeout = std::chrono::seconds(10);
constexpr size_t kMostPending = 256;  // handshakes at once; a further connection ends the oldest one
constexpr auto kPauseWithoutFiles = std::chrono::milliseconds(10);  // accept() has no file left and would fail at once again

using Nonce = std::array<uint8_t, 32>;

struct Hello {
  std::array<char, 8> magic = kMagic;
  SessionId id{};
  Nonce nonce{};
  Digest proof{};
};
static_assert(sizeof(Hello) == 88);

std::string_view view(const auto& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

Digest proof_of(const Digest& secret, std::string_view role, const SessionId& id, const Nonce& server, const Nonce& client) {
  std::string message(role);
  message.append(view(id)).append(view(server)).append(view(client));
  return hmac_sha256(secret, message);
}

bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

SessionId derive_id(const Digest& secret, std::string_view purpose) {
  const Digest digest = hmac_sha256(secret, std::string("id ").append(purpose));
  SessionId id;
  std::copy_n(digest.begin(), id.size(), id.begin());
  return id;
}

Digest derive_secret(const Digest& secret, std::string_view purpose) {
  return hmac_sha256(secret, std::string("secret ").append(purpose));
}

// A connection during its handshake.
struct Listener::Pending {
  explicit Pending(Socket accepted) : socket(std::move(accepted)), deadline(Deadline::after(kHandshakeTimeout)) {
    fill_random(nonce.data(), nonce.size());
  }

  Socket socket;
  Deadline deadline;
  Nonce nonce;
  std::array<std::byte, sizeof(Hello)> received{};
  size_t filled = 0;
};

Listener& Listener::instance() {
  static auto* const listener = new Listener;
  return *listener;
}

Status Listener::read_whitelist() {
  const Options& settings = options();
  if (!settings.check_whitelist || settings.whitelist_file.empty()) return {};
  std::ifstream file(settings.whitelist_file);
  std::stringstream content;
  content << file.rdbuf();
  if (!file) return {HCCL_E_OPEN_FILE_FAILURE, text("HCCL_WHITELIST_FILE '", settings.whitelist_file, "' cannot be read")};
  Result<Json> parsed = Json::parse(content.str());
  if (!parsed.ok()) {
    return {HCCL_E_PARA, text("HCCL_WHITELIST_FILE '", settings.whitelist_file, "': ", parsed.take_status().message())};
  }
  const Json* const hosts = parsed.value().find("host_ip");
  if (hosts == nullptr || hosts->array() == nullptr) {
    return {HCCL_E_PARA, text("HCCL_WHITELIST_FILE '", settings.whitelist_file,
                              "' has no list 'host_ip'; allowed: {\"host_ip\": [\"ADDRESS\", ...]}")};
  }
  for (const Json& host : *hosts->array()) {
    const std::string address = host.string() == nullptr ? "" : canonical_address(*host.string());
    if (address.empty()) {
      return {HCCL_E_PARA, text("HCCL_WHITELIST_FILE '", settings.whitelist_file, "': host_ip has an item that is not an address",
                                host.string() == nullptr ? "" : text(": '", *host.string(), "'"))};
    }
    whitelist_.push_back(address);
  }
  has_whitelist_ = true;
  return {};
}

Status Listener::start() {
  if (is_running_) return {};
  SOFTNPU_RETURN_IF_ERROR(read_whitelist());
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return system_failure("eventfd() failed");
  std::thread([this] { serve(); }).detach();
  is_running_ = true;
  return {};
}

Result<Endpoint> Listener::endpoint() {
  const std::lock_guard lock(mutex_);
  if (endpoint_.port != 0) return endpoint_;
  Result<std::string> address = own_address();
  if (!address.ok()) return address.take_status();
  SOFTNPU_RETURN_IF_ERROR(start());
  std::vector<PortRange> ranges = options().listen_ports;
  if (ranges.empty()) ranges.push_back({0, 0});
  Status status;
  for (const PortRange& range : ranges) {
    for (uint32_t port = range.first; port <= range.last; ++port) {
      Endpoint endpoint{address.value(), static_cast<uint16_t>(port)};
      Result<Socket> socket = listen_at(&endpoint);
      if (!socket.ok()) {
        status = socket.take_status();
        continue;
      }
      endpoint_ = endpoint;
      ports_.emplace_back(endpoint, std::make_shared<Socket>(std::move(socket.value())));
      eventfd_write(wake_, 1);
      return endpoint_;
    }
  }
  return Status(HCCL_E_NETWORK, text(status.message(), "; check HCCL_IF_IP, HCCL_HOST_SOCKET_PORT_RANGE and HCCL_IF_BASE_PORT"));
}

Status Listener::listen_also(Endpoint endpoint) {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, socket] : ports_) {
    if (known.host == endpoint.host && known.port == endpoint.port) return {};
  }
  SOFTNPU_RETURN_IF_ERROR(start());
  Result<Socket> socket = listen_at(&endpoint);
  if (!socket.ok()) return socket.take_status();
  ports_.emplace_back(endpoint, std::make_shared<Socket>(std::move(socket.value())));
  eventfd_write(wake_, 1);
  return {};
}

Listener::Session::Session(const SessionId& id, const Digest& secret, const std::vector<std::string>& allowed_hosts)
    : entry_(std::make_shared<Entry>()) {
  entry_->id = id;
  entry_->secret = secret;
  for (const std::string& host : allowed_hosts) entry_->allowed_hosts.push_back(canonical_address(host));
  Listener& listener = instance();
  const std::lock_guard lock(listener.mutex_);
  listener.sessions_[id] = entry_;
}

Listener::Session::~Session() {
  Listener& listener = instance();
  const std::lock_guard lock(listener.mutex_);
  listener.sessions_.erase(entry_->id);
}

void Listener::serve() {
  std::vector<Pending> pending;
  std::vector<std::shared_ptr<Socket>> ports;
  std::vector<pollfd> entries;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      ports.clear();
      for (const auto& [endpoint, socket] : ports_) ports.push_back(socket);
    }
    entries.assign(1, {wake_, POLLIN, 0});
    for (const auto& port : ports) entries.push_back({port->file(), POLLIN, 0});
    for (const Pending& connection : pending) entries.push_back({connection.socket.file(), POLLIN, 0});
    poll(entries.data(), entries.size(), pending.empty() ? -1 : 1000);
    eventfd_t ignored;
    eventfd_read(wake_, &ignored);
    for (auto connection = pending.begin(); connection != pending.end();) {
      const bool has_ended = advance(*connection) || connection->deadline.passed();
      connection = has_ended ? pending.erase(connection) : std::next(connection);
    }
    for (const auto& port : ports) accept_all(*port, pending);
  }
}

void Listener::accept_all(const Socket& port, std::vector<Pending>& pending) {
  while (true) {
    Socket socket(accept4(port.file(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(kPauseWithoutFiles);
      return;
    }
    if (has_whitelist_ && !contains(whitelist_, peer_host(socket))) continue;
    Pending added(std::move(socket));
    const ssize_t sent = send(added.socket.file(), added.nonce.data(), added.nonce.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != ssize_t(added.nonce.size())) continue;
    if (pending.size() == kMostPending) pending.erase(pending.begin());
    pending.push_back(std::move(added));
  }
}

bool Listener::advance(Pending& pending) {
  const ssize_t got = recv(pending.socket.file(), pending.received.data() + pending.filled,
                           pending.received.size() - pending.filled, MSG_DONTWAIT);
  if (got <= 0) return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  pending.filled += static_cast<size_t>(got);
  if (pending.filled < pending.received.size()) return false;
  Hello hello;
  std::memcpy(&hello, pending.received.data(), sizeof hello);
  if (hello.magic != kMagic) return true;
  std::shared_ptr<Session::Entry> session;
  {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(hello.id);
    if (found != sessions_.end()) session = found->second;
  }
  if (session == nullptr) return true;
  if (!equal(hello.proof, proof_of(session->secret, "client", hello.id, pending.nonce, hello.nonce))) return true;
  if (!session->allowed_hosts.empty() && !contains(session->allowed_hosts, peer_host(pending.socket))) return true;
  const Digest answer = proof_of(session->secret, "server", hello.id, pending.nonce, hello.nonce);
  const ssize_t sent = send(pending.socket.file(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != ssize_t(answer.size())) return true;
  prepare(pending.socket);
  session->arrivals.push(std::move(pending.socket));
  return true;
}

Result<Socket> join_session(const Endpoint& endpoint, const SessionId& id, const Digest& secret, Deadline deadline) {
  Result<Socket> connected = connect_to(endpoint, deadline);
  if (!connected.ok()) return connected.take_status();
  Socket socket = std::move(connected.value());
  const auto explain = [&](const Status& status) {
    const bool is_closed = status.code() == HCCL_E_TCP_TRANSFER;
    return Status(is_closed ? HCCL_E_AGAIN : status.code(),
                  text("the process at ", endpoint.to_text(), " did not accept this rank: ", status.message(),
                       "; check that the root info is new and that the whitelist of that process allows this host"));
  };
  Nonce nonce;
  if (const Status status = socket.receive_all(nonce.data(), nonce.size(), deadline); !status.ok()) return explain(status);
  Hello hello;
  hello.id = id;
  fill_random(hello.nonce.data(), hello.nonce.size());
  hello.proof = proof_of(secret, "client", id, nonce, hello.nonce);
  if (const Status status = socket.send_all(&hello, sizeof hello, deadline); !status.ok()) return explain(status);
  Digest answer;
  if (const Status status = socket.receive_all(answer.data(), answer.size(), deadline); !status.ok()) return explain(status);
  if (!equal(answer, proof_of(secret, "server", id, nonce, hello.nonce))) {
    return Status(HCCL_E_NETWORK, text("the process at ", endpoint.to_text(),
                                       " does not know the secret of this communicator; another program may use the port"));
  }
  return socket;
}

}  // namespace softnpu::hccl
