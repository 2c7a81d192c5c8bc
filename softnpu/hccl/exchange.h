// The data movement of one collective: items to and from other ranks, and reductions of items, all carried out at once.
//
//   Exchange exchange(communicator, Lane::kCollective);
//   exchange.send_header(peer, own_header);
//   exchange.expect_header(peer, expected_header);
//   exchange.send(peer, data, bytes);
//   size_t arrived = 0;
//   exchange.receive_pieces(peer, place, bytes, &arrived);
//   exchange.send_pieces(other, place, bytes, &arrived);   // forwards the data while it arrives
//   SOFTNPU_RETURN_IF_ERROR(exchange.run());
//
// Data and counters belong to the caller and must live until run() returns.
//
// Items between two ranks are carried out in the order in which they were added; both ranks must add the same items. Items of
// different ranks do not wait for each other. Reductions are carried out in the order in which they were added.
//
// run() spins briefly while nothing moves, then sleeps. It fails if the communicator failed, if a rank that it waits for failed,
// left or died, or if nothing moves for the execution timeout.
//
// Between ranks that share memory, an item of at least kDirectBytes in device memory is direct: the writer sends its place, the
// reader reads it there, and the writer's run() returns after the reader has finished.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hccl/communicator.h"
#include "hccl/header.h"
#include "hccl/reduce.h"

namespace softnpu::hccl {

// One operand of a reduction: data of this rank, or, if `own` is null, the next item from `rank`.
struct Term {
  uint32_t rank = 0;
  size_t element_bytes = 0;
  const std::byte* own = nullptr;
};

// destination = term 0 op term 1 op ..., element by element.
struct Reduction {
  ReduceFunction function = nullptr;
  std::byte* destination = nullptr;  // may be the data of a term
  size_t element_bytes = 0;          // of the destination
  size_t elements = 0;
  std::vector<Term> terms;
  size_t* ready = nullptr;  // if given, counts the bytes of the destination that are final
};

class Exchange {
 public:
  static constexpr size_t kDirectBytes = size_t{32} << 10;
  static constexpr size_t kPieceBytes = size_t{256} << 10;

  Exchange(Communicator& communicator, Lane lane);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Headers are the first items between two ranks.
  void send_header(uint32_t peer, const Header& own);
  void expect_header(uint32_t peer, const Header& expected);
  // Adds a header on the lane of replies. It is sent when everything that was added before has arrived from the peer.
  void send_reply(uint32_t peer, const Header& own);
  void expect_reply(uint32_t peer, const Header& expected);

  // `ready` counts the bytes that may be sent already; null: all of them.
  void send(uint32_t peer, const std::byte* data, size_t bytes, const size_t* ready = nullptr);
  void receive(uint32_t peer, std::byte* data, size_t bytes);
  // Send and receive data in items of kPieceBytes, so that the receiver can use or forward the data while it arrives. `arrived`
  // (may be null) counts the bytes that have arrived.
  void send_pieces(uint32_t peer, const std::byte* data, size_t bytes, const size_t* ready);
  void receive_pieces(uint32_t peer, std::byte* data, size_t bytes, size_t* arrived = nullptr);
  // Adds an incoming item for each term of another rank.
  void reduce(Reduction reduction);
  // The function that errors name. Without this call it is the one of the headers.
  void set_function(Op op) { op_ = op; }

  Status run();

 private:
  // Sent in place of the bytes of an item that may be direct. Without is_direct the bytes follow.
  struct Descriptor {
    uint32_t is_direct = 0;
    int32_t file = -1;
    uint64_t inode = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  struct Outgoing {
    bool is_header = false;
    Header header;
    const std::byte* data = nullptr;
    size_t bytes = 0;
    const size_t* ready = nullptr;
    size_t begin = 0;  // where the item begins in the data that `ready` counts
    bool may_be_direct = false;
    size_t after = 0;  // for a reply: the number of items that must arrive from the peer before it is sent
    size_t done = 0;
    size_t described = 0;  // bytes of the descriptor that are written
    Descriptor descriptor;

    size_t ready_bytes() const { return ready == nullptr ? bytes : std::min(bytes, *ready - std::min(*ready, begin)); }
  };

  enum class Kind { kHeader, kCopy, kTerm };
  struct Incoming {
    Kind kind = Kind::kCopy;
    std::byte* data = nullptr;
    size_t bytes = 0;
    size_t* arrived = nullptr;
    bool may_be_direct = false;
    size_t done = 0;
    size_t described = 0;  // bytes of the descriptor that are read
    Descriptor descriptor;
    const std::byte* source = nullptr;  // of a direct item: the peer's memory
    Header header;                      // of a header: the one that arrived
    Header expected;

    bool is_described() const { return !may_be_direct || described == sizeof(Descriptor); }
    void advance(size_t count) {
      done += count;
      if (arrived != nullptr) *arrived += count;
    }
  };

  struct Peer {
    Channel* channel = nullptr;
    std::vector<Outgoing> outgoing;
    size_t next_outgoing = 0;
    std::vector<Incoming> incoming;
    size_t next_incoming = 0;

    bool has_incoming() const { return next_incoming < incoming.size(); }
    bool has_outgoing() const { return next_outgoing < outgoing.size(); }
  };

  struct ActiveReduction : Reduction {
    size_t done = 0;         // elements
    size_t granularity = 1;  // pieces are multiples of so many elements, so that all terms stay aligned
  };

  // peers_ contains each rank twice: first the channels of lane_, then the channels of Lane::kReply.
  uint32_t rank_of(uint32_t number) const { return number < communicator_.size() ? number : number - communicator_.size(); }
  Lane lane_of(uint32_t number) const { return number < communicator_.size() ? lane_ : Lane::kReply; }
  uint32_t reply_number(uint32_t rank) const { return communicator_.size() + rank; }
  // The peer with its channel.
  Peer& open(uint32_t number);
  void add_header(uint32_t number, const Header& own, size_t after);
  void add_expected_header(uint32_t number, const Header& expected);
  bool may_be_sent(uint32_t number, const Outgoing& item) const {
    return item.after == 0 || peers_[rank_of(number)].next_incoming >= item.after;
  }
  void add_outgoing(uint32_t number, const std::byte* data, size_t bytes, const size_t* ready, size_t begin);
  void add_incoming(uint32_t number, Kind kind, std::byte* data, size_t bytes, size_t* arrived);
  // Carries out whatever is possible now. `moved` becomes true, and so does has_moved_, if that was anything.
  Status step(bool* moved);
  void step_outgoing(uint32_t number, Peer& peer, bool* moved);
  Status step_incoming(uint32_t number, Peer& peer, bool* moved);
  void step_reductions(bool* moved);
  // The number of elements of the reduction that can be combined now. Sets sources_ to them.
  size_t available_elements(const ActiveReduction& reduction);
  void consume_terms(const ActiveReduction& reduction, size_t elements);
  void describe(Outgoing& item) const;
  // True once the descriptor of the item was read and, if it is direct, its source is known.
  Result<bool> read_descriptor(uint32_t number, Peer& peer, Incoming& item, bool* moved);
  bool is_over(uint32_t number) const;
  bool is_over() const;
  bool is_acknowledged(uint32_t number) const;
  // Whether the peer must still send or read something. False if everything from it has arrived and waits only for other ranks.
  bool needs(uint32_t number);

  static constexpr auto kProcessCheck =
      std::chrono::milliseconds(500);  // the longest sleep; then the processes of peers are checked

  // Nothing moved: returns the reason if there is one, else sleeps until something may move.
  Status wait(Deadline timeout);
  Status find_problem(bool checks_processes);
  Status timed_out();
  // The ranks that must still send or read something, with the state of each rank.
  std::string lacking_ranks();
  Status sleep(Deadline until);

  Communicator& communicator_;
  const Lane lane_;
  std::vector<Peer> peers_;  // see rank_of(); a peer without items has no channel
  std::vector<ActiveReduction> reductions_;
  size_t next_reduction_ = 0;
  Op op_ = Op::kCount;
  bool has_moved_ = false;
  bool has_waited_ = false;           // true after it has waited for half a second
  std::vector<const void*> sources_;  // of the current reduction
  uint32_t lacking_ = 0;              // the rank whose data the current reduction waits for
  Deadline next_process_check_;
};

}  // namespace softnpu::hccl
