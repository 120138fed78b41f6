// Device memory for torch: hipMalloc with statistics, a limit, and torch's OutOfMemoryError.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <string>

namespace gfx950::torch_device {

// Bytes on `device_index` behind a DataPtr that says it lives on `device`: CUDA for tensors, CPU for the aliases that
// the fallback hands to CPU kernels. Both are freed the same way, so a pointer moves between them without a copy.
c10::DataPtr allocate(size_t size, c10::DeviceIndex device_index, c10::Device device);

// Whether this DataPtr came from allocate() and may be moved.
bool is_device_memory(const c10::DataPtr& pointer);

// The same bytes under another device label.
c10::DataPtr relabel(c10::DataPtr&& pointer, c10::Device device);

c10::DeviceAllocator& device_allocator();

// While one lives, the CPU allocator of this thread hands out device memory: what a CPU kernel returns can then become
// a device tensor without a copy.
class DeviceMemoryScope {
 public:
  explicit DeviceMemoryScope(c10::DeviceIndex device_index);
  ~DeviceMemoryScope();
  DeviceMemoryScope(const DeviceMemoryScope&) = delete;
  DeviceMemoryScope& operator=(const DeviceMemoryScope&) = delete;

 private:
  c10::DeviceIndex previous_;
};
c10::Allocator& scoped_cpu_allocator();

// Called before an OutOfMemoryError: the device, the bytes asked for, what the device may give in all and what is free.
using OutOfMemoryObserver = void (*)(int device, uint64_t size, uint64_t total, uint64_t free);
void observe_out_of_memory(OutOfMemoryObserver observer);

// In a child of a process that has used the device: whoever wants memory gets torch's error.
void refuse_memory_after_fork();

// Raises torch.AcceleratorError with a HIP code and its text.
[[noreturn]] void raise_hip_error(int code, const std::string& text);

// Raises what a launch left pending, once, as torch.AcceleratorError.
void raise_pending_error();

}  // namespace gfx950::torch_device
