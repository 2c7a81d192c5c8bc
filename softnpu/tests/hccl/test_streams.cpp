// Collectives as tasks of streams: order with copies, host callbacks, captures, several communicators and streams at once.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <thread>

#include "hccl/model.h"
#include "hccl/world.h"
#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

constexpr size_t kCount = 50'000;

std::vector<float> download_floats(const void* device, size_t count) {
  std::vector<float> values(count);
  EXPECT_ACL(aclrtMemcpy(values.data(), count * 4, device, count * 4, ACL_MEMCPY_DEVICE_TO_HOST));
  return values;
}

DeviceBuffer device_floats(size_t count, float value) {
  const std::vector<float> values(count, value);
  DeviceBuffer buffer = make_device_buffer(count * 4);
  EXPECT_ACL(aclrtMemcpy(buffer, count * 4, values.data(), count * 4, ACL_MEMCPY_HOST_TO_DEVICE));
  return buffer;
}

class ChildStreams : public RankTest {
 protected:
  HcclResult add(void* buffer, HcclComm comm, aclrtStream stream, size_t count = kCount) {
    return HcclAllReduce(buffer, buffer, count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream);
  }
  float total() const { return float(size() * (size() + 1)) / 2; }  // of rank + 1
};

TEST_F(ChildStreams, CollectivesAreOrderedWithCopies) {
  const std::vector<float> mine(kCount, float(rank() + 1));
  PinnedBuffer source = make_pinned_buffer(kCount * 4), result = make_pinned_buffer(kCount * 4);
  std::memcpy(source, mine.data(), kCount * 4);
  DeviceBuffer buffer = make_device_buffer(kCount * 4);
  Gate gate(stream());
  EXPECT_ACL(aclrtMemcpyAsync(buffer, kCount * 4, source, kCount * 4, ACL_MEMCPY_HOST_TO_DEVICE, stream()));
  EXPECT_HCCL(add(buffer, comm(), stream()));
  EXPECT_ACL(aclrtMemcpyAsync(result, kCount * 4, buffer, kCount * 4, ACL_MEMCPY_DEVICE_TO_HOST, stream()));
  aclrtStreamStatus status{};
  EXPECT_ACL(aclrtStreamQuery(stream(), &status));
  EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY);  // the calls have returned, but no task has run
  gate.open();
  ASSERT_EQ(synchronize(stream()), ACL_SUCCESS) << last_message();
  EXPECT_EQ(static_cast<float*>(result.get())[kCount - 1], total());
}

TEST_F(ChildStreams, ABarrierHoldsUntilTheLastRankComes) {
  if (rank() == 0) {
    Gate gate(stream());
    EXPECT_HCCL(HcclBarrier(comm(), stream()));
    std::this_thread::sleep_for(100ms);
    give_sign("came");
    gate.open();
    ASSERT_EQ(synchronize(stream()), ACL_SUCCESS);
    return;
  }
  EXPECT_HCCL(HcclBarrier(comm(), stream()));
  EXPECT_ACL(aclrtSynchronizeStream(stream()));
  EXPECT_TRUE(wait_for_sign("came", 0ms));
}

// Rank 0 sends to rank 2 after rank 1 has received its message. The batch of rank 1 also waits for rank 2.
TEST_F(ChildStreams, AMessageIsOverBeforeTheRestOfABatch) {
  for (const size_t count : {size_t{0}, size_t{7}, kCount}) {
    DeviceBuffer mine = device_floats(kCount, float(rank() + 1)), other = device_floats(2 * kCount, 0.0F);
    auto* const second = static_cast<float*>(other.get()) + kCount;
    if (rank() == 0) {
      EXPECT_HCCL(HcclSend(mine, count, HCCL_DATA_TYPE_FP32, 1, comm(), stream()));
      EXPECT_HCCL(HcclSend(mine, count, HCCL_DATA_TYPE_FP32, 2, comm(), stream()));
    } else if (rank() == 2) {
      EXPECT_HCCL(HcclRecv(other, count, HCCL_DATA_TYPE_FP32, 0, comm(), stream()));
      EXPECT_HCCL(HcclSend(mine, count, HCCL_DATA_TYPE_FP32, 1, comm(), stream()));
    } else {
      HcclSendRecvItem items[] = {{HCCL_RECV, other, count, HCCL_DATA_TYPE_FP32, 0},
                                  {HCCL_RECV, second, count, HCCL_DATA_TYPE_FP32, 2}};
      EXPECT_HCCL(HcclBatchSendRecv(items, 2, comm(), stream()));
    }
    ASSERT_EQ(synchronize(stream()), ACL_SUCCESS) << last_message();
    if (rank() != 1 || count == 0) continue;
    EXPECT_EQ(download_floats(other, count), std::vector<float>(count, 1.0F));
    EXPECT_EQ(download_floats(second, count), std::vector<float>(count, 3.0F));
  }
}

TEST_F(ChildStreams, TheDefaultStreamIsOne) {
  DeviceBuffer buffer = device_floats(kCount, float(rank() + 1));
  EXPECT_HCCL(add(buffer, comm(), nullptr));
  ASSERT_EQ(synchronize(nullptr), ACL_SUCCESS);
  EXPECT_EQ(download_floats(buffer, kCount), std::vector<float>(kCount, total()));
}

TEST_F(ChildStreams, ACaptureIsReplayed) {
  DeviceBuffer buffer = device_floats(kCount, float(rank() + 1));
  aclmdlRI graph = nullptr;
  ASSERT_ACL(aclmdlRICaptureBegin(stream(), ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_HCCL(add(buffer, comm(), stream()));
  EXPECT_HCCL(add(buffer, comm(), stream(), 3));
  ASSERT_ACL(aclmdlRICaptureEnd(stream(), &graph));
  EXPECT_EQ(download_floats(buffer, 1)[0], float(rank() + 1));  // nothing ran yet
  float tail = total(), head = total() * float(size());
  for (int replay = 0; replay < 3; ++replay) {
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream()));
    ASSERT_EQ(synchronize(stream()), ACL_SUCCESS) << last_message();
    const std::vector<float> values = download_floats(buffer, kCount);
    EXPECT_EQ(values[2], head);
    EXPECT_EQ(values[kCount - 1], tail);
    head *= float(size() * size()), tail *= float(size());
  }
  EXPECT_ACL(aclmdlRIDestroy(graph));
}

TEST_F(ChildStreams, TwoCommunicatorsOnTwoStreams) {
  const HcclRootInfo info = world_root_info();
  HcclComm second = nullptr;
  ASSERT_HCCL(HcclCommInitRootInfo(size(), &info, rank(), &second));
  Stream other = make_stream();
  DeviceBuffer a = device_floats(kCount, 1), b = device_floats(kCount, 1);
  for (int round = 0; round < 20; ++round) {  // ranks launch in different orders
    if (rank() % 2 == 0) {
      EXPECT_HCCL(add(a, comm(), stream()));
      EXPECT_HCCL(add(b, second, other));
    } else {
      EXPECT_HCCL(add(b, second, other));
      EXPECT_HCCL(add(a, comm(), stream()));
    }
  }
  EXPECT_EQ(synchronize(stream()), ACL_SUCCESS) << last_message();
  EXPECT_EQ(synchronize(other), ACL_SUCCESS) << last_message();
  const float expected = std::pow(float(size()), 20.0F);
  EXPECT_EQ(download_floats(a, kCount)[7], expected);
  EXPECT_EQ(download_floats(b, kCount)[kCount - 1], expected);
  EXPECT_HCCL(HcclCommDestroy(second));
}

TEST_F(ChildStreams, MessagesOfTwoStreamsDoNotWaitForEachOther) {
  Stream other = make_stream();
  DeviceBuffer out = device_floats(kCount, float(rank())), in = device_floats(kCount, -1);
  const uint32_t peer = 1 - rank();
  EXPECT_HCCL(HcclRecv(in, kCount, HCCL_DATA_TYPE_FP32, peer, comm(), stream()));
  EXPECT_HCCL(HcclSend(out, kCount, HCCL_DATA_TYPE_FP32, peer, comm(), other));
  EXPECT_EQ(synchronize(stream()), ACL_SUCCESS) << last_message();
  EXPECT_EQ(synchronize(other), ACL_SUCCESS) << last_message();
  EXPECT_EQ(download_floats(in, kCount), std::vector<float>(kCount, float(peer)));
}

TEST(Streams, OfTwoRanks) {
  EXPECT_WORLD_PASSES(2, "ChildStreams.CollectivesAreOrderedWithCopies:ChildStreams.ABarrier*:ChildStreams.TheDefault*");
  EXPECT_WORLD_PASSES(2, "ChildStreams.ACaptureIsReplayed:ChildStreams.Messages*");
  EXPECT_WORLD_PASSES(2, "ChildStreams.TwoCommunicatorsOnTwoStreams");
  EXPECT_WORLD_PASSES(3, "ChildStreams.AMessageIsOver*");
}
TEST(Streams, OverTcp) {
  const Environment tcp = {"SOFTNPU_HCCL_TRANSPORT=tcp"};
  EXPECT_WORLD_PASSES(2, "ChildStreams.ACaptureIsReplayed:ChildStreams.Messages*", {tcp});
  EXPECT_WORLD_PASSES(2, "ChildStreams.TwoCommunicatorsOnTwoStreams", {tcp});
  EXPECT_WORLD_PASSES(3, "ChildStreams.AMessageIsOver*", {tcp});
}

// --- sub-communicators, rank tables, one process ---

class ChildGroups : public RankTest {};

TEST_F(ChildGroups, HalvesOfFour) {
  std::vector<uint32_t> members;  // even ranks and odd ranks, the latter backwards
  for (uint32_t number = 0; number < size(); ++number) {
    if (number % 2 == rank() % 2) members.insert(rank() % 2 == 0 ? members.end() : members.begin(), number);
  }
  const auto own = uint32_t(std::find(members.begin(), members.end(), rank()) - members.begin());
  HcclComm parent = comm();
  for (int round = 0; round < 2; ++round) {  // the same id again
    HcclComm half = nullptr;
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    std::strcpy(config.hcclCommName, "half");
    ASSERT_HCCL(HcclCreateSubCommConfig(&parent, uint32_t(members.size()), members.data(), 77, own, &config, &half));
    uint32_t number = 0, count = 0;
    char name[COMM_NAME_MAX_LENGTH];
    EXPECT_HCCL(HcclGetRankId(half, &number));
    EXPECT_HCCL(HcclGetRankSize(half, &count));
    EXPECT_HCCL(HcclGetCommName(half, name));
    EXPECT_EQ(number, own);
    EXPECT_EQ(count, members.size());
    EXPECT_STREQ(name, "half");
    DeviceBuffer mine = device_floats(1, float(rank())), all = device_floats(members.size(), -1);
    EXPECT_HCCL(HcclAllGather(mine, all, 1, HCCL_DATA_TYPE_FP32, half, stream()));
    ASSERT_EQ(synchronize(stream()), ACL_SUCCESS) << last_message();
    EXPECT_EQ(download_floats(all, members.size()), std::vector<float>(members.begin(), members.end()));
    EXPECT_HCCL(HcclCommDestroy(half));
  }
  HcclComm none = parent;
  EXPECT_HCCL(HcclCreateSubCommConfig(&parent, 0, nullptr, 5, 0, nullptr, &none));
  EXPECT_EQ(none, nullptr);
  std::vector<uint32_t> wrong = {0, 1, 1};
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclCreateSubCommConfig(&parent, 3, wrong.data(), 6, 0, nullptr, &none));
  EXPECT_RECENT_ERROR("contains rank 1 twice");
  wrong = {0, 9};
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclCreateSubCommConfig(&parent, 2, wrong.data(), 6, 0, nullptr, &none));
  EXPECT_RECENT_ERROR("contains rank 9; allowed: 0 to 3");
}

TEST(Groups, SubCommunicators) {
  EXPECT_WORLD_PASSES(4, "ChildGroups.HalvesOfFour");
  EXPECT_WORLD_PASSES(4, "ChildGroups.HalvesOfFour", {{"SOFTNPU_HCCL_TRANSPORT=tcp"}});
}

class ChildTable : public LoneRankTest {};

TEST_F(ChildTable, MakesACommunicator) {
  const char* const path = std::getenv("HCCL_TEST_TABLE");
  HcclComm comm = nullptr;
  Stream stream = make_stream();
  for (int round = 0; round < 2; ++round) {
    ASSERT_HCCL(HcclCommInitClusterInfo(path, rank(), &comm));
    DeviceBuffer buffer = device_floats(10, 2);
    EXPECT_HCCL(HcclAllReduce(buffer, buffer, 10, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_PROD, comm, stream));
    ASSERT_EQ(synchronize(stream), ACL_SUCCESS) << last_message();
    EXPECT_EQ(download_floats(buffer, 1)[0], float(1 << size()));
    EXPECT_HCCL(HcclCommDestroy(comm));
  }
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclCommInitClusterInfo(path, size(), &comm));
  EXPECT_HCCL_ERROR(HCCL_E_OPEN_FILE_FAILURE, HcclCommInitClusterInfo("/no/such/file", rank(), &comm));
  for (const char* bad : {"{", "{}", "{\"server_list\": [{\"server_id\": \"nowhere\", \"device\": []}]}",
                          "{\"server_list\": [{\"server_id\": \"1.1.1.1\", \"device\": [{\"rank_id\": \"1\"}]}]}",
                          "{\"server_list\": [{\"server_id\": \"1.1.1.1\", \"device\": [{\"rank_id\": \"x\"}]}]}"}) {
    const TempDir folder;
    const std::string file = write_file(folder.path() / "table.json", bad);
    EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclCommInitClusterInfo(file.c_str(), 0, &comm)) << bad;
    EXPECT_RECENT_ERROR("table.json");
  }
}

TEST(Groups, RankTable) {
  const TempDir folder;
  const std::string table =
      write_file(folder.path() / "table.json", R"({"version": "1.0", "status": "completed", "server_count": "1",
      "server_list": [{"server_id": "127.0.0.1", "device": [
          {"device_id": "0", "device_ip": "192.168.1.8", "rank_id": "0"}, {"device_id": "1", "device_ip": "192.168.1.9", "rank_id": "1"},
          {"device_id": "2", "rank_id": 2}]}]})");
  const std::string port = std::to_string(20000 + getpid() % 20000);
  EXPECT_WORLD_PASSES(3, "ChildTable.MakesACommunicator",
                      {{"HCCL_TEST_TABLE=" + table, "HCCL_IF_BASE_PORT=" + port, "HCCL_IF_IP=127.0.0.1"}});
}

class OneProcess : public AclFixture {};

TEST_F(OneProcess, HasARankPerDevice) {
  constexpr uint32_t kRanks = 4;
  int32_t devices[kRanks] = {3, 1, 0, 2};
  HcclComm comms[kRanks] = {};
  for (const int32_t device : devices) ASSERT_ACL(aclrtSetDevice(device));
  ASSERT_HCCL(HcclCommInitAll(kRanks, devices, comms));
  struct PerRank {
    aclrtStream stream = nullptr;
    void* buffer = nullptr;
  } ranks[kRanks];
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_ACL(aclrtSetDevice(devices[rank]));
    ASSERT_ACL(aclrtCreateStream(&ranks[rank].stream));
    ranks[rank].buffer = device_floats(kCount, float(rank + 1)).release();
  }
  for (int round = 0; round < 3; ++round) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {  // one thread, one device after the other
      ASSERT_ACL(aclrtSetDevice(devices[rank]));
      EXPECT_HCCL(HcclAllReduce(ranks[rank].buffer, ranks[rank].buffer, kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comms[rank],
                                ranks[rank].stream));
      EXPECT_HCCL(HcclAllReduce(ranks[rank].buffer, ranks[rank].buffer, 9, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_MAX, comms[rank],
                                ranks[rank].stream));
    }
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_ACL(aclrtSetDevice(devices[rank]));
    ASSERT_ACL(aclrtSynchronizeStream(ranks[rank].stream));
    EXPECT_EQ(download_floats(ranks[rank].buffer, kCount), std::vector<float>(kCount, 160.0F));
    EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclBarrier(comms[(rank + 1) % kRanks], ranks[rank].stream));
    EXPECT_RECENT_ERROR("belongs to device");
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_ACL(aclrtSetDevice(devices[rank]));
    EXPECT_HCCL(HcclCommDestroy(comms[rank]));
    EXPECT_ACL(aclrtDestroyStream(ranks[rank].stream));
    EXPECT_ACL(aclrtFree(ranks[rank].buffer));
  }
  for (const int32_t device : devices) {
    EXPECT_ACL(aclrtResetDevice(device));
    EXPECT_ACL(aclrtResetDevice(device));
  }
  ASSERT_ACL(aclrtSetDevice(0));
  ASSERT_ACL(aclrtSetDevice(0));
}

}  // namespace
}  // namespace softnpu::test
