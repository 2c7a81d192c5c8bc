// The waiting of an exchange: spinning, sleeping, timeouts, and the search for the reason why nothing moves.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "hccl/exchange.h"
#include "hccl/library.h"
#include "runtime/base/futex.h"

namespace softnpu::hccl {
namespace {

constexpr auto kMixedSlice = std::chrono::milliseconds(1);  // the longest sleep if shared memory and sockets are both waited for
constexpr int kSpins = 150;          // some 10 us, as long as a wake-up takes; if each rank can have a core
constexpr int kSpinsIfCrowded = 20;  // otherwise

int spins_for(Communicator& communicator) {
  static const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return long(communicator.size()) <= cores ? kSpins : kSpinsIfCrowded;
}

}  // namespace

Status Exchange::run() {
  const int most_spins = spins_for(communicator_);
  const std::chrono::seconds limit = communicator_.settings().exec_timeout;
  int spins = 0;
  Deadline timeout;
  while (true) {
    bool moved = false;
    SOFTNPU_RETURN_IF_ERROR(step(&moved));
    if (is_over()) return {};
    if (communicator_.has_failed()) return communicator_.failure();
    if (std::exchange(has_moved_, false)) {
      spins = 0;
      continue;
    }
    if (++spins < most_spins) {
      cpu_relax();
      continue;
    }
    if (spins == most_spins) timeout = limit.count() == 0 ? Deadline::never() : Deadline::after(limit);
    SOFTNPU_RETURN_IF_ERROR(wait(timeout));
  }
}

// A peer that left or died may have written the missing bytes before. So its state counts only if nothing moves after the state
// was read.
Status Exchange::wait(Deadline timeout) {
  const bool checks_processes = next_process_check_.passed();
  if (checks_processes) next_process_check_ = Deadline::after(kProcessCheck);
  const Status problem = find_problem(checks_processes);
  if (!problem.ok()) {
    bool moved = false;
    SOFTNPU_RETURN_IF_ERROR(step(&moved));
    if (moved || is_over()) return {};
    return problem.copy();
  }
  if (timeout.passed()) return timed_out();
  if (task_is_aborted()) return {HCCL_E_UNAVAIL, text(function_name(op_), " was interrupted: its stream was aborted")};
  if (checks_processes) {
    has_waited_ = true;
    communicator_.set_waiting(this, text(function_name(op_), " waits for ", lacking_ranks()));
  }
  const Deadline slice = Deadline::after(kProcessCheck);
  return sleep(timeout.at() < slice.at() ? timeout : slice);
}

Status Exchange::find_problem(bool checks_processes) {
  for (uint32_t number = 0; number < peers_.size(); ++number) {
    if (is_over(number)) continue;
    const uint32_t peer = rank_of(number);
    Status status = communicator_.peer_status(peer);
    if (!status.ok() && communicator_.peer_has_failed(peer)) return status;
    if (!needs(number)) continue;
    const RankInfo& info = communicator_.info(peer);
    const std::string problem = peers_[number].channel->problem();
    const bool may_still_arrive = problem.empty() && !communicator_.shares_memory(peer);
    if (!status.ok() && !may_still_arrive) return status;
    if (!problem.empty()) return {HCCL_E_REMOTE, text("the connection to ", info.to_text(), " ended: ", problem)};
    if (checks_processes && !communicator_.peer_is_alive(peer)) {
      return {HCCL_E_REMOTE, text("the process of ", info.to_text(), " has ended")};
    }
  }
  return {};
}

Exchange::~Exchange() {
  if (has_waited_) communicator_.set_waiting(this, {});
}

std::string Exchange::lacking_ranks() {
  std::string ranks;
  for (uint32_t rank = 0; rank < communicator_.size(); ++rank) {
    bool is_needed = false, has_called = false;
    for (const uint32_t number : {rank, reply_number(rank)}) {
      is_needed = is_needed || (!is_over(number) && needs(number));
      has_called = has_called || peers_[number].next_incoming > 0;
    }
    if (!is_needed) continue;
    ranks += text(ranks.empty() ? "" : ", ", communicator_.info(rank).to_text(),
                  has_called ? ", which called it but has stopped sending or reading" : ", which did not call it",
                  communicator_.peer_is_stopped(rank) ? " (its process is stopped)" : "");
  }
  return ranks;
}

Status Exchange::timed_out() {
  return {HCCL_E_TIMEOUT, text("rank ", communicator_.rank(), " waited ", communicator_.settings().exec_timeout.count(),
                               " s (HCCL_EXEC_TIMEOUT) in ", function_name(op_), " for ", lacking_ranks())};
}

Status Exchange::sleep(Deadline until) {
  std::vector<pollfd> files;
  bool shares_memory = false;
  for (uint32_t number = 0; number < peers_.size(); ++number) {
    if (is_over(number) || !needs(number)) continue;
    const Peer& peer = peers_[number];
    if (peer.channel->file() < 0) {
      shares_memory = true;
      continue;
    }
    // Data of other terms may have arrived, but cannot be read before that of the lacking rank.
    const bool is_term = peer.has_incoming() && peer.incoming[peer.next_incoming].kind == Kind::kTerm;
    const bool waits_to_read = peer.has_incoming() && (!is_term || number == lacking_);
    bool waits_to_write = false;
    if (peer.has_outgoing()) {
      const Outgoing& item = peer.outgoing[peer.next_outgoing];
      waits_to_write = may_be_sent(number, item) && item.ready_bytes() > item.done;
    }
    files.push_back({peer.channel->file(), static_cast<short>((waits_to_read ? POLLIN : 0) | (waits_to_write ? POLLOUT : 0)), 0});
    files.push_back({communicator_.control_file(rank_of(number)), POLLIN, 0});
  }
  if (!files.empty() || communicator_.segment() == nullptr) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until.at() - Deadline::Clock::now()) + kMixedSlice;
    poll(files.data(), files.size(), static_cast<int>(shares_memory ? kMixedSlice.count() : std::max<int64_t>(left.count(), 0)));
    return {};
  }
  Segment& segment = *communicator_.segment();
  const uint32_t own = communicator_.segment_rank();
  const uint32_t ticket = segment.prepare_sleep(own);
  bool moved = false;
  const Status status = step(&moved);
  const bool has_news = !status.ok() || moved || is_over() || communicator_.has_failed() || !find_problem(false).ok();
  if (!has_news) segment.sleep(own, ticket, until);
  segment.end_sleep(own);
  return status.copy();
}

}  // namespace softnpu::hccl
