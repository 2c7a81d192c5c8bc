// Handles, life and failure state of communicators. communicator_setup.cpp connects them.
#include "hccl/communicator.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

namespace softnpu::hccl {
namespace {

// A connection can end a little before the message with the reason arrives on the control connection.
constexpr auto kReasonDelay = std::chrono::milliseconds(200);
constexpr size_t kKeptScratch = size_t{16} << 20;  // larger scratch memory is freed after its collective

struct Handles {
  std::mutex mutex;
  std::map<uintptr_t, std::shared_ptr<Communicator>> live;
  uintptr_t next = 0;
};

Handles& handles() {
  static auto* const all = new Handles;
  return *all;
}

int g_first_pid = 0;  // the process that created the first communicator

constexpr uintptr_t kHandleTag = uintptr_t{0x4CC1} << 48;  // no pointer of a program has these bits

// The only message of a control connection.
struct StateMessage {
  static constexpr uint32_t kMagic = 0x7473'6368;

  uint32_t magic = kMagic;
  uint32_t state = 0;
  char reason[440] = {};

  bool is_valid() const {
    return magic == kMagic && (state == uint32_t(RankState::kLeft) || state == uint32_t(RankState::kFailed));
  }
};

Status status_of(const RankInfo& info, RankState state, const std::string& reason) {
  switch (state) {
    case RankState::kRunning:
      return {};
    case RankState::kLeft:
      return {HCCL_E_REMOTE, text(info.to_text(), " ", reason)};
    default:
      return {HCCL_E_REMOTE, text(info.to_text(), " failed: ", reason)};
  }
}

}  // namespace

Communicator::Communicator(const Group& group, const CommunicatorSettings& settings)
    : group_(group), pid_(getpid()), settings_(settings), deterministic_(settings.deterministic), peers_(group.size) {
  if (settings_.name.empty()) settings_.name = text("hccl_", short_hex(sha256(bytes_of(group.point.secret))).substr(0, 16));
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

// Not in a child of fork(): another thread may have held the lock.
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

// --- failure state ---

void Communicator::leave(RankState state, const std::string& reason) {
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
  StateMessage message;
  message.state = static_cast<uint32_t>(state);
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
    segment_->set_state(segment_rank(), state, reason);
  }
}

void Communicator::leave_by_choice(const std::string& action) {
  if (running_.load() == 0) {
    leave(RankState::kLeft, action);
  } else {
    const std::string waits = waiting();
    leave(RankState::kFailed, text("it ", action, " during a collective", waits.empty() ? "" : ": ", waits));
  }
}

void Communicator::fail(const Status& status) {
  {
    const std::lock_guard lock(failure_lock_);
    if (!failure_.ok()) return;
    failure_ = status.copy();
  }
  leave(RankState::kFailed, status.message());
}

Status Communicator::failure() const {
  const std::lock_guard lock(failure_lock_);
  return failure_.copy();
}

HcclResult Communicator::async_error() {
  if (!has_failed()) {
    // Stored, so that this rank tells the others the first reason and not that it leaves, too.
    if (const Status status = check_peers(); !status.ok()) fail(status);
  }
  return static_cast<HcclResult>(failure().code());
}

Status Communicator::check_peers() {
  for (uint32_t number = 0; number < size(); ++number) {
    if (number == rank()) continue;
    Status status = peer_status(number);
    if (!status.ok() && peer_has_failed(number)) return status;
  }
  return {};
}

Status Communicator::peer_status(uint32_t number) {
  Peer& peer = peers_[number];
  if (shares_memory(number)) {
    const RankState state = segment_->state(peer.segment_rank);
    return state == RankState::kRunning ? Status() : status_of(peer.info, state, segment_->reason(peer.segment_rank));
  }
  const std::lock_guard lock(peer.control_lock);
  if (!peer.status.ok()) return peer.status.copy();
  StateMessage message;
  ssize_t got = recv(peer.control.file(), &message, sizeof message, MSG_DONTWAIT | MSG_PEEK);
  std::string problem;
  for (const auto& channel : peer.channels) {
    if (problem.empty()) problem = channel->problem();
  }
  if (got < 0 && problem.empty()) return {};
  const bool has_bytes = got > 0;
  if (got < ssize_t(sizeof message) && got != 0) {
    const Socket& control = peer.control;
    got = control.receive_all(&message, sizeof message, Deadline::after(kReasonDelay)).ok() ? ssize_t(sizeof message) : 0;
  }
  const bool is_whole = got == ssize_t(sizeof message);
  if (is_whole && message.is_valid()) {
    message.reason[sizeof message.reason - 1] = '\0';
    peer.has_failed = message.state != uint32_t(RankState::kLeft);
    peer.status = status_of(peer.info, peer.has_failed ? RankState::kFailed : RankState::kLeft, message.reason);
  } else if (is_whole || has_bytes) {
    peer.has_failed = true;
    peer.status = {HCCL_E_TCP_TRANSFER,
                   text("a message of ", peer.info.to_text(), " is damaged: it does not contain the reason why that rank left")};
  } else {
    peer.has_failed = true;
    peer.status = {HCCL_E_REMOTE, text("the connection to ", peer.info.to_text(),
                                       " broke: ", problem.empty() ? "its process has ended" : problem)};
  }
  return peer.status.copy();
}

bool Communicator::peer_has_failed(uint32_t number) {
  Peer& peer = peers_[number];
  if (shares_memory(number)) return segment_->state(peer.segment_rank) == RankState::kFailed;
  const std::lock_guard lock(peer.control_lock);
  return peer.has_failed;
}

bool Communicator::peer_is_alive(uint32_t number) const {
  const bool is_here = std::strcmp(peers_[number].info.machine, peers_[rank()].info.machine) == 0;
  return !is_here || is_alive(peers_[number].process);
}

bool Communicator::peer_is_stopped(uint32_t number) const {
  if (std::strcmp(peers_[number].info.machine, peers_[rank()].info.machine) != 0) return false;
  std::ifstream file(text("/proc/", peers_[number].process.pid, "/stat"));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');  // the name of a program may contain ") T"
  const char state = name_end == std::string::npos || name_end + 2 >= line.size() ? ' ' : line[name_end + 2];
  return state == 'T' || state == 't';
}

void Communicator::set_waiting(const void* exchange, std::string words) {
  const std::lock_guard lock(waiting_lock_);
  if (words.empty()) {
    waiting_.erase(exchange);
  } else {
    waiting_[exchange] = std::move(words);
  }
}

std::string Communicator::waiting() const {
  const std::lock_guard lock(waiting_lock_);
  std::string all;
  for (const auto& [exchange, words] : waiting_) all += text(all.empty() ? "" : "; ", words);
  return all;
}

std::byte* Communicator::scratch(size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

void Communicator::trim_scratch() {
  if (scratch_.size() > kKeptScratch) std::vector<std::byte>().swap(scratch_);
}

}  // namespace softnpu::hccl
