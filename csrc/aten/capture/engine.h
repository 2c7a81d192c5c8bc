// Records the outermost operators and the nodes of the backward pass, with their tensors, on any device.
//
//   Engine::start(options);                              // one capture per process at a time
//   while (std::unique_ptr<Entry> entry = Engine::next()) write(*entry);     // on another thread, until stop() and all is taken
//   Engine::stop();
//
// A forward entry is a call of an operator that no other operator and no node called. A backward entry is a node of autograd: its
// inputs are the gradients that it got, its outputs those that it returned. Tensors are copied in the order of the current
// stream, inputs before the operator runs. The engine waits only if the entries that were not taken, and the one that it records,
// would hold more than kMostQueued bytes.
// While no capture is active, PyTorch has no callback of ours and operators cost nothing extra.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/macros/Export.h>

#include <functional>
#include <memory>
#include <string>

#include "aten/capture/entry.h"

namespace torch_npu::capture {

inline constexpr size_t kMostQueued = size_t{256} << 20;

struct Arguments {
  std::string name;
  bool backward = false;
  std::vector<std::string> names;
  std::vector<c10::IValue> values;
};

struct Options {
  bool statistics = false;  // instead of values
  bool overflow = false;    // keep only entries whose results are not finite although their inputs are
  bool forward = true;
  bool backward = true;
  bool inputs = true;
  bool outputs = true;
  bool places = false;    // fill Entry::module and Entry::line
  std::string operators;  // a regular expression for whole names; empty: all
  std::string modules;    // the same for the names that set_module() got; empty: all
  int64_t first_sequence = 1;
  // Called before each chosen call. May write the tensors. Returns the sequence number of the entry, or 0 for the next number.
  std::function<int64_t(const Arguments&)> before;
  // Called after a call for which `before` returned a number.
  std::function<void()> after;
};

class C10_EXPORT Engine {
 public:
  // Throws if a capture is active, or for a bad expression.
  static void start(Options options);
  // The entries so far stay until next() has taken them.
  static void stop();
  // Waits for an entry whose copies are done. Null after stop() when all entries were taken. Taking an entry gives back the bytes
  // of the previous one. Operators of a thread that has called this are never recorded.
  static std::unique_ptr<Entry> next();
  // Nobody will call next() again: entries are dropped from now on.
  static void abandon();
  static bool is_active();
  // Calls inside a graph capture, which are not recorded.
  static int64_t skipped_in_graphs();
  // Calls that could not be recorded, and the reason for the first.
  static int64_t failed();
  static std::string failure();
  // Bytes of the entries that were not taken.
  static size_t queued();
  // In the child of fork(): there is no capture and no thread that writes.
  static void forget_after_fork();
  // The module whose forward runs on this thread; used for the entries of this thread and for their backward nodes.
  static void set_module(const std::string& name);
  // Gives the line of the Python program that this thread runs.
  static void set_line_source(std::string (*line)());
};

}  // namespace torch_npu::capture
