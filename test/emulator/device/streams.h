// Current device and streams of a thread. A stream's id is its hipStream_t, 0 for the default stream.
#pragma once

#include <c10/core/Stream.h>

namespace gfx950::torch_device {

c10::DeviceIndex current_device();
void set_device(c10::DeviceIndex device);  // throws if it does not exist
c10::Stream current_stream(c10::DeviceIndex device);
c10::Stream exchange_stream(c10::Stream stream);
void synchronize_device();
c10::Stream new_stream(c10::DeviceIndex device, int priority);

}  // namespace gfx950::torch_device
