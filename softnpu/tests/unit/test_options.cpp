// One test per sentence of options.h. docs/environment.md must match the table.
#include <gtest/gtest.h>

#include <algorithm>

#include "in_child.h"
#include "runtime/base/log.h"
#include "runtime/base/options.h"
#include "testing/option_rows.h"

namespace softnpu {
namespace {

template <typename Field>
ChildOutput with(const Environment& environment, Field field) {
  return in_child(environment, [&] { return text(field(options())); });
}

ChildOutput visible(const std::string& list, const std::string& count = "4") {
  return with({{"SOFTNPU_DEVICE_COUNT", count}, {"ASCEND_RT_VISIBLE_DEVICES", list}}, [](const Options& o) {
    std::string all;
    for (const int device : o.visible_devices) all += text(device, " ");
    return all;
  });
}

std::string device_memory(const std::string& value) {
  return with({{"SOFTNPU_DEVICE_MEMORY", value}}, [](const Options& o) { return o.device_memory; }).result;
}

TEST(Options, EmptyMeansUnset) {
  const auto output =
      with({{"SOFTNPU_DEVICE_COUNT", ""}, {"SOFTNPU_LAUNCH", ""}}, [](const Options& o) { return o.device_count; });
  EXPECT_EQ(output.result, "8");
  EXPECT_EQ(output.printed, "");
}

TEST(Options, DefaultsFitTheHost) {
  const auto output = with({}, [](const Options& o) {
    const uint64_t step = uint64_t{256} << 20;
    return text(o.device_memory % step, o.device_memory >= step, o.device_memory <= uint64_t{64} << 30, o.host_memory > 0, " ",
                o.visible_devices.size(), " ", o.soc_name, " ", o.ledger_dir, " ", static_cast<int>(o.log_level));
  });
  EXPECT_EQ(output.result, "0truetruetrue 8 Ascend910B3 /dev/shm 3");
}

TEST(Options, SizesTakeSuffixes) {
  const std::string standard = device_memory("");
  EXPECT_EQ(device_memory("16777216"), "16777216");
  EXPECT_EQ(device_memory("16384K"), "16777216");
  EXPECT_EQ(device_memory("16m"), "16777216");
  EXPECT_EQ(device_memory("2G"), "2147483648");
  EXPECT_EQ(device_memory("1T"), "1099511627776");
  for (const char* bad :
       {"16777215", "15M", "2T", "1025G", "-1G", "1.5G", "G", "1GG", "1 G", "0x10M", "99999999999999999999", "1P"}) {
    EXPECT_EQ(device_memory(bad), standard) << bad;
  }
}

TEST(Options, VisibleDevicesAreRenumberedInTheirOrder) {
  EXPECT_EQ(visible("2,0").result, "2 0 ");
  EXPECT_EQ(visible(" 3 , 1 ").result, "3 1 ");
  EXPECT_EQ(visible("").result, "");
  EXPECT_EQ(visible("").printed, "");
}

TEST(Options, VisibleDevicesStopBeforeABadItem) {
  for (const char* list : {"1,4,2", "1,x", "1,-1", "1,1,2", "1,", "1,,2"}) {
    const auto output = visible(list);
    EXPECT_EQ(output.result, "1 ") << list;
    EXPECT_NE(output.printed.find("using 1"), std::string::npos) << output.printed;
  }
  const auto output = visible("x");
  EXPECT_EQ(output.result, "");
  EXPECT_NE(output.printed.find("using no device"), std::string::npos) << output.printed;
}

TEST(Options, BadValueGivesOneWarningWithAllDetails) {
  const auto output = in_child({{"SOFTNPU_DEVICE_COUNT", "65"}}, [] {
    for (int i = 0; i < 3; ++i) options();
    return text(options().device_count);
  });
  EXPECT_EQ(output.result, "8");
  EXPECT_EQ(output.printed,
            "[WARNING] softnpu: bad value '65' of SOFTNPU_DEVICE_COUNT; allowed: a whole number from 1 to 64; using 8\n");
}

TEST(Options, BadValueIsLogged) {
  const auto output = in_child({{"SOFTNPU_LAUNCH", "later"},
                                {"ASCEND_GLOBAL_LOG_LEVEL", "2"},
                                {"ASCEND_SLOG_PRINT_TO_STDOUT", "1"},
                                {"ASCEND_PROCESS_LOG_PATH", "/proc/none"}},
                               [] { return text(static_cast<int>(options().launch)); });
  EXPECT_EQ(output.result, "0");
  EXPECT_NE(output.printed.find("[WARNING] RUNTIME("), std::string::npos) << output.printed;
  EXPECT_EQ(std::count(output.printed.begin(), output.printed.end(), '\n'), 3)
      << "expected three lines, one of them about the log: " << output.printed;
}

TEST(Options, EveryVariableRefusesBadValues) {
  for (const OptionDoc& doc : option_docs()) {
    if (doc.values == "a folder") continue;
    const std::string name(doc.name);
    const auto output = with({{name, "nonsense"}}, [](const Options&) { return ""; });
    EXPECT_EQ(output.printed.find("[WARNING] softnpu: bad value 'nonsense' of " + name + "; allowed: " + std::string(doc.values)),
              0u)
        << output.printed;
  }
}

TEST(Options, NamesAndListsAreRead) {
  const auto output = in_child(
      {{"SOFTNPU_MEMORY_CHECK", "poison,guard"}, {"SOFTNPU_LAUNCH", "sync"}, {"SOFTNPU_SOC_NAME", "Ascend910_9391"}}, [] {
        const Options& o = options();
        return text(o.memory_check.red_zones, o.memory_check.poison, o.memory_check.guard_pages, static_cast<int>(o.launch),
                    o.soc_name);
      });
  EXPECT_EQ(output.result, "falsetruetrue2Ascend910_9391");
  EXPECT_EQ(output.printed, "");
  EXPECT_NE(with({{"SOFTNPU_MEMORY_CHECK", "none,poison"}}, [](const Options&) { return ""; }).printed, "");
}

TEST(Options, AreDocumented) { test::expect_documented(option_docs()); }

}  // namespace
}  // namespace softnpu
