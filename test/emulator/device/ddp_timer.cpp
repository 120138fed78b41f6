// What DistributedDataParallel measures its steps with on the device: the virtual clock.
#include <array>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "gfx950_hip.h"

namespace gfx950::torch_device {
namespace {

class DeviceTimer final : public c10d::Timer {
 public:
  explicit DeviceTimer(c10::Device) {}

  void record(Event event) override {
    c10d::Timer::record(event);
    at_[static_cast<size_t>(event)] = static_cast<int64_t>(gfx950_clock_now_ns());
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const int64_t from = at_[static_cast<size_t>(start)], to = at_[static_cast<size_t>(end)];
    if (from == c10d::kUnsetTime || to == c10d::kUnsetTime || to < from) return std::nullopt;
    return to - from;
  }

 private:
  static constexpr size_t kEvents = static_cast<size_t>(Event::kBackwardCommEnd) + 1;
  std::array<int64_t, kEvents> at_ = {c10d::kUnsetTime, c10d::kUnsetTime, c10d::kUnsetTime, c10d::kUnsetTime,
                                      c10d::kUnsetTime};
};

}  // namespace
}  // namespace gfx950::torch_device

namespace c10d {
namespace {
using gfx950::torch_device::DeviceTimer;
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kCUDA, DeviceTimer)
}  // namespace
}  // namespace c10d
