// The commands of softnpuControl.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/api/entry.h"
#include "runtime/base/options.h"
#include "runtime/checks/faults.h"
#include "runtime/checks/races.h"
#include "runtime/device/process.h"
#include "runtime/memory/ledger.h"
#include "runtime/softnpu.h"

namespace softnpu {
namespace {

struct Command {
  std::string_view name;
  std::string_view usage;
  // Sets `reply`.
  Status (*run)(std::string_view arguments, std::string& reply);
};

Status help(std::string_view arguments, std::string& reply);

// Fails with the first damaged red zone of any device.
Status check_memory(std::string_view, std::string&) {
  for (Device* device : devices()) {
    if (Heap* heap = device->heap()) SOFTNPU_RETURN_IF_ERROR(heap->check_red_zones());
  }
  return {};
}

Status faults(std::string_view arguments, std::string& reply) {
  if (!arguments.empty()) return Faults::set(arguments);
  reply = Faults::counts();
  return {};
}

Status show_memory_checks(std::string_view, std::string& reply) {
  const MemoryCheck& checks = options().memory_check;
  const auto add = [&](bool is_on, const char* name) {
    if (is_on) reply += text(reply.empty() ? "" : ",", name);
  };
  add(checks.red_zones, "redzone");
  add(checks.poison, "poison");
  add(checks.guard_pages, "guard");
  if (reply.empty()) reply = "none";
  return {};
}

// Fails if the check is off, because an empty reply would mean that there are no races.
Status take_races(std::string_view, std::string& reply) {
  if (!races_are_checked()) return {ACL_ERROR_INVALID_PARAM, "races are not checked; set SOFTNPU_RACE_CHECK=report"};
  reply = races().take_reports();
  return {};
}

Status show_options(std::string_view, std::string& reply) {
  for (const OptionDoc& doc : option_docs())
    reply += text(doc.name, "\t", doc.values, "\t", doc.standard, "\t", doc.effect, "\n");
  return {};
}

// Omits this process. The name of a program may contain spaces, so it is the last field of its line.
Status show_usage(std::string_view, std::string& reply) {
  Ledger& account = ledger();
  if (!account.problem().ok()) return account.problem().copy();
  const Options& settings = options();
  reply = text("chip ", settings.soc_name, "\nhost_memory ", settings.host_memory, "\n");
  for (int device = 0; device < settings.device_count; ++device) {
    const BusyTime busy = account.busy_time(device);
    reply += text("device ", device, " ", account.usage(device).device, " ", settings.device_memory, " ", busy.total.count(), " ",
                  busy.now.time_since_epoch().count(), "\n");
  }
  for (const ProcessUsage& process : account.processes()) {
    for (size_t device = 0; process.pid != getpid() && device < process.device_bytes.size(); ++device) {
      if (process.device_bytes[device] == 0) continue;
      reply += text("process ", device, " ", process.pid, " ", process.start_time, " ", process.device_bytes[device], " ",
                    process.name, "\n");
    }
  }
  return {};
}

constexpr Command kCommands[] = {
    {"check-memory", "fails if a red zone is damaged (SOFTNPU_MEMORY_CHECK=redzone)", check_memory},
    {"faults", "RULES makes calls fail or start late, off ends that; without arguments what was counted since", faults},
    {"memory-checks", "what SOFTNPU_MEMORY_CHECK switched on, as it is written there", show_memory_checks},
    {"help", "the commands, one per line", help},
    {"options", "the environment variables that are read, one per line: name, values, default, effect, separated by tabs",
     show_options},
    {"races", "the races found since the last call, one per line (SOFTNPU_RACE_CHECK=report)", take_races},
    {"usage", "memory and busy time of each device of the host, and what other processes hold of it", show_usage},
};

Status help(std::string_view, std::string& reply) {
  for (const Command& command : kCommands) reply += text(command.name, ": ", command.usage, "\n");
  return {};
}

Status control(std::string_view line, std::string& reply) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view name = line.substr(0, end);
  const std::string_view arguments = line.substr(std::min(line.find_first_not_of(' ', end), line.size()));
  const auto* found = std::find_if(std::begin(kCommands), std::end(kCommands), [&](const Command& c) { return c.name == name; });
  if (found != std::end(kCommands)) return found->run(arguments, reply);
  return {ACL_ERROR_INVALID_PARAM, text("'", name, "' is no command; 'help' lists them")};
}

}  // namespace
}  // namespace softnpu

aclError softnpuControl(const char* command, char* reply, size_t reply_bytes) {
  using namespace softnpu;
  return entry::guarded("softnpuControl", [&]() -> Status {
    if (command == nullptr) return entry::null_argument("command");
    if (reply == nullptr && reply_bytes > 0) return entry::null_argument("reply");
    std::string answer;
    Status status = control(command, answer);
    if (reply_bytes == 0) return status;
    const size_t length = std::min(answer.size(), reply_bytes - 1);
    std::memcpy(reply, answer.data(), length);
    reply[length] = '\0';
    return status;
  });
}
