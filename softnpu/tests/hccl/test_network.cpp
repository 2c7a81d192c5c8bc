// The listening port: its address and number, the whitelist, and connections that do not belong to a rank.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "hccl/world.h"
#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

// A port that this process listens at, as /proc/net/tcp and /proc/net/tcp6 show it.
struct ListeningPort {
  std::string address;  // in hexadecimal digits; 0100007F is 127.0.0.1
  uint16_t port = 0;
};

std::vector<ListeningPort> listening_ports() {
  std::vector<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.starts_with("socket:[")) inodes.push_back(target.substr(8, target.size() - 9));
  }
  std::vector<ListeningPort> ports;
  for (const char* const path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table(path);
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
      std::istringstream words(line);
      std::string index, local, remote, state, skip, inode;
      words >> index >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
      if (state != "0A" || std::find(inodes.begin(), inodes.end(), inode) == inodes.end()) continue;
      const size_t colon = local.find(':');
      ports.push_back({local.substr(0, colon), uint16_t(std::stoul(local.substr(colon + 1), nullptr, 16))});
    }
  }
  return ports;
}

bool has_ipv6() { return std::filesystem::exists("/proc/net/if_inet6"); }

uint32_t number_of(const char* variable) { return uint32_t(std::stoul(std::getenv(variable))); }

class ChildNetwork : public LoneRankTest {
 protected:
  // Creates a communicator of one rank, which connects to its own process.
  HcclResult connect_to_itself() {
    HcclRootInfo info{};
    HcclComm comm = nullptr;
    if (const HcclResult result = HcclGetRootInfo(&info); result != HCCL_SUCCESS) return result;
    const HcclResult result = HcclCommInitRootInfo(1, &info, 0, &comm);
    if (result == HCCL_SUCCESS) {
      EXPECT_HCCL(HcclCommDestroy(comm));
    }
    return result;
  }
};

// --- address and port ---

TEST_F(ChildNetwork, ListensAtTheGivenAddress) {
  EXPECT_HCCL(connect_to_itself());
  ASSERT_EQ(listening_ports().size(), 1u);
  EXPECT_EQ(listening_ports()[0].address, std::getenv("HCCL_TEST_ADDRESS"));
}

TEST_F(ChildNetwork, ListensWithinThePortRange) {
  EXPECT_HCCL(connect_to_itself());
  ASSERT_EQ(listening_ports().size(), 1u);
  EXPECT_GE(listening_ports()[0].port, number_of("HCCL_TEST_FIRST_PORT"));
  EXPECT_LE(listening_ports()[0].port, number_of("HCCL_TEST_LAST_PORT"));
}

TEST_F(ChildNetwork, CannotListen) {
  HcclRootInfo info{};
  EXPECT_HCCL_ERROR(HcclResult(number_of("HCCL_TEST_CODE")), HcclGetRootInfo(&info));
  EXPECT_RECENT_ERROR(std::getenv("HCCL_TEST_WORDS"));
}

TEST(Network, HcclIfIpIsTheAddress) {
  EXPECT_WORLD_PASSES(1, "ChildNetwork.ListensAtTheGivenAddress", {{"HCCL_IF_IP=127.0.0.1", "HCCL_TEST_ADDRESS=0100007F"}});
  EXPECT_WORLD_PASSES(1, "ChildNetwork.ListensAtTheGivenAddress", {{"HCCL_IF_IP=127.0.0.9", "HCCL_TEST_ADDRESS=0900007F"}});
  // Addresses for documents (RFC 5737): no host has them.
  EXPECT_WORLD_PASSES(1, "ChildNetwork.CannotListen",
                      {{"HCCL_IF_IP=192.0.2.1", "HCCL_TEST_CODE=19", "HCCL_TEST_WORDS=192.0.2.1"}});
  EXPECT_WORLD_PASSES(1, "ChildNetwork.CannotListen",
                      {{"HCCL_IF_IP=192.0.2.1", "HCCL_TEST_CODE=19", "HCCL_TEST_WORDS=check HCCL_IF_IP"}});
}

TEST(Network, HcclSocketIfnameSelectsInterfaces) {
  EXPECT_WORLD_PASSES(1, "ChildNetwork.ListensAtTheGivenAddress", {{"HCCL_SOCKET_IFNAME==lo", "HCCL_TEST_ADDRESS=0100007F"}});
  EXPECT_WORLD_PASSES(1, "ChildNetwork.CannotListen",
                      {{"HCCL_SOCKET_IFNAME=nothing", "HCCL_TEST_CODE=6", "HCCL_TEST_WORDS='nothing' selects no interface"}});
}

TEST(Network, Ipv6) {
  if (!has_ipv6()) GTEST_SKIP() << "this host has no IPv6";
  const std::string address = "HCCL_TEST_ADDRESS=00000000000000000000000001000000";
  EXPECT_WORLD_PASSES(1, "ChildNetwork.ListensAtTheGivenAddress", {{"HCCL_IF_IP=::1", address}});
  EXPECT_WORLD_PASSES(1, "ChildNetwork.ListensAtTheGivenAddress",
                      {{"HCCL_SOCKET_IFNAME=lo", "HCCL_SOCKET_FAMILY=AF_INET6", address}});
}

TEST(Network, PortRange) {
  const uint32_t first = 21000 + uint32_t(getpid()) % 10000;
  const auto limits = [](uint32_t low, uint32_t high) {
    return Environment{"HCCL_IF_IP=127.0.0.1", "HCCL_TEST_FIRST_PORT=" + std::to_string(low),
                       "HCCL_TEST_LAST_PORT=" + std::to_string(high)};
  };
  Environment range = limits(first, first + 5), base = limits(first + 1, first + 15);
  range.push_back("HCCL_HOST_SOCKET_PORT_RANGE=" + std::to_string(first) + "-" + std::to_string(first + 5));
  base.push_back("HCCL_IF_BASE_PORT=" + std::to_string(first));
  EXPECT_WORLD_PASSES(3, "ChildNetwork.ListensWithinThePortRange", {range});  // each process takes another port
  EXPECT_WORLD_PASSES(3, "ChildNetwork.ListensWithinThePortRange", {base});
  base.push_back("HCCL_HOST_SOCKET_PORT_RANGE=" + std::to_string(first + 3));
  EXPECT_WORLD_PASSES(1, "ChildNetwork.ListensWithinThePortRange", {base});
}

TEST(Network, APortRangeThatIsInUse) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  socklen_t length = sizeof address;
  address.sin_family = AF_INET;
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  ASSERT_EQ(bind(file, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(file, 1), 0);
  getsockname(file, reinterpret_cast<sockaddr*>(&address), &length);
  EXPECT_WORLD_PASSES(1, "ChildNetwork.CannotListen",
                      {{"HCCL_IF_IP=127.0.0.1", "HCCL_HOST_SOCKET_PORT_RANGE=" + std::to_string(ntohs(address.sin_port)),
                        "HCCL_TEST_CODE=19", "HCCL_TEST_WORDS=HCCL_HOST_SOCKET_PORT_RANGE"}});
  close(file);
}

// --- the whitelist ---

TEST_F(ChildNetwork, IsAllowed) { EXPECT_HCCL(connect_to_itself()); }

TEST_F(ChildNetwork, IsNotAllowed) {
  EXPECT_HCCL_ERROR(HCCL_E_TCP_CONNECT, connect_to_itself());
  EXPECT_RECENT_ERROR("whitelist");
}

TEST(Network, Whitelist) {
  const TempDir folder;
  const auto list = [&](const std::string& name, const std::string& content) {
    return "HCCL_WHITELIST_FILE=" + write_file(folder.path() / name, content);
  };
  const std::string here = "HCCL_IF_IP=127.0.0.1";
  const std::string good = list("good.json", R"({"host_ip": ["10.9.8.7", "127.0.0.1"], "device_ip": []})");
  const std::string other = list("other.json", R"({"host_ip": ["10.9.8.7"]})");
  EXPECT_WORLD_PASSES(1, "ChildNetwork.IsAllowed", {{here, good}});
  EXPECT_WORLD_PASSES(1, "ChildNetwork.IsNotAllowed", {{here, other}});
  EXPECT_WORLD_PASSES(1, "ChildNetwork.IsNotAllowed", {{here, other, "HCCL_WHITELIST_DISABLE=0"}});
  EXPECT_WORLD_PASSES(1, "ChildNetwork.IsAllowed", {{here, other, "HCCL_WHITELIST_DISABLE=1"}});
  EXPECT_WORLD_PASSES(1, "ChildNetwork.IsAllowed", {{here, "HCCL_WHITELIST_DISABLE=0"}});  // no list allows all hosts
  if (has_ipv6()) {
    const std::string long_form = list("ipv6.json", R"({"host_ip": ["0:0:0:0:0:0:0:1"]})");
    EXPECT_WORLD_PASSES(1, "ChildNetwork.IsAllowed", {{"HCCL_IF_IP=::1", long_form}});
  }
  const std::string no_list = list("no_list.json", R"({"hosts": []})");
  const std::string no_address = list("no_address.json", R"({"host_ip": ["here"]})");
  EXPECT_WORLD_PASSES(1, "ChildNetwork.CannotListen", {{no_list, "HCCL_TEST_CODE=1", "HCCL_TEST_WORDS=has no list 'host_ip'"}});
  EXPECT_WORLD_PASSES(1, "ChildNetwork.CannotListen", {{no_address, "HCCL_TEST_CODE=1", "HCCL_TEST_WORDS='here'"}});
  EXPECT_WORLD_PASSES(1, "ChildNetwork.CannotListen",
                      {{"HCCL_WHITELIST_FILE=/no/such/file", "HCCL_TEST_CODE=10", "HCCL_TEST_WORDS=/no/such/file"}});
}

// --- connections that do not belong to a rank ---

int connect_to(uint16_t port) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  EXPECT_EQ(connect(file, reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << std::strerror(errno);
  return file;
}

TEST_F(ChildNetwork, ClosesConnectionsThatSendGarbage) {
  constexpr size_t kHello = 88;  // bytes of the client's message
  HcclRootInfo info{};
  EXPECT_HCCL(HcclGetRootInfo(&info));
  const std::vector<ListeningPort> ports = listening_ports();
  ASSERT_EQ(ports.size(), 1u);
  std::vector<int> files;
  for (int number = 0; number < 40; ++number) {
    const int file = connect_to(ports[0].port);
    const Bytes garbage = pattern(size_t(number * number * 10), uint32_t(number));
    (void)!send(file, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    if (number % 3 == 0) shutdown(file, SHUT_WR);
    files.push_back(file);
  }
  HcclComm comm = nullptr;
  EXPECT_HCCL(HcclCommInitRootInfo(1, &info, 0, &comm));
  // A connection that sent a whole message or ended is closed; it got nothing but the 32 random bytes of the server.
  for (int number = 0; number < 40; ++number) {
    if (number % 3 != 0 && size_t(number * number * 10) < kHello) continue;
    size_t total = 0;
    char bytes[256];
    for (ssize_t got; (got = recv(files[size_t(number)], bytes, sizeof bytes, 0)) > 0;) total += size_t(got);
    EXPECT_LE(total, 32u);
  }
  for (const int file : files) close(file);
  EXPECT_HCCL(HcclCommDestroy(comm));
}

// More connections than the listener serves at once, which send nothing or one byte.
TEST_F(ChildNetwork, SurvivesAPortScanner) {
  HcclRootInfo info{};
  EXPECT_HCCL(HcclGetRootInfo(&info));
  const uint16_t port = listening_ports().at(0).port;
  std::vector<int> files;
  for (int number = 0; number < 400; ++number) {
    files.push_back(connect_to(port));
    if (number % 2 == 0) (void)!send(files.back(), "x", 1, MSG_NOSIGNAL);
  }
  HcclComm comm = nullptr;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_HCCL(HcclCommInitRootInfo(1, &info, 0, &comm));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 8s);  // less than the time that the listener gives to a handshake
  for (const int file : files) close(file);
  EXPECT_HCCL(HcclCommDestroy(comm));
}

TEST(Network, ConnectionsThatDoNotBelongToARank) {
  EXPECT_WORLD_PASSES(1, "ChildNetwork.ClosesConnectionsThatSendGarbage", {{"HCCL_IF_IP=127.0.0.1"}});
  EXPECT_WORLD_PASSES(1, "ChildNetwork.SurvivesAPortScanner", {{"HCCL_IF_IP=127.0.0.1"}});
}

}  // namespace
}  // namespace softnpu::test
