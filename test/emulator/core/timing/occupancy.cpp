#include "occupancy.h"

#include <algorithm>

namespace gfx950::timing {
namespace {

unsigned round_up(unsigned value, double granule) {
  const unsigned step = std::max(1u, static_cast<unsigned>(granule));
  return (value + step - 1) / step * step;
}

// Workgroups of `waves` waves that fit on SIMDs of `slots` waves each; waves are dealt out one SIMD after another.
unsigned groups_that_fit(unsigned waves, unsigned slots, unsigned simds) { return slots * simds / waves; }

}  // namespace

Occupancy occupancy_of(unsigned waves, unsigned vgprs, unsigned lds_bytes, const MachineParams& p) {
  Occupancy result;
  waves = std::max(1u, waves);
  const unsigned simds = static_cast<unsigned>(p.simds);
  const unsigned by_waves = static_cast<unsigned>(p.waves_per_simd);
  const unsigned registers = round_up(std::max(1u, vgprs), p.vgpr_granule);
  const unsigned by_registers = std::max(1u, static_cast<unsigned>(p.vgprs_per_lane) / registers);
  result.groups = std::max(1u, groups_that_fit(waves, by_waves, simds));
  result.limiter = "waves";
  auto limit = [&](unsigned groups, const char* what) {
    groups = std::max(1u, groups);
    if (groups < result.groups) {
      result.groups = groups;
      result.limiter = what;
    }
  };
  limit(groups_that_fit(waves, by_registers, simds), "registers");
  if (lds_bytes != 0) limit(static_cast<unsigned>(p.lds_bytes) / round_up(lds_bytes, p.lds_granule), "lds");
  if (waves > 1) limit(static_cast<unsigned>(p.groups_per_cu), "barriers");
  result.waves_per_simd = (result.groups * waves + simds - 1) / simds;
  return result;
}

}  // namespace gfx950::timing
