// A rank of a group: its connections to the other ranks, and what became of it.
//
// Tasks hold a communicator by a shared pointer, so that HcclCommDestroy never waits: it takes the handle away and tells the
// other ranks; what still runs fails, and the connections go with the last task.
//
// The first failure is the communicator's fate. Every later task fails with the same sentence, and the other ranks get it as the
// reason of their own failure as soon as they wait for this one.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hccl/hccl.h"
#include "hccl/rendezvous.h"
#include "hccl/transport/foreign_memory.h"
#include "hccl/transport/segment.h"
#include "runtime/base/other_process.h"

namespace softnpu::hccl {

// What HcclCommConfig and the environment say.
struct CommunicatorSettings {
  std::string name;                      // empty: one is made up
  std::chrono::seconds exec_timeout{0};  // 0: no limit
  uint32_t buffer_megabytes = 0;
  int32_t deterministic = 0;
};

// Defaults of the environment, and over them the fields that `config` (may be null) has and sets. HCCL_E_PARA for a structure
// that HcclCommConfigInit did not prepare.
Result<CommunicatorSettings> read_settings(const HcclCommConfig* config);

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  // Who is in the group. The rank meets the others at `point`, with `is_patient` even if nobody is there yet.
  struct Group {
    MeetingPoint point;
    uint32_t size = 0;
    uint32_t rank = 0;
    int32_t device = 0;  // as this process counts
    Digest members{};
    bool is_patient = false;
    std::vector<std::string> allowed_hosts;
  };

  // Blocks until all ranks are connected. The result has a handle.
  static Result<std::shared_ptr<Communicator>> create(const Group& group, const CommunicatorSettings& settings);

  static std::shared_ptr<Communicator> find(HcclComm handle);
  // Leaves every communicator of the process; for its exit.
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

  // The handle is gone; see above.
  void destroy();

  // The group of a sub-communicator. `members` are ranks of this one; this rank is number `rank` of them.
  Group sub_group(const std::vector<uint32_t>& members, uint64_t id, uint32_t rank);

  // While an operation runs. A rank that leaves meanwhile has failed: the others may wait for it, or for what it did not do.
  class Running {
   public:
    explicit Running(Communicator& communicator) : communicator_(communicator) { ++communicator_.running_; }
    ~Running() { --communicator_.running_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Communicator& communicator_;
  };

  // Notes the first failure, and tells the other ranks.
  void fail(const Status& status);
  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  // What fail() was given.
  Status failure() const;
  // The code of the failure, or HCCL_E_REMOTE if another rank failed.
  HcclResult async_error();

  // For exchange.h.

  Channel& channel(uint32_t peer, Lane lane) { return *peers_[peer].channels[static_cast<size_t>(lane)]; }
  ForeignMemory& memory(uint32_t peer) { return *peers_[peer].memory; }
  // Direct items written to the peer since the beginning.
  uint64_t& direct_count(uint32_t peer, Lane lane) { return peers_[peer].direct_counts[static_cast<size_t>(lane)]; }
  // Why nothing more is to be expected from a peer, or ok. Looks at what the peer says, not at its process.
  Status peer_fate(uint32_t peer);
  // Whether what peer_fate() said is a failure; else the peer left, and over TCP its last bytes may still be on their way.
  bool peer_has_failed(uint32_t peer);
  // HCCL_E_REMOTE if another rank failed; one that left may have sent what is waited for.
  Status check_peers();
  // False once a process of this host has ended. Reads a file of /proc.
  bool peer_is_alive(uint32_t peer) const;
  int control_file(uint32_t peer) const { return peers_[peer].control.file(); }

  // Shared memory with other ranks of the host, or null.
  Segment* segment() { return segment_.get(); }
  uint32_t segment_rank() const { return peers_[rank()].segment_rank; }
  bool shares_memory(uint32_t peer) const { return peers_[peer].segment_rank != kNone; }

  // Numbers of collectives and of messages, and the locks under which they are counted and run. Order of locks: collectives,
  // then senders by rank, then receivers by rank.
  std::mutex& collective_lock() { return collective_lock_; }
  uint64_t next_collective() { return ++collectives_; }
  std::mutex& send_lock(uint32_t peer) { return peers_[peer].send_lock; }
  uint64_t next_send(uint32_t peer) { return ++peers_[peer].sends; }
  std::mutex& receive_lock(uint32_t peer) { return peers_[peer].receive_lock; }
  uint64_t next_receive(uint32_t peer) { return ++peers_[peer].receives; }

  // For a collective in which source and destination are one: the bytes of this rank are kept here. Under collective_lock().
  std::byte* scratch(size_t bytes);

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Peer {
    RankInfo info;
    ProcessId process;
    uint32_t segment_rank = kNone;
    std::unique_ptr<Channel> channels[kLanes];
    uint64_t direct_counts[kLanes] = {};
    std::unique_ptr<ForeignMemory> memory;
    Socket control;  // carries at most one message, about the fate of the peer
    std::mutex control_lock;
    Status fate;  // guarded by control_lock, as is the next; of a peer without shared memory
    bool has_failed = false;
    std::mutex send_lock;
    std::mutex receive_lock;
    uint64_t sends = 0;     // guarded by send_lock
    uint64_t receives = 0;  // guarded by receive_lock
  };
  struct Mesh;

  Status connect();
  Status share_memory(Rendezvous& meeting);
  Status open_connections(Mesh& mesh, Deadline deadline);
  void leave(Fate fate, const std::string& reason);
  // Because of something that the client did, in words such as "destroyed its communicator".
  void leave_by_choice(const std::string& how);

  const Group group_;
  const int pid_;  // a child of fork() leaves nothing
  CommunicatorSettings settings_;
  std::atomic<int32_t> deterministic_;
  HcclComm handle_ = nullptr;
  std::vector<Peer> peers_;  // by rank; the own one has no channels
  std::unique_ptr<Segment> segment_;

  std::mutex collective_lock_;
  uint64_t collectives_ = 0;  // guarded by collective_lock_, as is:
  std::vector<std::byte> scratch_;

  std::atomic<int> running_{0};
  std::atomic<bool> has_failed_{false};
  mutable std::mutex failure_lock_;
  Status failure_;  // guarded by failure_lock_, as are:
  bool has_left_ = false;
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> sub_groups_;  // how often (id, first member) was asked for
};

}  // namespace softnpu::hccl
