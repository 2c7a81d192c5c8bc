// The access map of the race check, compared with a model that stores every byte.
#include <gtest/gtest.h>

#include <random>

#include "runtime/checks/access_map.h"

namespace softnpu {
namespace {

constexpr uintptr_t kBytes = 64;

struct Model {
  Accesses bytes[kBytes];

  bool agrees_with(const AccessMap& map) const {
    Accesses seen[kBytes];
    map.visit({0, kBytes}, [&](const Range& part, const Accesses& last) {
      for (uintptr_t i = part.begin; i < part.end; ++i) seen[i] = last;
    });
    return std::equal(std::begin(bytes), std::end(bytes), std::begin(seen));
  }
};

bool never(const Access&) { return false; }
bool always(const Access&) { return true; }

Access access(uint32_t stream, Ticket ticket) {
  return {.stream = stream, .atomic = false, .ticket = ticket, .task = "task", .origin = nullptr};
}

TEST(AccessMap, AgreesWithAModelOfBytes) {
  std::minstd_rand random(1);
  for (int round = 0; round < 200; ++round) {
    AccessMap map;
    Model model;
    for (Ticket ticket = 1; ticket <= 60; ++ticket) {
      const uintptr_t begin = random() % kBytes;
      const Range range{begin, begin + 1 + random() % (kBytes - begin)};
      const Access mine = access(random() % 3, ticket);
      const auto is_mine = [&](const Access& before) { return before.stream == mine.stream; };
      const auto is_old = [&](const Access& before) { return before.ticket + 20 < ticket; };
      const auto each = [&](const Range& part, const auto& change) {
        for (uintptr_t i = part.begin; i < part.end; ++i) change(model.bytes[i]);
      };
      switch (random() % 8) {
        case 0:
          map.forget(range);
          each(range, [](Accesses& last) { last = {}; });
          break;
        case 1:
          map.forget_if(is_old);
          each({0, kBytes}, [&](Accesses& last) {
            const bool is_over =
                (!last.write || is_old(*last.write)) && std::all_of(last.reads.begin(), last.reads.end(), is_old);
            if (is_over) last = {};
          });
          break;
        case 2:
        case 3:
        case 4:
          map.write(range, mine);
          each(range, [&](Accesses& last) { last = {mine, {}}; });
          break;
        default:
          map.read(range, mine, is_mine);
          each(range, [&](Accesses& last) {
            std::erase_if(last.reads, is_mine);
            last.reads.push_back(mine);
          });
      }
      ASSERT_TRUE(model.agrees_with(map)) << "round " << round << ", step " << ticket;
    }
  }
}

TEST(AccessMap, NeighboursWithTheSameContentsAreMerged) {
  AccessMap map;
  for (uintptr_t i = 0; i < 100; ++i) map.write({i, i + 1}, access(1, 1));
  EXPECT_EQ(map.size(), 1u);
  for (uintptr_t i = 0; i < 100; i += 2) map.read({i, i + 1}, access(1, 2), never);
  EXPECT_EQ(map.size(), 100u);
  map.write({0, 100}, access(2, 3));
  EXPECT_EQ(map.size(), 1u);
}

TEST(AccessMap, DoesNotGrowWithTime) {
  AccessMap map;
  Ticket ticket = 0;
  size_t most = 0;
  for (int step = 0; step < 1000; ++step) {
    for (uintptr_t tensor = 0; tensor < 50; ++tensor) {
      map.write({tensor * 512, tensor * 512 + 400}, access(0, ++ticket));
      map.read({tensor * 512, tensor * 512 + 100}, access(uint32_t(step % 3), ++ticket), always);
    }
    most = std::max(most, map.size());
  }
  EXPECT_EQ(most, 100u) << "expected: for each tensor a part that was read and one that was not";
  map.forget_if(always);
  EXPECT_EQ(map.size(), 0u);
}

}  // namespace
}  // namespace softnpu
