// Records the outermost operators and the nodes of the backward pass, with their tensors, on any device.
//
//   Engine::start(options);                              // one capture per process at a time
//   while (std::unique_ptr<Entry> entry = Engine::next()) write(*entry);     // on another thread, until stop() and all is taken
//   Engine::stop();
//
// A forward entry is the call of an outermost operator: no other operator and no node of autograd called it. A backward entry is
// a node of autograd: its inputs are the gradients that it received, and its outputs are the gradients that it returned. Tensors
// are copied in the order of the current stream. Inputs are copied before the operator runs. Recording waits only while the queue
// and the new entry together would hold more than kMostQueued bytes. While no capture is active, no callback is registered with
// PyTorch, and operators cost nothing extra.
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
  bool statistics = false;  // record statistics instead of values
  bool overflow = false;    // keep only entries whose results are not finite although their inputs are
  bool forward = true;
  bool backward = true;
  bool inputs = true;
  bool outputs = true;
  bool places = false;    // fill Entry::module and Entry::line
  std::string operators;  // a regular expression for whole names; empty: all
  std::string modules;    // a regular expression for the names given to set_module(); empty: all
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
  // Ends the capture. next() still returns the recorded entries.
  static void stop();
  // Waits for an entry whose copies are done. Returns null after stop() when all entries were taken. Each call removes the bytes
  // of the previous entry from the queue's count. Operators of a thread that has called next() are never recorded.
  static std::unique_ptr<Entry> next();
  // Drops all entries from now on. Call it if next() will not be called again.
  static void abandon();
  static bool is_active();
  // The number of calls inside a graph capture. They are not recorded.
  static int64_t skipped_in_graphs();
  // The number of calls that could not be recorded, and the reason of the first one.
  static int64_t failed();
  static std::string failure();
  // The bytes of the entries in the queue.
  static size_t queued();
  // Call it in the child of fork(). The capture and the writer's thread belong to the parent.
  static void forget_after_fork();
  // Sets the module whose forward runs on this thread. The entries of this thread and their backward nodes get this name.
  static void set_module(const std::string& name);
  // Sets the function that returns the current line of the Python program on the calling thread.
  static void set_line_source(std::string (*line)());
};

}  // namespace torch_npu::capture
