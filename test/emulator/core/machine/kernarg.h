// The kernel argument segment and the dispatch packet of one launch.
#pragma once

#include <cstdint>
#include <vector>

#include "gfx950/gfx950.h"
#include "kernel.h"

namespace gfx950 {

constexpr size_t kKernargPadding = 256;  // scalar loads may be wider than the arguments they fetch

// Explicit arguments copied, hidden ones filled in. Throws Error(invalid_launch).
std::vector<uint8_t> build_kernarg(const Launch& launch, const Kernel& kernel);

// The 64 bytes of an AQL kernel dispatch packet, for kernels that ask for its address.
void build_dispatch_packet(const Launch& launch, const KernelInfo& info, const void* kernarg, uint8_t (&packet)[64]);

}  // namespace gfx950
