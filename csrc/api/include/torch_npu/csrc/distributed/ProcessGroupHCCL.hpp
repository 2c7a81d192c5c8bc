// Process groups of the backend "hccl": collectives of npu tensors.
//
//   auto options = c10d_npu::ProcessGroupHCCL::Options::create();
//   auto group = c10::make_intrusive<c10d_npu::ProcessGroupHCCL>(store, rank, size, options);
//   group->allreduce(tensors)->wait();
//
// Each rank is a process with one device; the tensors decide which. The ranks connect at the first collective, or in
// eagerConnectSingleDevice(). An operation is launched and runs asynchronously, on a stream of the group; with asyncOp=false it
// runs on the current stream. wait() of its Work makes the current stream wait, not the host. Bad arguments throw before anything
// is sent. docs/distributed.md lists data types, options and errors. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <variant>
#include <vector>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace torch_npu::distributed {
class Group;
}

namespace c10d_npu {

using HcclConfigValue = std::variant<int64_t, std::string>;
using HcclConfigMap = std::map<std::string, HcclConfigValue>;

class TORCH_NPU_API ProcessGroupHCCL : public c10d::Backend {
 public:
  struct TORCH_NPU_API Options : c10d::Backend::Options {
    explicit Options(bool is_high_priority_stream = false);

    static c10::intrusive_ptr<Options> create(bool is_high_priority_stream = false) {
      return c10::make_intrusive<Options>(is_high_priority_stream);
    }

    bool is_high_priority_stream;
    // Settings of the communicator, such as hccl_buffer_size; see docs/distributed.md.
    HcclConfigMap hccl_config;
  };

  ProcessGroupHCCL(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                   c10::intrusive_ptr<Options> options = Options::create());
  ~ProcessGroupHCCL() override;

  const std::string getBackendName() const override { return "hccl"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override;
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setGroupUid(const std::string& pg_uid) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override;
  c10d::ErrorType getError() override;

  // Connects the ranks of the group. Every rank must call it.
  void eagerConnectSingleDevice(at::Device device) override;
  // A group of some ranks of this one; null if this rank is not one of them.
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& opts) override;
  // Fails what still runs, here and on the other ranks. The group cannot be used afterwards.
  void abort() override;
  // Waits for what was launched, then leaves the group.
  void shutdown() override;
  void waitForPendingWorks() override;
  // Makes the group usable after a failure. With `rebuild_link`, the ranks connect again at the next collective. Without it,
  // throws if the group has failed. All ranks must call it.
  void reinit(bool rebuild_link);

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& opts = c10d::BroadcastOptions()) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& opts = c10d::AllreduceOptions()) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
      std::vector<at::Tensor>& tensors,
      const c10d::AllreduceCoalescedOptions& opts = c10d::AllreduceCoalescedOptions()) override;
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors,
                                        const c10d::ReduceOptions& opts = c10d::ReduceOptions()) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& opts = c10d::AllgatherOptions()) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& opts = c10d::AllgatherOptions()) override;
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<std::vector<at::Tensor>>& outputs,
                                                     std::vector<at::Tensor>& inputs,
                                                     const c10d::AllgatherOptions& opts = c10d::AllgatherOptions()) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(
      std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& opts = c10d::AllgatherOptions()) override;
  c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                                        const c10d::GatherOptions& opts = c10d::GatherOptions()) override;
  c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor>& outputs, std::vector<std::vector<at::Tensor>>& inputs,
                                         const c10d::ScatterOptions& opts = c10d::ScatterOptions()) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs, std::vector<std::vector<at::Tensor>>& inputs,
                                                const c10d::ReduceScatterOptions& opts = c10d::ReduceScatterOptions()) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts = c10d::ReduceScatterOptions()) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(
      std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::ReduceScatterOptions& opts = c10d::ReduceScatterOptions()) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                               std::vector<int64_t>& input_splits,
                                               const c10d::AllToAllOptions& opts = c10d::AllToAllOptions()) override;
  c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
                                          const c10d::AllToAllOptions& opts = c10d::AllToAllOptions()) override;
  // wait() of its Work returns when all ranks have come.
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& opts = c10d::BarrierOptions()) override;
  // Waits on the host, through the store. Throws on every rank if one does not come; rank 0 names those that did not.
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks = false) override;

  // Parts of different sizes, along dimension 0.
  c10::intrusive_ptr<c10d::Work> all_gather_uneven(at::Tensor& output, at::Tensor& input, const std::vector<int64_t>& output_splits,
                                                   const c10d::AllgatherOptions& opts = c10d::AllgatherOptions());
  c10::intrusive_ptr<c10d::Work> reduce_scatter_uneven(
      at::Tensor& output, at::Tensor& input, const std::vector<int64_t>& input_splits,
      const c10d::ReduceScatterOptions& opts = c10d::ReduceScatterOptions());

  // Messages. Tags are ignored: messages of a pair of ranks arrive in the order in which they are sent.
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int dst_rank, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int src_rank, int tag) override;
  // Throws: a receiver names the sender.
  c10::intrusive_ptr<c10d::Work> recvAnysource(std::vector<at::Tensor>& tensors, int tag) override;
  // Messages and collectives in between become one operation. Calls of this group on other threads must not come in between.
  void startCoalescing() override;
  // Forgets what was coalesced and not launched. For a program that fails between startCoalescing() and endCoalescing().
  void dropCoalescing();
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;
  // `op_type` has "isend" or "irecv" for each tensor.
  c10::intrusive_ptr<c10d::Work> batch_isend_irecv(std::vector<std::string>& op_type, std::vector<at::Tensor>& tensors,
                                                   std::vector<int64_t> remote_rank_list);

  // The name of the communicator in libhccl; connects the ranks if they are not.
  std::string getHcclCommName(int64_t device = -1);
  // How often split() was called.
  uint64_t getCommSplitCounter() const { return split_count_; }

 private:
  ProcessGroupHCCL(std::shared_ptr<torch_npu::distributed::Group> group, int rank, int size,
                   c10::intrusive_ptr<Options> options);

  std::shared_ptr<torch_npu::distributed::Group> group_;
  c10::intrusive_ptr<Options> options_;
  uint64_t split_count_ = 0;
};

}  // namespace c10d_npu
