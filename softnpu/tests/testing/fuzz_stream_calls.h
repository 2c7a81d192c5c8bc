// Random calls of the fuzz test that use devices, contexts, streams, events and host functions.
#pragma once

#include "testing/fuzz_model.h"

namespace softnpu::test {

class StreamCalls : protected FuzzModel {
 protected:
  using FuzzModel::FuzzModel;

  // Devices and contexts

  void set_device() {
    const bool is_good = !chance(20);
    const size_t index = below(2);
    const int32_t device = is_good ? devices_[index] : index == 0 ? -1 : 1000;
    if (!check(success_if(is_good), aclrtSetDevice(device), "aclrtSetDevice ", device)) return;
    ++retains_[index];
    EXPECT_ACL(aclrtGetCurrentContext(&current_));
    const bool is_known =
        std::any_of(contexts_.begin(), contexts_.end(), [&](const auto& one) { return one.handle == current_; });
    if (!is_known) contexts_.push_back({current_, device, true});
  }

  // Never resets the first device: the test uses it.
  void reset_device() {
    const bool is_good = chance(80);
    const int32_t device = is_good ? devices_[1] : -7;
    if (is_good && retains_[1] == 1) drain();
    const Expected expected = success_if(is_good && retains_[1] > 0);
    if (!check(expected, aclrtResetDevice(device), "aclrtResetDevice ", device)) return;
    if (--retains_[1] > 0) return;
    for (size_t i = 1; i < contexts_.size(); ++i) {
      if (contexts_[i].device == devices_[1] && contexts_[i].is_primary) return forget_context(i);
    }
  }

  void create_context() {
    const bool is_good = !chance(15);
    const int32_t device = is_good ? devices_[below(2)] : 999;
    void* made = nullptr;
    if (!check(success_if(is_good), aclrtCreateContext(&made, device), "aclrtCreateContext ", device)) return;
    contexts_.push_back({made, device, false});
    current_ = made;
  }

  void destroy_context() {
    const Pick pick = context();
    drain();
    const auto found =
        std::find_if(contexts_.begin(), contexts_.end(), [&](const auto& one) { return one.handle == pick.value; });
    const bool is_primary = found != contexts_.end() && found->is_primary;
    const Expected expected = is_primary ? Expected::kFailure : pick.expected;
    if (check(expected, aclrtDestroyContext(pick.value), "aclrtDestroyContext ", pick.value)) {
      forget_context(static_cast<size_t>(found - contexts_.begin()));
    }
  }

  void set_context() {
    const Pick pick = context();
    if (check(pick.expected, aclrtSetCurrentContext(pick.value), "aclrtSetCurrentContext ", pick.value)) current_ = pick.value;
  }

  void ask_device() {
    int32_t device = -1;
    void* context = nullptr;
    check(success_if(current_ != nullptr), aclrtGetDevice(&device), "aclrtGetDevice");
    check(success_if(current_ != nullptr), aclrtGetCurrentContext(&context), "aclrtGetCurrentContext");
    if (current_ != nullptr) {
      EXPECT_EQ(context, current_);
    }
    check(Expected::kFailure, aclrtGetDevice(nullptr), "aclrtGetDevice null");
  }

  // Streams and events

  void create_stream() {
    void* made = nullptr;
    const uint32_t priority = chance(10) ? 8 : static_cast<uint32_t>(below(8));
    const Expected expected = success_if(priority < 8 && current_ != nullptr);
    if (check(expected, aclrtCreateStreamWithConfig(&made, priority, 3), "aclrtCreateStreamWithConfig ", priority)) {
      streams_.push_back({made, current_});
    }
  }

  void destroy_stream() {
    const Pick pick = stream();
    const bool force = chance(30);
    if (force && (!pinned_.empty() || !kRacesOnMemory)) drain();  // a running copy may use pinned memory that is freed later
    const aclError code = force ? aclrtDestroyStreamForce(pick.value) : aclrtDestroyStream(pick.value);
    if (!check(pick.expected, code, force ? "aclrtDestroyStreamForce " : "aclrtDestroyStream ", pick.value)) return;
    std::erase_if(streams_, [&](const StreamModel& one) { return one.handle == pick.value; });
    destroyed_.push_back(pick.value);
  }

  void synchronize() {
    const Pick pick = stream_or_default();
    switch (below(4)) {
      case 0:
        check(success_if(current_ != nullptr), aclrtSynchronizeDevice(), "aclrtSynchronizeDevice");
        return;
      case 1:
        check(pick.expected, aclrtSynchronizeStream(pick.value), "aclrtSynchronizeStream ", pick.value);
        return;
      case 2:
        check(pick.expected, aclrtSynchronizeStreamWithTimeout(pick.value, 20'000), "aclrtSynchronizeStreamWithTimeout ",
              pick.value);
        return;
      default:
        check(Expected::kFailure, aclrtSynchronizeStreamWithTimeout(pick.value, -2), "aclrtSynchronizeStreamWithTimeout -2");
    }
  }

  void ask_stream() {
    const Pick pick = stream_or_default();
    aclrtStreamStatus status;
    int32_t id = -1;
    check(pick.expected, aclrtStreamQuery(pick.value, &status), "aclrtStreamQuery ", pick.value);
    check(pick.expected, aclrtStreamGetId(pick.value, &id), "aclrtStreamGetId ", pick.value);
    check(Expected::kFailure, aclrtStreamQuery(pick.value, nullptr), "aclrtStreamQuery null");
  }

  void change_stream() {
    const Pick pick = stream_or_default();
    const uint64_t mode = below(4);
    check(both(pick.expected, success_if(mode < 2)), aclrtSetStreamFailureMode(pick.value, mode), "aclrtSetStreamFailureMode ",
          mode);
    const auto attribute = static_cast<aclrtStreamAttr>(below(8));
    aclrtStreamAttrValue value = {};
    check(both(pick.expected, success_if(attribute >= 1 && attribute <= 5)),
          aclrtGetStreamAttribute(pick.value, attribute, &value), "aclrtGetStreamAttribute ", attribute);
    if (chance(10)) check(pick.expected, aclrtStreamAbort(pick.value), "aclrtStreamAbort ", pick.value);
  }

  void create_event() {
    EventModel made;
    made.is_extended = chance(60);
    constexpr uint32_t kFlags[] = {ACL_EVENT_SYNC, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, ACL_EVENT_TIME_LINE, 0, 0x8000};
    made.flags = kFlags[below(std::size(kFlags))];
    const Expected expected = success_if(made.flags != 0 && made.flags != 0x8000 && current_ != nullptr);
    const auto create = made.is_extended ? aclrtCreateEventExWithFlag : aclrtCreateEventWithFlag;
    const char* const name = made.is_extended ? "aclrtCreateEventExWithFlag " : "aclrtCreateEventWithFlag ";
    if (check(expected, create(&made.handle, made.flags), name, made.flags)) events_.push_back(made);
  }

  void destroy_event() {
    const Pick pick = event();
    if (!check(pick.expected, aclrtDestroyEvent(pick.value), "aclrtDestroyEvent ", pick.value)) return;
    std::erase_if(events_, [&](const EventModel& one) { return one.handle == pick.value; });
    destroyed_.push_back(pick.value);
  }

  void record_or_wait() {
    const Pick mark = event();
    const Pick where = stream_or_default();
    const Expected expected = both(mark.expected, where.expected);
    if (chance(50)) {
      check(expected, aclrtRecordEvent(mark.value, where.value), "aclrtRecordEvent ", mark.value, " ", where.value);
    } else {
      check(expected, aclrtStreamWaitEvent(where.value, mark.value), "aclrtStreamWaitEvent ", where.value, " ", mark.value);
    }
  }

  void ask_event() {
    const Pick pick = event();
    const Pick where = stream_or_default();
    const EventModel* model = find_event(pick.value);
    const bool is_plain = model != nullptr && !model->is_extended;
    aclrtEventRecordedStatus recorded;
    aclrtEventStatus status;
    aclrtEventWaitStatus waited;
    check(pick.expected, aclrtQueryEventStatus(pick.value, &recorded), "aclrtQueryEventStatus ", pick.value);
    check(both(pick.expected, success_if(is_plain)), aclrtQueryEvent(pick.value, &status), "aclrtQueryEvent ", pick.value);
    check(both(pick.expected, success_if(is_plain)), aclrtQueryEventWaitStatus(pick.value, &waited), "aclrtQueryEventWaitStatus ",
          pick.value);
    check(pick.expected, aclrtSynchronizeEvent(pick.value), "aclrtSynchronizeEvent ", pick.value);
    const bool can_reset = is_plain && (model->flags & ACL_EVENT_SYNC) != 0;
    check(both(both(pick.expected, where.expected), success_if(can_reset)), aclrtResetEvent(pick.value, where.value),
          "aclrtResetEvent ", pick.value, " ", where.value);
  }

  void ask_time() {
    const Pick start = event();
    const Pick end = event();
    const auto may = [&](const Pick& pick) {
      const EventModel* model = find_event(pick.value);
      const bool has_time = model != nullptr && (model->flags & ACL_EVENT_TIME_LINE) != 0;
      return has_time ? Expected::kEither : Expected::kFailure;
    };
    float milliseconds = 0;
    uint64_t timestamp = 0;
    check(both(may(start), may(end)), aclrtEventElapsedTime(&milliseconds, start.value, end.value), "aclrtEventElapsedTime ",
          start.value, " ", end.value);
    check(may(start), aclrtEventGetTimestamp(start.value, &timestamp), "aclrtEventGetTimestamp ", start.value);
  }

  // Host functions, and calls that always fail

  void call_host() {
    const Pick where = stream_or_default();
    check(where.expected,
          aclrtLaunchHostFunc(
              where.value, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &called_),
          "aclrtLaunchHostFunc ", where.value);
    check(Expected::kFailure, aclrtLaunchHostFunc(where.value, nullptr, nullptr), "aclrtLaunchHostFunc null");
    check(Expected::kFailure, aclrtLaunchCallback([](void*) {}, nullptr, ACL_CALLBACK_BLOCK, where.value),
          "aclrtLaunchCallback unsubscribed");
    check(Expected::kFailure, aclrtProcessReport(0), "aclrtProcessReport unsubscribed");
  }

  void call_with_garbage() {
    aclmdlRI model = nullptr;
    check(Expected::kFailure, aclrtFreePhysical(garbage()), "aclrtFreePhysical");
    check(Expected::kFailure, aclrtUnmapMem(garbage()), "aclrtUnmapMem");
    check(Expected::kFailure, aclmdlRICaptureEnd(stream_or_default().value, &model), "aclmdlRICaptureEnd");
    check(Expected::kFailure, aclmdlRIExecuteAsync(garbage(), nullptr), "aclmdlRIExecuteAsync");
  }
};

}  // namespace softnpu::test
