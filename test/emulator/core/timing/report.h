// What the timing model says of one launch; README.md documents the JSON.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compute_unit.h"
#include "gfx950/gfx950.h"
#include "occupancy.h"

namespace gfx950 {

struct TimingReport {
  // ---- the launch
  std::string kernel;
  Dim3 grid, block;
  unsigned waves_per_group = 0, vgprs = 0, agprs = 0, sgprs = 0, lds_bytes = 0, scratch_bytes = 0;
  unsigned vgpr_spills = 0, sgpr_spills = 0;
  uint64_t workgroups = 0;
  bool timing_only = false;
  // ---- the answer
  double nanoseconds = 0, launch_nanoseconds = 0, cycles = 0, clock_ghz = 0;
  double matrix_flops = 0;
  std::string bound;  // the unit that is busiest
  // ---- how it was found
  timing::Occupancy occupancy;
  unsigned resident = 0;         // workgroups on a compute unit
  uint64_t groups_per_unit = 0;  // of the fullest one
  uint64_t groups_simulated = 0;
  std::vector<std::pair<uint64_t, uint64_t>> sampled;  // workgroup, its instructions
  bool uniform = true;
  bool depends_on_data = false;
  uint64_t groups_replayed = 0, lines_replayed = 0;
  // ---- the simulated compute unit
  timing::UnitResult unit;
  timing::Loop loop;
  double group_instructions = 0;
  double mfma_utilisation = 0;  // of the chip, over the whole launch: what the clock depends on
  // ---- memory, of the whole launch
  double requested_bytes = 0, l2_bytes = 0, fabric_bytes = 0, hbm_bytes = 0, footprint = 0;
  double l1_hit = 0, l2_hit = 0, mall_hit = 0;
  // ---- the program, for the statistics by instruction
  std::shared_ptr<const exec::Program> program;
  std::vector<timing::Unit> units;
  std::vector<std::string> sources;  // "file:line", empty if the code object has no line table
};

}  // namespace gfx950
