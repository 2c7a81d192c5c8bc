// The listening port of this process. Other ranks connect to it, prove that they know the secret of a session, and are handed to
// that session.
//
//   Listener::Session session(id, secret, allowed_hosts);                   // in the process that listens
//   Socket peer = session.next(deadline);
//   Result<Socket> socket = join_session(endpoint, id, secret, deadline);   // in the process that connects
//
// Handshake: the server sends 32 random bytes. The client answers with a message of fixed size: magic number, session id, 32
// random bytes of its own, and an HMAC over both under the secret. The server reads nothing else before this HMAC is right; then
// it sends its own HMAC. A connection is closed without an answer if its message is wrong, if the message takes longer than
// kHandshakeTimeout, or if its host is not allowed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hccl/net/sha256.h"
#include "hccl/net/socket_queue.h"

namespace softnpu::hccl {

using SessionId = std::array<uint8_t, 16>;

// The id and the secret of a session that is derived from another one.
SessionId derive_id(const Digest& secret, std::string_view purpose);
Digest derive_secret(const Digest& secret, std::string_view purpose);

// Thread-safe. One object per process, never destroyed. Its thread starts with the first port.
class Listener {
 public:
  // While it lives, connections that prove the secret are accepted. An empty list of hosts allows all.
  class Session {
   public:
    Session(const SessionId& id, const Digest& secret, const std::vector<std::string>& allowed_hosts);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // The next connection; not open if the deadline passes first.
    Socket next(Deadline deadline) { return entry_->arrivals.pop(deadline); }

   private:
    friend class Listener;
    struct Entry {
      SessionId id;
      Digest secret;
      std::vector<std::string> allowed_hosts;
      SocketQueue arrivals;
    };
    std::shared_ptr<Entry> entry_;
  };

  static Listener& instance();

  // Where this process listens: an address of net/interfaces.h and a port of HCCL_HOST_SOCKET_PORT_RANGE.
  Result<Endpoint> endpoint();
  // Makes the process listen at this endpoint, too.
  Status listen_also(Endpoint endpoint);

 private:
  struct Pending;

  Status start();
  Status read_whitelist();
  void serve();
  void accept_all(const Socket& port, std::vector<Pending>& pending);
  // Returns true when the handshake has ended, with success or not.
  bool advance(Pending& pending);

  std::mutex mutex_;  // guards all below
  bool is_running_ = false;
  Endpoint endpoint_;
  std::vector<std::pair<Endpoint, std::shared_ptr<Socket>>> ports_;
  std::map<SessionId, std::shared_ptr<Session::Entry>> sessions_;
  bool has_whitelist_ = false;  // these two change only before the thread starts
  std::vector<std::string> whitelist_;
  int wake_ = -1;  // eventfd
};

// Connects and proves the secret. HCCL_E_AGAIN if the server closed the connection during the handshake: it does not know the
// session, or not yet.
Result<Socket> join_session(const Endpoint& endpoint, const SessionId& id, const Digest& secret, Deadline deadline);

}  // namespace softnpu::hccl
