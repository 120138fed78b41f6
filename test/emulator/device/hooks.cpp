// What ATen asks a CUDA library for, and the profiler's event calls.
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "device_memory.h"
#include "generator.h"
#include "gfx950_hip.h"
#include "hip_functions.h"
#include "pinned.h"
#include "streams.h"

namespace at {
namespace {

using namespace gfx950::torch_device;

}  // namespace

// The registry looks for this very name.
struct CUDAHooks final : public CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return gfx950_device_count() > 0; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  const Generator& getDefaultGenerator(DeviceIndex device) const override {
    return default_generator(device < 0 ? gfx950::torch_device::current_device() : device);
  }
  Generator getNewGenerator(DeviceIndex device) const override {
    return new_generator(device < 0 ? gfx950::torch_device::current_device() : device);
  }
  Device getDeviceFromPtr(void* data) const override {
    int device = 0;
    TORCH_CHECK(hipPointerGetAttribute(&device, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, data) == hipSuccess,
                gfx950_last_error());
    return {DeviceType::CUDA, static_cast<DeviceIndex>(device)};
  }
  bool isPinnedPtr(const void* data) const override {
    hipPointerAttribute_t attributes;
    return hipPointerGetAttributes(&attributes, data) == hipSuccess && attributes.type == hipMemoryTypeHost;
  }
  Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  Allocator* getCUDADeviceAllocator() const override { return &device_allocator(); }
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  bool hasROCM() const override { return true; }
  DeviceIndex current_device() const override { return gfx950::torch_device::current_device(); }
  DeviceIndex deviceCount() const override { return static_cast<DeviceIndex>(gfx950_device_count()); }
  int getNumGPUs() const override { return gfx950_device_count(); }
  void setCurrentDevice(DeviceIndex device) const override { set_device(device); }
  DeviceIndex getCurrentDevice() const override { return gfx950::torch_device::current_device(); }
  DeviceIndex exchangeDevice(DeviceIndex device) const override {
    const DeviceIndex previous = getCurrentDevice();
    set_device(device);
    return previous;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    return device < 0 ? getCurrentDevice() : exchangeDevice(device);
  }
  std::string showConfig() const override { return "HIP runtime: emulated gfx950\n"; }
  void deviceSynchronize(DeviceIndex) const override { synchronize_device(); }
};

REGISTER_CUDA_HOOKS(CUDAHooks)

}  // namespace at

namespace torch::profiler::impl {
namespace {

struct EmulatedStubs final : public ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    if (device) *device = gfx950::torch_device::current_device();
    auto* nanoseconds = new double(gfx950_clock_now_ns());
    *event = std::shared_ptr<void>(nanoseconds, [](void* p) { delete static_cast<double*>(p); });
    if (cpu_ns) *cpu_ns = static_cast<int64_t>(gfx950_clock_now_ns());
  }
  float elapsed(const ProfilerVoidEventStub* start, const ProfilerVoidEventStub* end) const override {
    const double difference = *static_cast<double*>(end->get()) - *static_cast<double*>(start->get());
    return static_cast<float>(difference * 1e-3);
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> op) const override {
    for (int i = 0; i < gfx950_device_count(); ++i) op(i);
  }
  void synchronize() const override {}
};

// A kernel of compiled code is a range of its own in a profile, with its modelled time as device time.
void* begin_kernel_range(const char* kernel) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
  if (!callbacks) return nullptr;
  auto range = std::make_unique<at::RecordFunction>(std::move(*callbacks));
  if (range->needsInputs()) {
    range->before(std::string(kernel), c10::ArrayRef<const c10::IValue>());
  } else {
    range->before(std::string(kernel));
  }
  return range.release();
}

void end_kernel_range(void* range) { delete static_cast<at::RecordFunction*>(range); }

struct StubRegistrar {
  StubRegistrar() {
    static EmulatedStubs stubs;
    registerCUDAMethods(&stubs);
    gfx950_observe_kernels(&begin_kernel_range, &end_kernel_range);
  }
} stub_registrar;

}  // namespace
}  // namespace torch::profiler::impl
