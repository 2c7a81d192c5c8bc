// The data movement of one collective: a list of items to and from each other rank, carried out all at once.
//
//   Exchange exchange(communicator, Lane::kCollective);
//   exchange.greet(peer, header_for_peer, header_expected);
//   exchange.send(peer, data, bytes);
//   exchange.receive(peer, place, bytes);
//   SOFTNPU_RETURN_IF_ERROR(exchange.run());
//
// Items between two ranks are carried out in the order in which they were added, and both ranks add the same ones. Items of
// different ranks do not wait for each other. run() spins briefly while nothing moves and then sleeps; it ends early when the
// communicator or a rank that it waits for failed, left or died, or when nothing moved for the execution timeout.
//
// Between ranks that share memory, an item of at least kDirectBytes is direct where the device memory has a file: the writer
// sends its place, the reader takes the bytes from there, and run() returns after the reader is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hccl/communicator.h"
#include "hccl/header.h"
#include "hccl/reduce.h"

namespace softnpu::hccl {

class Exchange {
 public:
  static constexpr size_t kDirectBytes = size_t{32} << 10;

  Exchange(Communicator& communicator, Lane lane);

  // The header that the peer gets, and the one that it must send.
  void greet(uint32_t peer, const Header& own, const Header& expected);
  // For one direction only, with messages.
  void greet_receiver(uint32_t peer, const Header& own);
  void greet_sender(uint32_t peer, const Header& expected);

  // `ready`, if given, says how many bytes may be sent yet; it grows while run() is at work.
  void send(uint32_t peer, const std::byte* data, size_t bytes, const size_t* ready = nullptr);
  void receive(uint32_t peer, std::byte* data, size_t bytes);

  // Combines `bytes` of every rank, in the order of ranks, at `destination`; the own part is at `own`. At most once in an
  // exchange; afterwards every other rank's next item here is its part.
  void reduce(ReduceFunction function, size_t element_bytes, std::byte* destination, const std::byte* own, size_t bytes);
  // How many bytes are combined.
  const size_t* reduced() const { return &reduction_.done; }

  Status run();

 private:
  // What a direct item consists of.
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
    bool may_be_direct = false;
    size_t done = 0;
    size_t described = 0;  // bytes of the descriptor that are written
    Descriptor descriptor;
  };

  enum class Kind { kHeader, kCopy, kReduce };
  struct Incoming {
    Kind kind = Kind::kCopy;
    std::byte* data = nullptr;
    size_t bytes = 0;
    bool may_be_direct = false;
    size_t done = 0;
    size_t described = 0;
    Descriptor descriptor;
    const std::byte* source = nullptr;  // of a direct item
    Header header;                      // of a header: what arrived, and
    Header expected;
  };

  struct Peer {
    Channel* channel = nullptr;
    std::vector<Outgoing> outgoing;
    size_t next_outgoing = 0;
    std::vector<Incoming> incoming;
    size_t next_incoming = 0;
  };

  struct Reduction {
    ReduceFunction function = nullptr;
    size_t element_bytes = 1;
    std::byte* destination = nullptr;
    const std::byte* own = nullptr;
    size_t bytes = 0;
    size_t done = 0;
  };

  // One round over all items; `moved` becomes true if anything happened, and so does has_moved_.
  Status step(bool* moved);
  void step_outgoing(uint32_t number, Peer& peer, bool* moved);
  Status step_incoming(uint32_t number, Peer& peer, bool* moved);
  Status step_reduction(bool* moved);
  void describe(Outgoing& item) const;
  // True once the descriptor of the item was read and, if it is direct, its source is known.
  Result<bool> read_descriptor(uint32_t number, Peer& peer, Incoming& item, bool* moved);
  bool is_over(uint32_t number) const;
  bool is_over() const;
  bool is_acknowledged(uint32_t number) const;
  // Whether something must still come from the peer, or be taken by it; false also where all that it sends has arrived already,
  // but the parts of other ranks have not.
  bool needs(uint32_t number);

  // Nothing moved: looks why, and sleeps until something may.
  Status wait(Deadline timeout);
  Status find_problem(bool asks_system);
  Status timed_out() const;
  Status sleep(Deadline until);

  Communicator& communicator_;
  const Lane lane_;
  std::vector<Peer> peers_;  // by rank; ranks without items have no channel
  Reduction reduction_;
  Op op_ = Op::kCount;
  bool has_moved_ = false;
  std::vector<const void*> sources_;
  Deadline next_look_;  // at processes of peers
};

}  // namespace softnpu::hccl
