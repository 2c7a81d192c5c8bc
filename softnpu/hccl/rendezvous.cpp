#include "hccl/rendezvous.h"

#include <poll.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <thread>

#include "hccl/options.h"

namespace softnpu::hccl {
namespace {

constexpr size_t kMostRanks = 4096;
constexpr size_t kMostContent = 4096;  // of one rank
constexpr size_t kMostAnswer = kMostRanks * (kMostContent + 8);
constexpr auto kGrace = std::chrono::seconds(5);  // a client waits that much longer than the server, to be told why

// An answer is a code and then, for 0, the content of each rank behind its length; else a sentence.
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
  const Status broken(HCCL_E_TCP_TRANSFER, "the answer of the root is damaged");
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
  if (content.size() != sizeof *info) return {HCCL_E_TCP_TRANSFER, "a rank of another version of this library came"};
  std::memcpy(info, content.data(), sizeof *info);
  if (info->version != RankInfo().version || info->world == 0 || info->world > kMostRanks || info->rank >= info->world) {
    return {HCCL_E_TCP_TRANSFER, "what a rank says about itself makes no sense"};
  }
  for (char* text_field : {&info->machine[sizeof info->machine - 1], &info->host[sizeof info->host - 1],
                           &info->node[sizeof info->node - 1], &info->address[sizeof info->address - 1]}) {
    *text_field = '\0';
  }
  return {};
}

std::string list_of(const std::vector<uint32_t>& ranks) {
  std::string list;
  for (size_t index = 0; index < ranks.size() && index < 16; ++index) list += text(index > 0 ? ", " : "", ranks[index]);
  return ranks.size() > 16 ? text(list, " and ", ranks.size() - 16, " more") : list;
}

// The connections that the listener hands over.
struct Arrivals {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<Socket> sockets;

  // Empty at the deadline.
  Socket next(Deadline deadline) {
    std::unique_lock lock(mutex);
    const auto is_there = [&] { return !sockets.empty(); };
    if (deadline.is_never()) {
      arrived.wait(lock, is_there);
    } else if (!arrived.wait_until(lock, deadline.at(), is_there)) {
      return {};
    }
    Socket socket = std::move(sockets.front());
    sockets.pop_front();
    return socket;
  }
};

// One meeting, on its own thread.
class Meeting {
 public:
  explicit Meeting(std::shared_ptr<Arrivals> arrivals) : arrivals_(std::move(arrivals)) {}

  void run() {
    Status status = gather();
    for (int round = 0; status.ok() && round < kExchanges; ++round) status = relay();
    if (!status.ok()) refuse(status);
  }

 private:
  Status gather() {
    while (members_.empty() || members_.size() < members_.begin()->second.info.world) {
      Socket socket = arrivals_->next(deadline_);
      if (!socket.is_open()) return missing();
      if (deadline_.is_never()) deadline_ = Deadline::after(std::chrono::seconds(options().connect_timeout));
      std::string content;
      Status status = socket.receive_frame(&content, kMostContent, deadline_);
      RankInfo info;
      if (status.ok()) status = read_rank_info(content, &info);
      if (!status.ok()) continue;  // it closes, and its rank is missing
      status = check(info);
      extras_.push_back(std::move(socket));
      if (!status.ok()) return status;
      members_[info.rank] = {info, std::move(extras_.back())};
      extras_.pop_back();
    }
    std::vector<std::string> contents;
    for (const auto& [rank, member] : members_) {
      contents.emplace_back(reinterpret_cast<const char*>(&member.info), sizeof member.info);
    }
    return answer(success_answer(contents));
  }

  Status missing() const {
    std::vector<uint32_t> absent;
    const uint32_t world = members_.empty() ? 0 : members_.begin()->second.info.world;
    for (uint32_t rank = 0; rank < world; ++rank) {
      if (!members_.contains(rank)) absent.push_back(rank);
    }
    return {HCCL_E_TIMEOUT, text(absent.size() == 1 ? "rank " : "ranks ", list_of(absent), " of ", world, " did not come within ",
                                 options().connect_timeout, " s (HCCL_CONNECT_TIMEOUT)")};
  }

  Status check(const RankInfo& info) const {
    for (const auto& [rank, member] : members_) {
      const RankInfo& other = member.info;
      if (other.world != info.world) {
        return {HCCL_E_PARA, text("the ranks do not agree how many they are: ", other.to_text(), " says ", other.world, ", ",
                                  info.to_text(), " says ", info.world)};
      }
      if (other.rank == info.rank) {
        return {HCCL_E_PARA, text("two processes want to be rank ", info.rank, ": ", other.to_text(), " and ", info.to_text())};
      }
      if (other.device == info.device && std::strcmp(other.machine, info.machine) == 0) {
        return {HCCL_E_PARA, text("two ranks use one device: ", other.to_text(), " and ", info.to_text())};
      }
      if (other.members != info.members) {
        return {HCCL_E_PARA, text("the ranks do not agree who is a member: ", other.to_text(), " and ", info.to_text(),
                                  " have different lists of ranks")};
      }
    }
    return {};
  }

  // Collects a frame from each rank and gives all to all.
  Status relay() {
    std::vector<std::string> contents;
    for (const auto& [rank, member] : members_) {
      std::string content;
      const Status status = member.socket.receive_frame(&content, kMostContent, deadline_);
      if (!status.ok()) {
        return {HCCL_E_REMOTE, text(member.info.to_text(), " gave up while the communicator was set up: ", status.message())};
      }
      contents.push_back(std::move(content));
    }
    return answer(success_answer(contents));
  }

  Status answer(const std::string& content) {
    for (const auto& [rank, member] : members_) {
      const Status status = member.socket.send_frame(content, deadline_);
      if (!status.ok()) {
        return {HCCL_E_REMOTE, text(member.info.to_text(), " gave up while the communicator was set up: ", status.message())};
      }
    }
    return {};
  }

  // Tells everybody who is there, and who still comes in time.
  void refuse(const Status& status) {
    const std::string answer = failure_answer(status);
    const Deadline brief = Deadline::after(kGrace);
    for (const auto& [rank, member] : members_) (void)member.socket.send_frame(answer, brief);
    for (const Socket& socket : extras_) (void)socket.send_frame(answer, brief);
    while (true) {
      const Socket late = arrivals_->next(deadline_);
      if (!late.is_open()) return;
      (void)late.send_frame(answer, Deadline::after(kGrace));
    }
  }

  struct Member {
    RankInfo info;
    Socket socket;
  };

  std::shared_ptr<Arrivals> arrivals_;
  Deadline deadline_ = Deadline::never();
  std::map<uint32_t, Member> members_;
  std::vector<Socket> extras_;
};

}  // namespace

std::string RankInfo::to_text() const { return text("rank ", rank, " (process ", pid, " on ", node, ", device ", device, ")"); }

void RendezvousServer::start(const MeetingPoint& point, std::vector<std::string> allowed_hosts) {
  auto arrivals = std::make_shared<Arrivals>();
  const auto accept = [arrivals](Socket socket) {
    const std::lock_guard lock(arrivals->mutex);
    arrivals->sockets.push_back(std::move(socket));
    arrivals->arrived.notify_one();
  };
  Listener::instance().add({point.id, point.secret, accept, std::move(allowed_hosts)});
  std::thread([arrivals, id = point.id] {
    Meeting(arrivals).run();
    Listener::instance().remove(id);
  }).detach();
}

Result<Rendezvous> Rendezvous::join(const MeetingPoint& point, const RankInfo& own, Deadline deadline, bool is_patient) {
  Rendezvous meeting;
  while (true) {
    Result<Socket> socket = join_session(point.endpoint, point.id, point.secret, deadline);
    if (socket.ok()) {
      meeting.socket_ = std::move(socket.value());
      break;
    }
    const Status status = socket.take_status();
    const bool may_come = status.code() == HCCL_E_AGAIN || status.code() == HCCL_E_TCP_CONNECT;
    if (!is_patient || !may_come || deadline.passed()) {
      return Status(status.code() == HCCL_E_AGAIN ? HCCL_E_TCP_CONNECT : status.code(), status.message());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  meeting.deadline_ = deadline.is_never() ? deadline : Deadline::after(deadline.at() - Deadline::Clock::now() + kGrace);
  Result<std::vector<std::string>> contents = meeting.exchange(std::string(reinterpret_cast<const char*>(&own), sizeof own));
  if (!contents.ok()) return contents.take_status();
  for (const std::string& content : contents.value()) {
    SOFTNPU_RETURN_IF_ERROR(read_rank_info(content, &meeting.ranks_.emplace_back()));
  }
  if (meeting.ranks_.size() != own.world) return Status(HCCL_E_TCP_TRANSFER, "the answer of the root is damaged");
  return meeting;
}

Result<std::vector<std::string>> Rendezvous::exchange(const std::string& content) {
  SOFTNPU_RETURN_IF_ERROR(socket_.send_frame(content, deadline_));
  std::string answer;
  SOFTNPU_RETURN_IF_ERROR(socket_.receive_frame(&answer, kMostAnswer, deadline_));
  return read_answer(answer);
}

}  // namespace softnpu::hccl
