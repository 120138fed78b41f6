// The timing side of a launch: which workgroups are recorded, what was recorded, and the answers that are remembered.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "../timing/predict.h"

namespace gfx950 {

class Sampling {
 public:
  Sampling(const Launch& launch, const exec::Program& program, const std::vector<timing::Record>& records,
           const timing::MachineParams& params);

  const timing::Plan& plan() const { return plan_; }
  // Where the workgroup is among the samples, or -1.
  int64_t find(uint64_t index) const;
  timing::GroupTrace& trace(size_t sample) { return traces_[sample]; }
  const timing::Sample& sample(size_t sample) const { return plan_.samples[sample]; }
  std::unique_ptr<timing::Recorder> recorder();
  std::shared_ptr<TimingReport> predict(size_t event_limit) const;
  // Whether what was loaded decided what some sampled workgroup did.
  bool depends_on_data() const;
  void mark_depends_on_data() { traces_.front().depends_on_data = true; }
  void clear();

 private:
  const Launch& launch_;
  const exec::Program& program_;
  const std::vector<timing::Record>& records_;
  const timing::MachineParams& params_;
  timing::Allocations allocations_;
  timing::Plan plan_;
  std::vector<timing::GroupTrace> traces_;
};

// Launches of one kernel with the same shape and arguments take the same time, unless loaded data decides what they do.
// Pointers count as "the n-th allocation, so far from its beginning".
std::string signature_of(const Launch& launch, const timing::MachineParams& params);

}  // namespace gfx950
