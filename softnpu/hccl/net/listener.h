// The port of this process: other ranks connect to it, prove that they know a session's secret, and are handed to that session.
//
//   Listener::instance().add({id, secret, [](Socket peer) { ... }});       // here
//   Result<Socket> socket = join_session(endpoint, id, secret, deadline);   // there
//
// The server sends 32 random bytes. The client answers with a message of fixed size: magic number, the session's id, 32 random
// bytes of its own, and an HMAC over both under the secret. Nothing else is read before that HMAC is right. The server then
// proves itself in the same way. A connection that sends anything else, nothing for kPatience, or comes from a host that is not
// allowed, is closed without an answer.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hccl/net/sha256.h"
#include "hccl/net/socket.h"

namespace softnpu::hccl {

using SessionId = std::array<uint8_t, 16>;

// The id and the secret of something that is derived from a session.
SessionId derive_id(const Digest& secret, std::string_view purpose);
Digest derive_secret(const Digest& secret, std::string_view purpose);

// Thread-safe. One per process, which lives for ever; its thread starts with the first port.
class Listener {
 public:
  struct Session {
    SessionId id;
    Digest secret;
    std::function<void(Socket)> accept;      // on the listener's thread; must not block
    std::vector<std::string> allowed_hosts;  // empty: all
  };

  static Listener& instance();

  // Where this process listens: an address of net/interfaces.h and a port of HCCL_HOST_SOCKET_PORT_RANGE.
  Result<Endpoint> endpoint();
  // Listens at this endpoint too.
  Status listen_also(Endpoint endpoint);

  void add(Session session);
  // Later connections are refused; one that was just accepted may still be handed over.
  void remove(const SessionId& id);

 private:
  struct Pending;

  Status start();
  Status read_whitelist();
  void serve();
  // True when the connection is done with, good or bad.
  bool advance(Pending& pending);

  std::mutex mutex_;  // guards all below
  bool is_running_ = false;
  Endpoint endpoint_;
  std::vector<std::pair<Endpoint, std::shared_ptr<Socket>>> ports_;
  std::map<SessionId, std::shared_ptr<Session>> sessions_;
  bool has_whitelist_ = false;
  std::vector<std::string> whitelist_;
  int wake_ = -1;  // eventfd
};

// The other side. HCCL_E_AGAIN if the server closed the connection during the proof: it does not know the session (yet).
Result<Socket> join_session(const Endpoint& endpoint, const SessionId& id, const Digest& secret, Deadline deadline);

}  // namespace softnpu::hccl
