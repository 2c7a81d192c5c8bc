#include "hccl/random_call.h"

namespace softnpu::test {

std::string CallCase::to_text() const {
  constexpr const char* kNames[] = {"AllReduce",  "Broadcast", "ReduceScatter", "ReduceScatterV", "AllGather",
                                    "AllGatherV", "Reduce",    "Scatter",       "AlltoAll",       "AlltoAllV",
                                    "AlltoAllVC", "SendRecv",  "Batch",         "Barrier"};
  return std::string(kNames[size_t(call)]) + " " + type.name + " op " + std::to_string(op) + " count " + std::to_string(count) +
         " root " + std::to_string(root) + (in_place ? " in place" : "") + " seed " + std::to_string(seed);
}

void* RunningCall::device(const Bytes& contents) {
  if (contents.empty()) return nullptr;
  buffers_.push_back(make_device_buffer(contents.size()));
  // On the stream, so that the copy does not wait for earlier calls.
  EXPECT_ACL(
      aclrtMemcpyAsync(buffers_.back(), contents.size(), contents.data(), contents.size(), ACL_MEMCPY_HOST_TO_DEVICE, stream_));
  return buffers_.back();
}

void* RunningCall::blank(size_t bytes) { return device(Bytes(bytes, 0xEE)); }

uint64_t RunningCall::varied(uint32_t from, uint32_t to) const {
  return case_.count == 0 ? 0 : case_.count / (1 + (from * 7 + to * 3 + case_.seed) % 4) + (from + 2 * to) % 3;
}

RunningCall::RunningCall(const CallCase& call_case, HcclComm comm, aclrtStream stream, uint32_t rank, uint32_t size)
    : case_(call_case), stream_(stream) {
  const auto [call, type, op, count, root, in_place, seed] = call_case;
  const size_t width = type.bytes, bytes = count * width;
  const auto inputs = [&](size_t elements) {
    std::vector<Bytes> all;
    for (uint32_t number = 0; number < size; ++number) all.push_back(data_of(type, elements, number, seed));
    return all;
  };
  const auto in_order = [](const std::vector<Bytes>& all) {
    std::vector<Bytes> ordered;
    for (const uint32_t number : world_order()) ordered.push_back(all[number]);
    return ordered;
  };
  switch (call) {
    case Call::kAllReduce: {
      const std::vector<Bytes> all = inputs(count);
      void* const send = device(all[rank]);
      result_ = in_place ? send : blank(bytes);
      expected_ = reduced(type.type, op, in_order(all));
      EXPECT_HCCL(HcclAllReduce(send, result_, count, type.type, op, comm, stream));
      return;
    }
    case Call::kBroadcast: {
      const std::vector<Bytes> all = inputs(count);
      result_ = device(all[rank]);
      expected_ = all[root];
      EXPECT_HCCL(HcclBroadcast(result_, count, type.type, root, comm, stream));
      return;
    }
    case Call::kReduceScatter: {
      const std::vector<Bytes> all = inputs(count * size);
      void* const send = device(all[rank]);
      result_ = in_place && bytes > 0 ? at(send, ptrdiff_t(rank * bytes)) : blank(bytes);
      expected_ = reduced(type.type, op, parts(in_order(all), rank * bytes, bytes));
      EXPECT_HCCL(HcclReduceScatter(send, result_, count, type.type, op, comm, stream));
      return;
    }
    case Call::kReduceScatterV: {
      std::vector<uint64_t> counts, offsets;
      uint64_t total = 0;
      for (uint32_t to = 0; to < size; ++to) {
        counts.push_back(varied(0, to));
        offsets.push_back(total + 1);
        total += counts.back() + 1;
      }
      const std::vector<Bytes> all = inputs(total + 1);
      result_ = blank(counts[rank] * width);
      expected_ = reduced(type.type, op, parts(in_order(all), offsets[rank] * width, counts[rank] * width));
      EXPECT_HCCL(HcclReduceScatterV(device(all[rank]), counts.data(), offsets.data(), result_, counts[rank], type.type, op, comm,
                                     stream));
      return;
    }
    case Call::kAllGather: {
      const std::vector<Bytes> all = inputs(count);
      result_ = blank(bytes * size);
      void* send = in_place && bytes > 0 ? at(result_, ptrdiff_t(rank * bytes)) : device(all[rank]);
      if (in_place && bytes > 0) {
        EXPECT_ACL(aclrtMemcpyAsync(send, bytes, all[rank].data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
      }
      expected_ = joined(all);
      EXPECT_HCCL(HcclAllGather(send, result_, count, type.type, comm, stream));
      return;
    }
    case Call::kAllGatherV: {
      std::vector<uint64_t> counts, offsets;
      uint64_t total = 0;
      for (uint32_t from = 0; from < size; ++from) {
        counts.push_back(varied(from, 0));
        offsets.push_back(total);
        total += counts.back() + 1;
      }
      expected_ = Bytes(total * width, 0xEE);
      for (uint32_t from = 0; from < size; ++from) {
        const Bytes data = data_of(type, counts[from], from, seed);
        std::copy(data.begin(), data.end(), expected_.begin() + ptrdiff_t(offsets[from] * width));
      }
      result_ = blank(total * width);
      void* const send = device(data_of(type, counts[rank], rank, seed));
      EXPECT_HCCL(HcclAllGatherV(send, counts[rank], result_, counts.data(), offsets.data(), type.type, comm, stream));
      return;
    }
    case Call::kReduce: {
      const std::vector<Bytes> all = inputs(count);
      void* const send = device(all[rank]);
      result_ = in_place ? send : blank(bytes);
      expected_ = rank == root ? reduced(type.type, op, in_order(all)) : in_place ? all[rank] : Bytes(bytes, 0xEE);
      EXPECT_HCCL(HcclReduce(send, result_, count, type.type, op, root, comm, stream));
      return;
    }
    case Call::kScatter: {
      const Bytes all = data_of(type, count * size, root, seed);
      result_ = blank(bytes);
      expected_ = part(all, rank * bytes, bytes);
      EXPECT_HCCL(HcclScatter(rank == root ? device(all) : nullptr, result_, count, type.type, root, comm, stream));
      return;
    }
    case Call::kAllToAll: {
      const std::vector<Bytes> all = inputs(count * size);
      result_ = blank(bytes * size);
      expected_ = joined(parts(all, rank * bytes, bytes));
      EXPECT_HCCL(HcclAlltoAll(device(all[rank]), count, type.type, result_, count, type.type, comm, stream));
      return;
    }
    case Call::kAllToAllV:
    case Call::kAllToAllVC: {
      std::vector<uint64_t> matrix, send_counts, send_offsets, receive_counts, receive_offsets;
      uint64_t sent = 0, received = 0;
      for (uint32_t from = 0; from < size; ++from) {
        for (uint32_t to = 0; to < size; ++to) matrix.push_back(varied(from, to));
      }
      for (uint32_t peer = 0; peer < size; ++peer) {
        send_counts.push_back(varied(rank, peer)), send_offsets.push_back(sent), sent += send_counts.back();
        receive_counts.push_back(varied(peer, rank)), receive_offsets.push_back(received), received += receive_counts.back();
      }
      for (uint32_t from = 0; from < size; ++from) {
        uint64_t total = 0, before = 0;
        for (uint32_t to = 0; to < size; ++to) {
          if (to < rank) before += varied(from, to);
          total += varied(from, to);
        }
        const Bytes mine = part(data_of(type, total, from, seed), before * width, varied(from, rank) * width);
        expected_.insert(expected_.end(), mine.begin(), mine.end());
      }
      void* const send = device(data_of(type, sent, rank, seed));
      result_ = blank(received * width);
      if (call == Call::kAllToAllV) {
        EXPECT_HCCL(HcclAlltoAllV(send, send_counts.data(), send_offsets.data(), type.type, result_, receive_counts.data(),
                                  receive_offsets.data(), type.type, comm, stream));
      } else {
        EXPECT_HCCL(HcclAlltoAllVC(send, matrix.data(), type.type, result_, type.type, comm, stream));
      }
      return;
    }
    case Call::kSendRecv: {  // from rank root to the next one
      const uint32_t to = (root + 1) % size;
      if (size == 1) return;
      const Bytes data = data_of(type, count, root, seed);
      if (rank == root) {
        EXPECT_HCCL(HcclSend(device(data), count, type.type, to, comm, stream));
      }
      if (rank != to) return;
      result_ = blank(bytes);
      expected_ = data;
      EXPECT_HCCL(HcclRecv(result_, count, type.type, root, comm, stream));
      return;
    }
    case Call::kBatch: {  // a message from every rank to every rank, also to itself
      std::vector<HcclSendRecvItem> items;
      uint64_t received = 0;
      for (uint32_t from = 0; from < size; ++from) received += varied(from, rank);
      result_ = blank(received * width);
      received = 0;
      for (uint32_t peer = 0; peer < size; ++peer) {
        const uint64_t out = varied(rank, peer), in = varied(peer, rank);
        const Bytes data = data_of(type, in, peer * size + rank, seed);
        expected_.insert(expected_.end(), data.begin(), data.end());
        if (rank % 2 == 0)
          items.push_back({HCCL_RECV, in == 0 ? nullptr : at(result_, ptrdiff_t(received * width)), in, type.type, peer});
        items.push_back({HCCL_SEND, device(data_of(type, out, rank * size + peer, seed)), out, type.type, peer});
        if (rank % 2 == 1)
          items.push_back({HCCL_RECV, in == 0 ? nullptr : at(result_, ptrdiff_t(received * width)), in, type.type, peer});
        received += in;
      }
      EXPECT_HCCL(HcclBatchSendRecv(items.data(), uint32_t(items.size()), comm, stream));
      return;
    }
    default:
      EXPECT_HCCL(HcclBarrier(comm, stream));
  }
}

void RunningCall::check() {
  ASSERT_ACL(aclrtSynchronizeStream(stream_)) << case_.to_text();
  if (expected_.empty()) return;
  const Bytes got = download(result_, expected_.size());
  if (got == expected_) return;
  const auto [left, right] = std::mismatch(got.begin(), got.end(), expected_.begin());
  ADD_FAILURE() << case_.to_text() << ": byte " << left - got.begin() << " of " << got.size() << " is " << int(*left) << ", not "
                << int(*right);
}

}  // namespace softnpu::test
