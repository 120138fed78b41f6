// DeviceGuardImpl for CUDA: devices, streams and events on the emulated HIP runtime.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

#include "capture.h"
#include "device_memory.h"
#include "gfx950_hip.h"
#include "hip_functions.h"
#include "streams.h"
#include "sync_debug.h"

namespace gfx950::torch_device {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::CUDA;

void check(hipError_t code) {
  if (code != hipSuccess) raise_hip_error(code, gfx950_last_error());
}

std::vector<c10::StreamId>& streams_of_thread() {
  thread_local std::vector<c10::StreamId> ids(static_cast<size_t>(std::max(gfx950_device_count(), 1)), 0);
  return ids;
}

hipStream_t handle(const c10::Stream& stream) { return reinterpret_cast<hipStream_t>(stream.id()); }

size_t checked_index(c10::DeviceIndex device) {
  if (device < 0) device = current_device();
  TORCH_CHECK(device < gfx950_device_count(), "device ", static_cast<int>(device), " does not exist");
  return static_cast<size_t>(device);
}

}  // namespace

c10::DeviceIndex current_device() {
  int device = 0;
  check(hipGetDevice(&device));
  return static_cast<c10::DeviceIndex>(device);
}

void set_device(c10::DeviceIndex device) { check(hipSetDevice(device)); }

c10::Stream current_stream(c10::DeviceIndex device) {
  const size_t index = checked_index(device);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, static_cast<c10::DeviceIndex>(index)),
                     streams_of_thread()[index]);
}

c10::Stream exchange_stream(c10::Stream stream) {
  const size_t index = checked_index(stream.device_index());
  const c10::Stream previous = current_stream(stream.device_index());
  streams_of_thread()[index] = stream.id();
  return previous;
}

void synchronize_device() {
  raise_pending_error();
  check(hipDeviceSynchronize());
}

c10::Stream new_stream(c10::DeviceIndex device, int priority) {
  const auto index = static_cast<c10::DeviceIndex>(checked_index(device));
  TORCH_CHECK(priority <= 0, "Expected cuda stream priority to be less than or equal to 0, got ", priority);
  priority = std::max(priority, -1);  // the highest
  hipStream_t created = nullptr;
  check(hipStreamCreateWithPriority(&created, 0, priority));  // lives as long as the process, as torch's pool does
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, index), reinterpret_cast<c10::StreamId>(created));
}

namespace {

struct GuardImpl final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    if (device.index() != previous.index()) set_device(device.index());
    return previous;
  }
  c10::Device getDevice() const override { return {kType, current_device()}; }
  void setDevice(c10::Device device) const override { set_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { (void)hipSetDevice(device.index()); }

  c10::Stream getStream(c10::Device device) const override { return current_stream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return new_stream(device.index(), high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return new_stream(device.index(), priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return handle(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    check(hipStreamQuery(handle(stream)));
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    warn_or_raise_on_sync();
    raise_pending_error();  // names the error; HIP's call would return it too
    check(hipStreamSynchronize(handle(stream)));
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }  // every type
  void synchronizeDevice(const c10::DeviceIndex) const override { synchronize_device(); }
  bool isStreamCapturing(const c10::Stream& stream) const override { return capture_id(stream.id()) != 0; }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device < 0 || device == stream.device_index(), "Event device index ", static_cast<int>(device),
                " does not match recording stream's device index ", static_cast<int>(stream.device_index()), ".");
    auto recorded = static_cast<hipEvent_t>(*event);
    constexpr unsigned kDisableTiming = 0x2;
    if (!recorded) {
      check(hipEventCreateWithFlags(&recorded, flag == c10::EventFlag::BACKEND_DEFAULT ? 0 : kDisableTiming));
      *event = recorded;
    }
    check(hipEventRecord(recorded, handle(stream)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) check(hipStreamWaitEvent(handle(stream), static_cast<hipEvent_t>(event), 0));
  }
  bool queryEvent(void* event) const override {
    if (event) check(hipEventQuery(static_cast<hipEvent_t>(event)));
    return true;
  }
  void synchronizeEvent(void* event) const override {
    raise_pending_error();
    if (event) check(hipEventSynchronize(static_cast<hipEvent_t>(event)));
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event) (void)hipEventDestroy(static_cast<hipEvent_t>(event));
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    float milliseconds = 0;
    check(hipEventElapsedTime(&milliseconds, static_cast<hipEvent_t>(start), static_cast<hipEvent_t>(end)));
    return milliseconds;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(gfx950_device_count());
  }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(CUDA, GuardImpl)

}  // namespace gfx950::torch_device
