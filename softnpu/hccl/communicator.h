// One rank of a group: its connections to the other ranks, and whether they still work.
//
// Tasks hold a communicator by a shared pointer, so HcclCommDestroy never waits: it removes the handle and tells the other ranks.
// Tasks that still run then fail, and the connections close with the last task.
//
// The first failure is final. Every later task fails with the same message. The other ranks get the message as the reason of
// their own failure, at the latest when they wait for this rank.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hccl/rendezvous.h"
#include "hccl/settings.h"
#include "hccl/topology.h"
#include "hccl/transport/foreign_memory.h"
#include "hccl/transport/segment.h"
#include "runtime/base/other_process.h"

namespace softnpu::hccl {

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  // The members of a communicator, and where they connect to each other.
  struct Group {
    RendezvousPoint point;
    uint32_t size = 0;
    uint32_t rank = 0;
    int32_t device = 0;    // this process's number of the device
    Digest members{};      // of a sub-communicator, see RankInfo
    bool retries = false;  // the server of the rendezvous may start later than this rank
    std::vector<std::string> allowed_hosts;
  };

  // Blocks until all ranks are connected. The result has a handle.
  static Result<std::shared_ptr<Communicator>> create(const Group& group, const CommunicatorSettings& settings);

  // The live communicator with this handle, or null.
  static std::shared_ptr<Communicator> find(HcclComm handle);
  // Leaves every communicator when the process exits.
  static void leave_all();

  explicit Communicator(const Group& group, const CommunicatorSettings& settings);
  ~Communicator();

  HcclComm handle() const { return handle_; }
  uint32_t rank() const { return group_.rank; }
  uint32_t size() const { return group_.size; }
  int32_t device() const { return group_.device; }
  const std::string& name() const { return settings_.name; }
  const CommunicatorSettings& settings() const { return settings_; }
  void set_deterministic(int32_t value) { deterministic_.store(value, std::memory_order_relaxed); }
  int32_t deterministic() const { return deterministic_.load(std::memory_order_relaxed); }
  const RankInfo& info(uint32_t rank) const { return peers_[rank].info; }
  const Topology& topology() const { return topology_; }

  // Removes the handle and tells the other ranks. Does not wait.
  void destroy();

  // The group of a sub-communicator. `members` are ranks of this communicator; the caller is member number `rank`.
  Group sub_group(const std::vector<uint32_t>& members, uint64_t id, uint32_t rank);

  // Exists while an operation runs. A rank that leaves during an operation counts as failed, because other ranks may wait for its
  // data.
  class Running {
   public:
    explicit Running(Communicator& communicator) : communicator_(communicator) { ++communicator_.running_; }
    ~Running() { --communicator_.running_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Communicator& communicator_;
  };

  // Stores the first failure and tells the other ranks.
  void fail(const Status& status);
  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  // The first failure.
  Status failure() const;
  // The code of the first failure, or HCCL_E_REMOTE if another rank failed.
  HcclResult async_error();

  // --- for exchange.h ---

  Channel& channel(uint32_t peer, Lane lane) { return *peers_[peer].channels[static_cast<size_t>(lane)]; }
  ForeignMemory& memory(uint32_t peer) { return *peers_[peer].memory; }
  // Direct items written to the peer since the begin.
  uint64_t& direct_count(uint32_t peer, Lane lane) { return peers_[peer].direct_counts[static_cast<size_t>(lane)]; }
  // Ok while the peer runs; else HCCL_E_REMOTE with the reason that the peer gave. Does not look at the peer's process.
  Status peer_status(uint32_t peer);
  // Whether peer_status() is a failure. If not, the peer left, and over TCP its last bytes may still arrive.
  bool peer_has_failed(uint32_t peer);
  // HCCL_E_REMOTE if another rank failed. A rank that left does not count: it may have sent everything before.
  Status check_peers();
  // False once the peer's process on this host has ended. Reads a file of /proc.
  bool peer_is_alive(uint32_t peer) const;
  // Whether the peer's process on this host was stopped by a signal. Reads a file of /proc.
  bool peer_is_stopped(uint32_t peer) const;
  // Stores a text that names the ranks that an exchange waits for, after half a second of waiting. An empty text removes it.
  void set_waiting(const void* exchange, std::string words);
  // The texts of all waiting exchanges; empty if none waits.
  std::string waiting() const;
  int control_file(uint32_t peer) const { return peers_[peer].control.file(); }

  // The memory that this rank shares with other ranks of its host, or null.
  Segment* segment() { return segment_.get(); }
  uint32_t segment_rank() const { return peers_[rank()].segment_rank; }
  bool shares_memory(uint32_t peer) const { return peers_[peer].segment_rank != kNone; }

  // Sequence numbers, and the locks under which operations get their number and run. Order of locks: collectives, then senders by
  // rank, then receivers by rank.
  std::mutex& collective_lock() { return collective_lock_; }
  uint64_t next_collective() { return ++collectives_; }
  std::mutex& send_lock(uint32_t peer) { return peers_[peer].send_lock; }
  uint64_t next_send(uint32_t peer) { return ++peers_[peer].sends; }
  std::mutex& receive_lock(uint32_t peer) { return peers_[peer].receive_lock; }
  uint64_t next_receive(uint32_t peer) { return ++peers_[peer].receives; }

  // Host memory for one collective, under collective_lock(). A later call invalidates it.
  std::byte* scratch(size_t bytes);
  // Frees scratch memory that is too large to be kept.
  void trim_scratch();

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Peer {
    RankInfo info;
    ProcessId process;
    uint32_t segment_rank = kNone;
    std::unique_ptr<Channel> channels[kLanes];
    uint64_t direct_counts[kLanes] = {};
    std::unique_ptr<ForeignMemory> memory;
    Socket control;  // without shared memory: carries at most one message, with the final state of the peer
    std::mutex control_lock;
    Status status;  // guarded by control_lock, as is has_failed; both are for peers without shared memory
    bool has_failed = false;
    std::mutex send_lock;
    std::mutex receive_lock;
    uint64_t sends = 0;     // guarded by send_lock
    uint64_t receives = 0;  // guarded by receive_lock
  };

  // communicator_setup.cpp
  Status connect();
  Status share_memory(Rendezvous& rendezvous);
  Status open_connections(Listener::Session& session, Deadline deadline);
  Status connect_to_peer(uint32_t number, Deadline deadline);
  Status accept_peer(Listener::Session& session, Deadline deadline);
  Status check_connections() const;
  void put_connection(uint32_t number, uint32_t lane, Socket socket);
  void open_shared_channels(bool is_direct);

  void leave(RankState state, const std::string& reason);
  // Leaves because of a call of the client. `action` is for the message, such as "destroyed its communicator".
  void leave_by_choice(const std::string& action);

  const Group group_;
  const int pid_;  // a child of fork() does not leave the communicator of its parent
  CommunicatorSettings settings_;
  std::atomic<int32_t> deterministic_;
  HcclComm handle_ = nullptr;
  std::vector<Peer> peers_;  // by rank; the own entry has no channels
  Topology topology_;
  std::unique_ptr<Segment> segment_;

  std::mutex collective_lock_;
  uint64_t collectives_ = 0;  // guarded by collective_lock_, as is scratch_
  std::vector<std::byte> scratch_;

  std::atomic<int> running_{0};
  std::atomic<bool> has_failed_{false};
  mutable std::mutex failure_lock_;
  Status failure_;  // guarded by failure_lock_, as are has_left_ and sub_groups_
  bool has_left_ = false;
  mutable std::mutex waiting_lock_;
  std::map<const void*, std::string> waiting_;                    // guarded by waiting_lock_
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> sub_groups_;  // uses of each id and first member
};

}  // namespace softnpu::hccl
