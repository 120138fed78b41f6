// From a launch to its modelled time: which workgroups to sample, and what their traces say.
#pragma once

#include <memory>
#include <vector>

#include "../machine/kernel.h"
#include "report.h"
#include "trace.h"

namespace gfx950::timing {

struct Plan {
  std::vector<Sample> samples;            // by index, each once
  std::vector<uint64_t> whole, replayed;  // their indices
  Occupancy occupancy;
  uint64_t groups = 0;
};

unsigned waves_of(const Launch& launch);
Plan plan_of(const Launch& launch, const MachineParams& params);

// `traces`: as the plan's samples.
std::shared_ptr<TimingReport> predict(const Launch& launch, const Plan& plan, const std::vector<GroupTrace>& traces,
                                      const std::vector<Record>& records, const Allocations& allocations,
                                      const MachineParams& params, size_t event_limit);

}  // namespace gfx950::timing
