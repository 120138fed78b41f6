// How many workgroups of a kernel a compute unit holds at once, and what limits them.
#pragma once

#include <cstdint>
#include <string>

#include "params.h"

namespace gfx950::timing {

struct Occupancy {
  unsigned groups = 1;          // resident on a compute unit
  unsigned waves_per_simd = 1;  // of them, rounded up
  std::string limiter;          // registers, waves, lds, barriers
};

Occupancy occupancy_of(unsigned waves, unsigned vgprs, unsigned lds_bytes, const MachineParams& params);

}  // namespace gfx950::timing
