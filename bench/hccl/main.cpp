// hccl_bench: the time of collectives, with the columns of nccl-tests. bench/hccl/__main__.py compares it with gloo.
//
//   hccl_bench                            2 ranks, all operations, 4 B to 32 MiB
//   hccl_bench --ranks 4 --op all_reduce  4 ranks, one operation
//   hccl_bench --bytes 1048576            one size
//
// The size is the size of each rank's data for all-reduce and broadcast, and of the data of all ranks for the other operations.
// "queued" is the time of one of many calls that were launched at once. "waited" is the time of a call that the host waits for.
// Bus bandwidth is the algorithm bandwidth times the factor that nccl-tests gives for the operation.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "acl/acl.h"
#include "hccl/hccl.h"

namespace {

void check(int code, const char* call) {
  if (code == 0) return;
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s returned %d: %s\n", call, code, message != nullptr ? message : "no message");
  std::_Exit(EXIT_FAILURE);
}
#define CHECK(call) check((call), #call)

struct Rank {
  uint32_t number;
  uint32_t size;
  HcclComm comm;
  aclrtStream stream;
  void* send;
  void* receive;
};

struct Operation {
  const char* name;
  double bus_factor;  // for n ranks: (n-1)/n times this
  std::function<int(const Rank&, size_t bytes)> launch;
};

constexpr HcclDataType kFloat = HCCL_DATA_TYPE_FP32;

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"all_reduce", 2,
       [](const Rank& r, size_t bytes) {
         return HcclAllReduce(r.send, r.receive, bytes / 4, kFloat, HCCL_REDUCE_SUM, r.comm, r.stream);
       }},
      {"all_gather", 1,
       [](const Rank& r, size_t bytes) {
         return HcclAllGather(r.send, r.receive, bytes / 4 / r.size, kFloat, r.comm, r.stream);
       }},
      {"reduce_scatter", 1,
       [](const Rank& r, size_t bytes) {
         return HcclReduceScatter(r.send, r.receive, bytes / 4 / r.size, kFloat, HCCL_REDUCE_SUM, r.comm, r.stream);
       }},
      {"all_to_all", 1,
       [](const Rank& r, size_t bytes) {
         const size_t count = bytes / 4 / r.size;
         return HcclAlltoAll(r.send, count, kFloat, r.receive, count, kFloat, r.comm, r.stream);
       }},
      {"broadcast", 1, [](const Rank& r, size_t bytes) { return HcclBroadcast(r.send, bytes / 4, kFloat, 0, r.comm, r.stream); }},
      {"barrier", 0, [](const Rank& r, size_t) { return HcclBarrier(r.comm, r.stream); }},
  };
  return all;
}

double seconds(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void barrier(const Rank& rank) {
  CHECK(HcclBarrier(rank.comm, rank.stream));
  CHECK(aclrtSynchronizeStream(rank.stream));
}

double median_of(const Rank& rank, int batches, const std::function<double()>& batch) {
  std::vector<double> times;
  for (int index = 0; index < batches; ++index) {
    barrier(rank);
    times.push_back(batch());
  }
  std::nth_element(times.begin(), times.begin() + batches / 2, times.end());
  return times[size_t(batches / 2)];
}

void measure(const Rank& rank, const Operation& operation, size_t bytes) {
  const int count = std::max(2, int(std::min<size_t>(200, (size_t{64} << 20) / (bytes + 1))));
  const auto launch = [&] { CHECK(operation.launch(rank, bytes)); };
  const auto wait = [&] { CHECK(aclrtSynchronizeStream(rank.stream)); };
  launch(), wait();
  const double queued = median_of(rank, 9,
                                  [&] {
                                    return seconds([&] {
                                      for (int index = 0; index < count; ++index) launch();
                                      wait();
                                    });
                                  }) /
                        count;
  const double waited = median_of(rank, 9,
                                  [&] {
                                    return seconds([&] {
                                      for (int index = 0; index < count; ++index) launch(), wait();
                                    });
                                  }) /
                        count;
  if (rank.number != 0) return;
  const double algorithm = double(bytes) / queued / 1e9;
  const double bus = algorithm * operation.bus_factor * (rank.size - 1) / rank.size;
  std::printf("%-15s %10zu %10.1f %10.1f %10.2f %10.2f\n", operation.name, bytes, queued * 1e6, waited * 1e6, algorithm, bus);
  std::fflush(stdout);
}

// memcpy, which all ranks call at once.
void measure_copies(const Rank& rank) {
  constexpr size_t kBytes = size_t{32} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  const double time = median_of(rank, 9, [&] { return seconds([&] { std::memcpy(to.data(), from.data(), kBytes); }); });
  if (rank.number == 0) {
    std::printf("%-15s %10zu %10.1f %10s %10.2f\n", "memcpy", kBytes, time * 1e6, "", double(kBytes) / time / 1e9);
  }
}

struct Arguments {
  uint32_t ranks = 2;
  std::string only;
  size_t bytes = 0;
};

void run_rank(uint32_t number, const HcclRootInfo& info, const Arguments& arguments) {
  constexpr size_t kMost = size_t{32} << 20;
  Rank rank{number, arguments.ranks, nullptr, nullptr, nullptr, nullptr};
  CHECK(aclrtSetDevice(int32_t(number)));
  CHECK(HcclCommInitRootInfo(arguments.ranks, &info, number, &rank.comm));
  CHECK(aclrtCreateStream(&rank.stream));
  const size_t room = std::max(kMost, arguments.bytes);
  CHECK(aclrtMalloc(&rank.send, room, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMalloc(&rank.receive, room, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemset(rank.send, room, 0, room));
  CHECK(aclrtMemset(rank.receive, room, 0, room));
  if (number == 0) {
    std::printf("%-15s %10s %10s %10s %10s %10s\n", "", "bytes", "queued us", "waited us", "GB/s", "bus GB/s");
  }
  measure_copies(rank);
  for (const Operation& operation : operations()) {
    if (!arguments.only.empty() && arguments.only != operation.name) continue;
    for (const size_t bytes : {size_t{4}, size_t{1} << 10, size_t{64} << 10, size_t{1} << 20, size_t{8} << 20, kMost}) {
      const size_t wanted = std::max<size_t>(bytes, operation.bus_factor == 1 ? 4 * rank.size : 4);
      if (arguments.bytes == 0) measure(rank, operation, wanted);
      if (operation.bus_factor == 0) break;
    }
    if (arguments.bytes != 0) measure(rank, operation, arguments.bytes);
  }
  barrier(rank);
  CHECK(HcclCommDestroy(rank.comm));
}

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int index = 1; index + 1 < count; index += 2) {
    const std::string_view name = values[index];
    if (name == "--ranks") {
      arguments.ranks = uint32_t(std::atoi(values[index + 1]));
    } else if (name == "--op") {
      arguments.only = values[index + 1];
    } else if (name == "--bytes") {
      arguments.bytes = size_t(std::atoll(values[index + 1]));
    } else {
      std::fprintf(stderr, "usage: hccl_bench [--ranks N] [--op NAME] [--bytes N]\n");
      std::exit(2);
    }
  }
  return arguments;
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = parse(count, values);
  std::vector<int> pipes;
  std::vector<pid_t> children;
  for (uint32_t rank = 1; rank < arguments.ranks; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) return EXIT_FAILURE;
    const pid_t child = fork();
    if (child == 0) {
      HcclRootInfo info;
      CHECK(aclInit(nullptr));
      if (read(ends[0], &info, sizeof info) != ssize_t(sizeof info)) return EXIT_FAILURE;
      run_rank(rank, info, arguments);
      return EXIT_SUCCESS;
    }
    pipes.push_back(ends[1]);
    children.push_back(child);
  }
  CHECK(aclInit(nullptr));
  HcclRootInfo info;
  CHECK(HcclGetRootInfo(&info));
  for (const int end : pipes) {
    if (write(end, &info, sizeof info) != ssize_t(sizeof info)) return EXIT_FAILURE;
  }
  run_rank(0, info, arguments);
  bool is_good = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    is_good = is_good && status == 0;
  }
  return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
