#include "model.h"

#include <algorithm>

namespace gfx950::timing {
namespace {

// Each with its source; README.md explains the formula they go into.
struct Parameters {
  double clock_ghz = 2.4;            // published peak engine clock
  double clock_drop_ghz = 0.65;      // fitted elsewhere on published BF16 GEMMs: 2.4 - 0.65 u at matrix utilisation u
  double launch_ns = 7000;           // fitted with it
  unsigned compute_units = 256;      // published
  unsigned simds = 4;                // per compute unit, published
  unsigned max_waves_per_simd = 8;   // LLVM
  unsigned vgprs_per_lane = 512;     // LLVM
  unsigned vgpr_granule = 8;         // LLVM
  unsigned lds_bytes = 160 * 1024;   // published
  double lds_bytes_per_clock = 128;  // published, per compute unit
  double l1_bytes_per_clock = 64;    // guess that worked: L2 to one compute unit
  double hbm_bytes_per_ns = 7200;    // reached, of 8,000 published
  double start_clocks = 1200;        // guess: one HBM latency at the start of each round of workgroups
  double issue_clocks = 4;           // of a SIMD, for an instruction that occupies no unit modelled here
};
constexpr Parameters kParameters;

unsigned resident_groups(const Work& work) {
  const Parameters& p = kParameters;
  const unsigned vgprs = std::max(p.vgpr_granule, (work.vgprs + p.vgpr_granule - 1) / p.vgpr_granule * p.vgpr_granule);
  const unsigned waves_per_simd = std::min(p.max_waves_per_simd, std::max(1u, p.vgprs_per_lane / vgprs));
  const unsigned waves = std::max(1u, work.waves_per_group);
  unsigned groups = std::max(1u, waves_per_simd * p.simds / waves);
  if (work.lds_bytes_per_group != 0) groups = std::min(groups, std::max(1u, p.lds_bytes / work.lds_bytes_per_group));
  return groups;
}

}  // namespace

double nanoseconds(const Work& work) {
  const Parameters& p = kParameters;
  if (work.workgroups == 0) return p.launch_ns;
  const double groups = static_cast<double>(work.workgroups);
  const unsigned resident = resident_groups(work);
  const uint64_t groups_per_cu = (work.workgroups + p.compute_units - 1) / p.compute_units;
  const double rounds = static_cast<double>((groups_per_cu + resident - 1) / resident);
  const double together = static_cast<double>(std::min<uint64_t>(resident, groups_per_cu));

  // Clocks of one average workgroup on each unit of its compute unit.
  const double simds = std::min<double>(p.simds, std::max(1u, work.waves_per_group));
  const double matrix = 4.0 * static_cast<double>(work.mfma_passes) / groups / simds;
  const double vector = 4.0 * static_cast<double>(work.valu_slots) / groups / simds;
  const double scalar = p.issue_clocks *
                        static_cast<double>(work.salu + work.smem + work.vmem + work.other + work.lds_instructions) /
                        groups / simds;
  const double lds = static_cast<double>(work.lds_bytes) / p.lds_bytes_per_clock / groups;
  const double global = static_cast<double>(work.global_bytes) / p.l1_bytes_per_clock / groups;
  const double units[] = {matrix, vector, scalar, lds, global};
  double sum = 0, longest = 0;
  for (double clocks : units) {
    sum += clocks;
    longest = std::max(longest, clocks);
  }
  // Waves of one SIMD overlap their units; a single wave overlaps nothing with itself.
  const double waves_per_simd = std::max(1.0, together * work.waves_per_group / p.simds);
  const double group_clocks = longest + (sum - longest) / waves_per_simd;
  const double clocks = static_cast<double>(groups_per_cu) * group_clocks + rounds * p.start_clocks;
  const double utilisation = static_cast<double>(groups_per_cu) * matrix / clocks;
  const double clock = p.clock_ghz - p.clock_drop_ghz * utilisation;
  const double memory_ns = static_cast<double>(std::min(work.global_bytes, work.footprint_bytes)) / p.hbm_bytes_per_ns;
  return p.launch_ns + std::max(clocks / clock, memory_ns);
}

}  // namespace gfx950::timing
