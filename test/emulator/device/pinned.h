// Pinned host memory: hipHostMalloc with statistics. Nothing is cached.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace gfx950::torch_device {

at::HostAllocator& pinned_allocator();

}  // namespace gfx950::torch_device
