#include "runtime/memory/ledger.h"

#include <algorithm>
#include <cstring>

#include "runtime/memory/ledger_table.h"

namespace softnpu {
namespace {

// The time of a clock that all processes of the host share.
std::chrono::microseconds steady_time() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch());
}

std::chrono::microseconds busy_until(std::chrono::microseconds time, BusySum running) {
  const int64_t streams = (running + kOneStream / 2) >> 54;  // the sum may be negative
  return std::chrono::microseconds(running - streams * kOneStream) + time * streams;
}

}  // namespace

Status Ledger::charge(int device, size_t bytes, size_t device_capacity, size_t host_limit) {
  if (device < 0 || device >= kDevices) return {ACL_ERROR_RT_INVALID_DEVICEID, text("there is no device ", device)};
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return {ACL_ERROR_RT_MEMORY_ALLOCATION, "a child of fork() cannot use the device; start it with spawn"};
  Lock lock(*this);
  const auto fits = [&] {
    const uint64_t on_device = table->device_bytes[device];
    const uint64_t on_host = table->host_bytes;
    return on_device <= device_capacity && bytes <= device_capacity - on_device && on_host <= host_limit &&
           bytes <= host_limit - on_host;
  };
  if (!fits()) {
    reclaim_dead();
    if (!fits()) return describe_full(device, bytes, device_capacity, host_limit);
  }
  held_[device] += bytes;
  table->entries[entry_].device_bytes[device] += bytes;
  table->device_bytes[device] += bytes;
  table->host_bytes += bytes;
  return {};
}

void Ledger::release(int device, size_t bytes) {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr || device < 0 || device >= kDevices) return;
  Lock lock(*this);
  uint64_t& own = table->entries[entry_].device_bytes[device];
  const uint64_t taken = std::min<uint64_t>(own, bytes);
  own -= taken;
  held_[device] -= std::min<uint64_t>(held_[device], bytes);
  table->device_bytes[device] -= taken;
  table->host_bytes -= taken;
}

Usage Ledger::usage(int device) {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr || device < 0 || device >= kDevices) return {};
  Lock lock(*this);
  reclaim_dead();
  return {table->entries[entry_].device_bytes[device], table->device_bytes[device], table->host_bytes};
}

void Ledger::running(int device, bool begins) {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return;
  const BusySum change = kOneStream - steady_time().count();
  std::atomic_ref(table->entries[entry_].running[device]).fetch_add(begins ? change : -change, std::memory_order_relaxed);
}

BusyTime Ledger::busy_time(int device) {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return {};
  Lock lock(*this);
  reclaim_dead();
  const std::chrono::microseconds time = steady_time();
  std::chrono::microseconds total{0};
  for (LedgerEntry& entry : table->entries) {
    if (entry.used == 0) continue;
    const BusySum running = std::atomic_ref(entry.running[device]).load(std::memory_order_relaxed);
    total += busy_until(time, running);
  }
  total = std::max(total, std::chrono::microseconds(0));  // negative if the file was set up again while tasks ran
  return {total, std::chrono::steady_clock::time_point(time)};
}

std::vector<ProcessUsage> Ledger::processes() {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return {};
  Lock lock(*this);
  reclaim_dead();
  std::vector<ProcessUsage> found;
  for (const LedgerEntry& entry : table->entries) {
    if (entry.used == 0) continue;
    ProcessUsage process;
    process.pid = entry.pid;
    process.name.assign(entry.name.data(), strnlen(entry.name.data(), entry.name.size()));
    make_printable(process.name.data());  // other programs can write to the file, too
    process.start_time = entry.start_time;
    process.device_bytes.assign(entry.device_bytes.begin(), entry.device_bytes.end());
    found.push_back(std::move(process));
  }
  return found;
}

Status Ledger::describe_full(int device, size_t bytes, size_t device_capacity, size_t host_limit) const {
  const Table& table = *table_.load(std::memory_order_relaxed);
  const auto full = [&](const std::string& what, uint64_t used, uint64_t limit, uint64_t own) {
    return Status(ACL_ERROR_RT_MEMORY_ALLOCATION,
                  text(what, " has ", limit - std::min(limit, used), " of ", limit, " bytes free and ", bytes,
                       " are needed; this process holds ", own, ", others hold ", used - own));
  };
  const auto& own = table.entries[entry_].device_bytes;
  const uint64_t on_device = table.device_bytes[device];
  if (on_device > device_capacity || bytes > device_capacity - on_device) {
    return full(text("device ", device), on_device, device_capacity, own[device]);
  }
  uint64_t own_total = 0;
  for (const uint64_t device_bytes : own) own_total += device_bytes;
  return full("the host, for all devices together,", table.host_bytes, host_limit, own_total);
}

void Ledger::reclaim_dead() {
  Table& table = *table_.load(std::memory_order_relaxed);
  bool changed = false;
  for (int entry = 0; entry < kProcesses; ++entry) {
    if (table.entries[entry].used == 0 || entry == entry_ || is_alive(entry)) continue;
    table.entries[entry] = {};
    changed = true;
  }
  if (changed) table.add_up();
}

}  // namespace softnpu
