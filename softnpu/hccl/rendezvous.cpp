#include "hccl/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "hccl/options.h"

namespace softnpu::hccl {
namespace {

constexpr size_t kMostRanks = 4096;
constexpr size_t kMostContent = 4096;  // of one rank
constexpr size_t kMostAnswer = kMostRanks * (kMostContent + 8);
constexpr auto kGrace = std::chrono::seconds(5);  // a client waits longer than the server by this, so that it gets the reason
constexpr auto kRetryPause = std::chrono::milliseconds(20);
constexpr size_t kMostListed = 16;  // ranks in a message

// An answer is a code. If it is 0, the length and the content of each rank follow; else a sentence.
std::string failure_answer(const Status& status) {
  const auto code = static_cast<uint32_t>(status.code());
  return std::string(reinterpret_cast<const char*>(&code), sizeof code) + status.message();
}

std::string success_answer(const std::vector<std::string>& contents) {
  std::string answer(sizeof(uint32_t), '\0');
  for (const std::string& content : contents) {
    const auto length = static_cast<uint32_t>(content.size());
    answer.append(reinterpret_cast<const char*>(&length), sizeof length).append(content);
  }
  return answer;
}

Result<std::vector<std::string>> read_answer(const std::string& answer) {
  const Status broken(HCCL_E_TCP_TRANSFER, "the answer of the rendezvous server is damaged");
  uint32_t code = 0;
  if (answer.size() < sizeof code) return broken.copy();
  std::memcpy(&code, answer.data(), sizeof code);
  if (code != 0) return Status(static_cast<int>(code), answer.substr(sizeof code));
  std::vector<std::string> contents;
  for (size_t next = sizeof code; next < answer.size();) {
    uint32_t length = 0;
    if (answer.size() - next < sizeof length) return broken.copy();
    std::memcpy(&length, answer.data() + next, sizeof length);
    next += sizeof length;
    if (answer.size() - next < length) return broken.copy();
    contents.push_back(answer.substr(next, length));
    next += length;
  }
  return contents;
}

Status read_rank_info(const std::string& content, RankInfo* info) {
  if (content.size() != sizeof *info) return {HCCL_E_TCP_TRANSFER, "a rank uses another version of this library"};
  std::memcpy(info, content.data(), sizeof *info);
  if (info->version != RankInfo().version || info->world == 0 || info->world > kMostRanks || info->rank >= info->world) {
    return {HCCL_E_TCP_TRANSFER, "the description of a rank is damaged"};
  }
  for (char* text_field : {&info->machine[sizeof info->machine - 1], &info->host[sizeof info->host - 1],
                           &info->node[sizeof info->node - 1], &info->address[sizeof info->address - 1]}) {
    *text_field = '\0';
  }
  return {};
}

std::string list_of(const std::vector<uint32_t>& ranks) {
  std::string list;
  for (size_t index = 0; index < std::min(ranks.size(), kMostListed); ++index) list += text(index > 0 ? ", " : "", ranks[index]);
  return ranks.size() > kMostListed ? text(list, " and ", ranks.size() - kMostListed, " more") : list;
}

// Serves the ranks of one communicator, on its own thread.
class Server {
 public:
  Server(const RendezvousPoint& point, const std::vector<std::string>& allowed_hosts)
      : session_(std::make_unique<Listener::Session>(point.id, point.secret, allowed_hosts)) {}

  void run() {
    Status status = collect_ranks();
    for (int round = 0; status.ok() && round < Rendezvous::kExchanges; ++round) status = relay();
    if (!status.ok()) refuse(status);
  }

 private:
  struct Member {
    RankInfo info;
    Socket socket;
  };

  Status collect_ranks() {
    while (members_.empty() || members_.size() < members_.begin()->second.info.world) {
      Socket socket = session_->next(deadline_);
      if (!socket.is_open()) return missing_ranks();
      if (deadline_.is_never()) deadline_ = Deadline::after(std::chrono::seconds(options().connect_timeout));
      std::string content;
      Status status = socket.receive_frame(&content, kMostContent, deadline_);
      RankInfo info;
      if (status.ok()) status = read_rank_info(content, &info);
      if (!status.ok()) continue;  // the connection closes; the rank counts as missing
      status = check(info);
      if (!status.ok()) {
        refused_.push_back(std::move(socket));
        return status;
      }
      members_[info.rank] = {info, std::move(socket)};
    }
    session_.reset();  // before the answer: a rank that gets it may destroy the communicator and use the root info again
    std::vector<std::string> contents;
    for (const auto& [rank, member] : members_) {
      contents.emplace_back(reinterpret_cast<const char*>(&member.info), sizeof member.info);
    }
    return answer(success_answer(contents));
  }

  Status missing_ranks() const {
    std::vector<uint32_t> missing;
    const uint32_t world = members_.empty() ? 0 : members_.begin()->second.info.world;
    for (uint32_t rank = 0; rank < world; ++rank) {
      if (!members_.contains(rank)) missing.push_back(rank);
    }
    return {HCCL_E_TIMEOUT, text(missing.size() == 1 ? "rank " : "ranks ", list_of(missing), " of ", world,
                                 " did not connect within ", options().connect_timeout, " s (HCCL_CONNECT_TIMEOUT)")};
  }

  Status check(const RankInfo& info) const {
    for (const auto& [rank, member] : members_) {
      const RankInfo& other = member.info;
      if (other.world != info.world) {
        return {HCCL_E_PARA, text("the ranks have different numbers of ranks: ", other.to_text(), " has ", other.world, ", ",
                                  info.to_text(), " has ", info.world)};
      }
      if (other.rank == info.rank) {
        return {HCCL_E_PARA, text("two processes have rank ", info.rank, ": ", other.to_text(), " and ", info.to_text())};
      }
      if (other.device == info.device && std::strcmp(other.machine, info.machine) == 0) {
        return {HCCL_E_PARA, text("two ranks use one device: ", other.to_text(), " and ", info.to_text(),
                                  "; call aclrtSetDevice with another device in each process")};
      }
      if (other.members != info.members) {
        return {HCCL_E_PARA,
                text("the ranks have different lists of members: ", other.to_text(), " and ", info.to_text(), " differ")};
      }
    }
    return {};
  }

  // Receives a frame from each rank and sends all frames to all ranks.
  Status relay() {
    std::vector<std::string> contents;
    for (const auto& [rank, member] : members_) {
      std::string content;
      const Status status = member.socket.receive_frame(&content, kMostContent, deadline_);
      if (!status.ok()) return member_failure(member.info, status);
      contents.push_back(std::move(content));
    }
    return answer(success_answer(contents));
  }

  Status answer(const std::string& content) {
    for (const auto& [rank, member] : members_) {
      const Status status = member.socket.send_frame(content, deadline_);
      if (!status.ok()) return member_failure(member.info, status);
    }
    return {};
  }

  static Status member_failure(const RankInfo& info, const Status& status) {
    return {HCCL_E_REMOTE, text(info.to_text(), " failed while the communicator was set up: ", status.message())};
  }

  // Sends the reason to all ranks that are connected, and to ranks that connect before the deadline.
  void refuse(const Status& status) {
    const std::string answer = failure_answer(status);
    for (const auto& [rank, member] : members_) (void)member.socket.send_frame(answer, Deadline::after(kGrace));
    for (const Socket& socket : refused_) (void)socket.send_frame(answer, Deadline::after(kGrace));
    while (session_ != nullptr) {
      const Socket late = session_->next(deadline_);
      if (!late.is_open()) return;
      (void)late.send_frame(answer, Deadline::after(kGrace));
    }
  }

  std::unique_ptr<Listener::Session> session_;  // null once all ranks are connected
  Deadline deadline_ = Deadline::never();       // starts with the first rank
  std::map<uint32_t, Member> members_;
  std::vector<Socket> refused_;
};

}  // namespace

void RendezvousServer::start(const RendezvousPoint& point, const std::vector<std::string>& allowed_hosts) {
  auto server = std::make_unique<Server>(point, allowed_hosts);  // ranks may connect as soon as this function returns
  std::thread([server = std::move(server)] { server->run(); }).detach();
}

Result<Rendezvous> Rendezvous::join(const RendezvousPoint& point, const RankInfo& own, Deadline deadline, bool retries) {
  Rendezvous rendezvous;
  while (true) {
    Result<Socket> socket = join_session(point.endpoint, point.id, point.secret, deadline);
    if (socket.ok()) {
      rendezvous.socket_ = std::move(socket.value());
      break;
    }
    const Status status = socket.take_status();
    const bool may_start_later = status.code() == HCCL_E_AGAIN || status.code() == HCCL_E_TCP_CONNECT;
    if (!retries || !may_start_later || deadline.passed()) {
      return Status(status.code() == HCCL_E_AGAIN ? HCCL_E_TCP_CONNECT : status.code(), status.message());
    }
    std::this_thread::sleep_for(kRetryPause);
  }
  rendezvous.deadline_ = deadline.is_never() ? deadline : Deadline::after(deadline.at() - Deadline::Clock::now() + kGrace);
  Result<std::vector<std::string>> contents = rendezvous.exchange(std::string(reinterpret_cast<const char*>(&own), sizeof own));
  if (!contents.ok()) return contents.take_status();
  for (const std::string& content : contents.value()) {
    SOFTNPU_RETURN_IF_ERROR(read_rank_info(content, &rendezvous.ranks_.emplace_back()));
  }
  if (rendezvous.ranks_.size() != own.world) return Status(HCCL_E_TCP_TRANSFER, "the answer of the rendezvous server is damaged");
  return rendezvous;
}

Result<std::vector<std::string>> Rendezvous::exchange(const std::string& content) {
  SOFTNPU_RETURN_IF_ERROR(socket_.send_frame(content, deadline_));
  std::string answer;
  SOFTNPU_RETURN_IF_ERROR(socket_.receive_frame(&answer, kMostAnswer, deadline_));
  Result<std::vector<std::string>> contents = read_answer(answer);
  const bool is_complete = !contents.ok() || ranks_.empty() || contents.value().size() == ranks_.size();
  if (!is_complete) return Status(HCCL_E_TCP_TRANSFER, "the answer of the rendezvous server is damaged");
  return contents;
}

}  // namespace softnpu::hccl
