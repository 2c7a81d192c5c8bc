#include "core/device/late_errors.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "core/device/process_end.h"
#include "core/device/wait_unfinished.h"

namespace torch_npu {

constinit std::atomic<bool> detail::late_errors_exist{false};

namespace {

std::atomic<InterruptKeeper> interrupt_keeper{nullptr};

class LateErrors {
 public:
  static LateErrors& get() {
    static auto* const errors = [] {
      std::atexit(print_late_errors);
      return new LateErrors;
    }();
    return *errors;
  }

  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    text_ += (text_.empty() ? "" : "\n") + text;
    detail::late_errors_exist.store(true, std::memory_order_relaxed);
  }

  std::string take() {
    const std::lock_guard lock(mutex_);
    detail::late_errors_exist.store(false, std::memory_order_relaxed);
    return std::exchange(text_, {});
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

}  // namespace

void add_late_error(const std::string& text) { LateErrors::get().add(text); }

void print_late_errors() {
  if (!detail::late_errors_exist.load()) return;
  const std::string text = LateErrors::get().take();
  if (text.empty()) return;
  std::fprintf(stderr, "torch_npu: %s\n", text.c_str());
  fail_at_exit();
}

void detail::throw_late_errors() {
  const std::string text = LateErrors::get().take();
  TORCH_CHECK(text.empty(), text);
}

void set_interrupt_keeper(InterruptKeeper keeper) { interrupt_keeper.store(keeper, std::memory_order_release); }

void raise_later(std::exception_ptr failure) noexcept {
  try {
    std::rethrow_exception(failure);
  } catch (const WaitUnfinished&) {  // nothing failed
  } catch (const c10::Error& error) {
    add_late_error(error.what_without_backtrace());
  } catch (const std::exception& error) {
    if (const InterruptKeeper keep = interrupt_keeper.load(std::memory_order_acquire)) return keep(failure);
    add_late_error(error.what());
  } catch (...) {
    add_late_error("an unknown exception");
  }
}

}  // namespace torch_npu
