#include "predict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

namespace gfx950::timing {
namespace {

constexpr uint64_t kMostReplayed = 128;      // workgroups of one XCD
constexpr uint64_t kLeastLimit = 1000;       // instructions of a wave that the caches see, at least
constexpr double kUniform = 1.03;            // most to least instructions of the sampled workgroups
constexpr uint64_t kMostScheduled = 200000;  // workgroups dealt out one by one

uint64_t up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Positions along one axis whose work is compared: spread evenly, and one that no power of two divides.
std::vector<uint32_t> places(uint32_t extent, double count) {
  std::vector<uint32_t> at;
  const unsigned n = std::max(2u, static_cast<unsigned>(count));
  for (unsigned k = 0; k < n; ++k) at.push_back(static_cast<uint32_t>(uint64_t{extent - 1} * k / (n - 1)));
  at.push_back(static_cast<uint32_t>(extent * 0.381966));
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  return at;
}

}  // namespace

unsigned waves_of(const Launch& launch) {
  return (launch.block.x * launch.block.y * launch.block.z + exec::kLanes - 1) / exec::kLanes;
}

Plan plan_of(const Launch& launch, const MachineParams& p) {
  Plan plan;
  const KernelInfo& info = launch.kernel->info;
  const unsigned waves = waves_of(launch);
  const Dim3& grid = launch.grid;
  plan.groups = uint64_t{grid.x} * grid.y * grid.z;
  plan.occupancy = occupancy_of(waves, info.vgpr_count, info.group_segment_size + launch.dynamic_lds, p);
  const uint64_t xcds = static_cast<uint64_t>(p.xcds), cus = static_cast<uint64_t>(p.cus_per_xcd);
  const uint64_t on_xcd = up(plan.groups, xcds);
  const uint64_t replayed = std::min({on_xcd, cus * plan.occupancy.groups, kMostReplayed});
  const uint64_t limit =
      std::max(kLeastLimit, static_cast<uint64_t>(p.trace_instructions) / std::max<uint64_t>(1, replayed * waves));
  std::map<uint64_t, Sample> samples;
  for (uint64_t k = 0; k < replayed; ++k) {
    const uint64_t index = k * xcds;
    samples[index] = {index, false, true, limit};
    plan.replayed.push_back(index);
  }
  auto whole = [&](uint32_t x, uint32_t y, uint32_t z) {
    const uint64_t index = x + uint64_t{grid.x} * (y + uint64_t{grid.y} * z);
    Sample& sample = samples[index];
    if (sample.whole) return;
    sample.index = index;
    sample.whole = true;
    if (!sample.lines) sample.limit = 0;
    plan.whole.push_back(index);
  };
  whole(0, 0, 0);
  for (uint32_t x : places(grid.x, p.places)) whole(x, 0, 0);
  for (uint32_t y : places(grid.y, p.places)) whole(0, y, 0);
  for (uint32_t z : places(grid.z, p.places)) whole(0, 0, z);
  for (const auto& [index, sample] : samples) plan.samples.push_back(sample);
  return plan;
}

namespace {

class Predictor {
 public:
  Predictor(const Launch& launch, const Plan& plan, const std::vector<GroupTrace>& traces,
            const std::vector<Record>& records, const Allocations& allocations, const MachineParams& params,
            size_t event_limit)
      : launch_(launch),
        plan_(plan),
        records_(records),
        allocations_(allocations),
        p_(params),
        event_limit_(event_limit) {
    for (size_t k = 0; k < traces.size(); ++k) by_index_[plan.samples[k].index] = &traces[k];
    report_ = std::make_shared<TimingReport>();
  }

  std::shared_ptr<TimingReport> run() {
    TimingReport& r = *report_;
    const double units = p_.xcds * p_.cus_per_xcd;
    active_ = std::min<double>(units, static_cast<double>(plan_.groups));
    r.workgroups = plan_.groups;
    r.occupancy = plan_.occupancy;
    const uint64_t on_xcd = up(plan_.groups, static_cast<uint64_t>(p_.xcds));
    r.groups_per_unit = up(on_xcd, static_cast<uint64_t>(p_.cus_per_xcd));
    r.resident = static_cast<unsigned>(std::min<uint64_t>(plan_.occupancy.groups, r.groups_per_unit));
    double least = 1e300, most = 0, sum = 0;
    for (uint64_t index : plan_.whole) {
      const GroupTrace& trace = *by_index_.at(index);
      const double n = static_cast<double>(trace.instructions());
      r.sampled.push_back({index, trace.instructions()});
      r.depends_on_data = r.depends_on_data || trace.depends_on_data;
      least = std::min(least, n);
      most = std::max(most, n);
      sum += n;
    }
    r.uniform = most <= kUniform * least;
    replay_caches(sum / static_cast<double>(plan_.whole.size()));
    const GroupTrace& main = representative();
    r.loop = hottest_loop(main, records_);
    r.group_instructions = static_cast<double>(main.instructions());
    r.unit = simulate_unit(main, groups_to_simulate(main), event_limit_);
    r.groups_simulated = r.unit.completions.size();
    double work = 1;  // mean work of a workgroup over the representative's
    if (r.uniform) {
      r.cycles = extrapolate(r.unit);
    } else {
      r.cycles = schedule(main, work);
    }
    finish(work);
    return report_;
  }

 private:
  void replay_caches(double mean_instructions) {
    std::vector<const GroupTrace*> groups;
    std::vector<unsigned> cus;
    double recorded = 0;
    bool cut_short = false;
    for (size_t k = 0; k < plan_.replayed.size(); ++k) {
      const GroupTrace* trace = by_index_.at(plan_.replayed[k]);
      groups.push_back(trace);
      cus.push_back(static_cast<unsigned>(k) % static_cast<unsigned>(p_.cus_per_xcd));
      const uint64_t limit = limit_of(plan_.replayed[k]);
      for (const WaveTrace& wave : trace->waves) {
        recorded += static_cast<double>(std::min(wave.instructions, limit));
        cut_short = cut_short || wave.instructions >= limit;
      }
    }
    const double whole = mean_instructions * static_cast<double>(plan_.groups);
    caches_ =
        replay(groups, cus, records_, allocations_, p_, std::max(1.0, whole / std::max(1.0, recorded)), cut_short);
    report_->groups_replayed = groups.size();
    report_->lines_replayed = caches_.lines;
  }

  uint64_t limit_of(uint64_t index) const {
    const auto found = std::lower_bound(plan_.samples.begin(), plan_.samples.end(), index,
                                        [](const Sample& s, uint64_t i) { return s.index < i; });
    return found->limit;
  }

  // The first workgroup; where workgroups differ the one with the most work.
  const GroupTrace& representative() const {
    if (report_->uniform) return *by_index_.at(0);
    uint64_t best = 0;
    for (uint64_t index : plan_.whole) {
      if (by_index_.at(index)->instructions() > by_index_.at(best)->instructions()) best = index;
    }
    return *by_index_.at(best);
  }

  // Rounds of resident workgroups until the one that stands for the others has ended.
  uint64_t rounds_of(const GroupTrace& trace) const {
    const double round = static_cast<double>(trace.instructions()) * report_->resident;
    const double affordable = std::floor(p_.simulated_instructions / std::max(1.0, round));
    return static_cast<uint64_t>(std::max({1.0, p_.rounds, std::min(p_.most_rounds, affordable)}));
  }

  // These rounds, one that follows them, and the last, partial one as it is.
  uint64_t groups_to_simulate(const GroupTrace& trace) const {
    const uint64_t n = report_->groups_per_unit, resident = report_->resident;
    return std::min(n, (rounds_of(trace) + 1) * resident + n % resident);
  }

  UnitResult simulate_unit(const GroupTrace& trace, uint64_t count, size_t events) const {
    UnitJob job;
    job.records = &records_;
    job.params = &p_;
    job.caches = &caches_;
    job.groups.assign(count, &trace);
    job.resident = report_->resident;
    job.active_units = active_;
    job.loop = report_->loop;
    job.event_limit = events;
    return simulate(job);
  }

  // Clocks of one more round: the mean of those after the first, before the last.
  double round_clocks(const UnitResult& unit, const GroupTrace& trace) const {
    const size_t resident = report_->resident;
    const size_t rounds = std::max<size_t>(1, std::min<size_t>(unit.completions.size() / resident, rounds_of(trace)));
    const double last = unit.completions[rounds * resident - 1];
    return rounds < 2 ? last : (last - unit.completions[resident - 1]) / static_cast<double>(rounds - 1);
  }

  double extrapolate(const UnitResult& unit) const {
    const uint64_t left = report_->groups_per_unit - unit.completions.size();
    return unit.clocks + static_cast<double>(left / report_->resident) * round_clocks(unit, representative());
  }

  // ---- workgroups that differ

  // Instructions of a workgroup, between the sampled ones along each axis.
  double along(uint32_t at, uint32_t extent, uint64_t stride) const {
    const std::vector<uint32_t> known = places(extent, p_.places);
    const double origin = static_cast<double>(by_index_.at(0)->instructions());
    auto value = [&](uint32_t x) { return static_cast<double>(by_index_.at(x * stride)->instructions()) / origin; };
    const auto after = std::lower_bound(known.begin(), known.end(), at);
    if (after == known.begin()) return value(*after);
    const uint32_t low = *std::prev(after), high = *after;
    const double share = static_cast<double>(at - low) / static_cast<double>(high - low);
    return value(low) * (1 - share) + value(high) * share;
  }

  double schedule(const GroupTrace& main, double& work) const {
    // Time of a round against instructions of a workgroup, at the least, the middle and the most work.
    std::vector<const GroupTrace*> traces;
    for (uint64_t index : plan_.whole) traces.push_back(by_index_.at(index));
    std::sort(traces.begin(), traces.end(),
              [](const GroupTrace* a, const GroupTrace* b) { return a->instructions() < b->instructions(); });
    std::map<double, double> clocks;
    for (const GroupTrace* trace : {traces.front(), traces[traces.size() / 2], traces.back()}) {
      const double n = static_cast<double>(trace->instructions());
      if (clocks.count(n) != 0) continue;
      clocks[n] =
          round_clocks(trace == &main ? report_->unit : simulate_unit(*trace, groups_to_simulate(*trace), 0), *trace);
    }
    auto duration = [&](double n) {
      auto after = clocks.lower_bound(n);
      if (after == clocks.end()) return clocks.rbegin()->second * n / clocks.rbegin()->first;
      if (after == clocks.begin()) return after->second;
      const auto before = std::prev(after);
      const double share = (n - before->first) / (after->first - before->first);
      return before->second * (1 - share) + after->second * share;
    };
    const Dim3& grid = launch_.grid;
    const double origin = static_cast<double>(by_index_.at(0)->instructions());
    std::vector<double> x(grid.x), y(grid.y), z(grid.z);
    for (uint32_t k = 0; k < grid.x; ++k) x[k] = along(k, grid.x, 1);
    for (uint32_t k = 0; k < grid.y; ++k) y[k] = along(k, grid.y, grid.x);
    for (uint32_t k = 0; k < grid.z; ++k) z[k] = along(k, grid.z, uint64_t{grid.x} * grid.y);
    // Dealt out in order, over the XCDs in turn, to the place that is free first.
    using Queue = std::priority_queue<double, std::vector<double>, std::greater<>>;
    const size_t xcds = static_cast<size_t>(p_.xcds);
    const size_t slots = static_cast<size_t>(p_.cus_per_xcd) * report_->resident;
    std::vector<Queue> free(xcds);
    for (Queue& queue : free) {
      for (size_t k = 0; k < slots; ++k) queue.push(0);
    }
    // Very large grids: every `step`th workgroup stands for its neighbours.
    const uint64_t step = up(plan_.groups, kMostScheduled);
    double sum = 0, count = 0, end = 0;
    for (uint64_t k = 0; k < plan_.groups; k += step) {
      const uint64_t i = k % grid.x, j = k / grid.x % grid.y, l = k / grid.x / grid.y;
      const double n = origin * x[i] * y[j] * z[l];
      sum += n;
      count += 1;
      Queue& queue = free[static_cast<size_t>(k / step) % xcds];
      const double done = queue.top() + duration(n) * static_cast<double>(step);
      queue.pop();
      queue.push(done);
      end = std::max(end, done);
    }
    work = sum / count / static_cast<double>(main.instructions());
    return end;
  }

  // ---- the whole chip

  void finish(double work) {
    TimingReport& r = *report_;
    const double simulated = static_cast<double>(r.groups_simulated);
    const double scale = static_cast<double>(plan_.groups) / simulated * work;
    double flops = 0;
    for (size_t k = 0; k < records_.size(); ++k) flops += records_[k].flops * static_cast<double>(r.unit.pcs[k].issues);
    r.matrix_flops = flops * scale;
    const double simds = p_.simds * p_.xcds * p_.cus_per_xcd;
    const double matrix = r.unit.busy[static_cast<size_t>(Unit::mfma)] * scale;
    r.requested_bytes = r.unit.l1_bytes * scale;
    r.l2_bytes = r.unit.l2_bytes * scale;
    r.fabric_bytes = r.unit.fabric_bytes * scale;
    r.hbm_bytes = r.unit.hbm_bytes * scale;
    r.footprint = caches_.footprint;
    const HitRates& loads = caches_.loads;
    r.l1_hit = loads.lines > 0 ? 1 - loads.l1_miss / loads.lines : 0;
    r.l2_hit = loads.l1_miss > 0 ? 1 - loads.l2_miss / loads.l1_miss : 0;
    r.mall_hit = loads.l2_miss > 0 ? 1 - caches_.hbm_share : 0;
    r.mfma_utilisation = r.cycles > 0 ? std::min(1.0, matrix / (simds * r.cycles)) : 0;
    r.clock_ghz = std::max(0.1, p_.clock_ghz - p_.clock_drop_ghz * r.mfma_utilisation);
    r.launch_nanoseconds = p_.launch_ns;
    // What the sampled compute unit's share allows may exceed what the chip has.
    const double floor = std::max(r.hbm_bytes / p_.hbm_bytes_per_ns, r.fabric_bytes / p_.mall_bytes_per_ns);
    r.nanoseconds = p_.launch_ns + std::max(r.cycles / r.clock_ghz, floor);
  }

  const Launch& launch_;
  const Plan& plan_;
  const std::vector<Record>& records_;
  const Allocations& allocations_;
  const MachineParams& p_;
  size_t event_limit_;
  std::map<uint64_t, const GroupTrace*> by_index_;
  std::shared_ptr<TimingReport> report_;
  CacheResult caches_;
  double active_ = 1;
};

}  // namespace

std::shared_ptr<TimingReport> predict(const Launch& launch, const Plan& plan, const std::vector<GroupTrace>& traces,
                                      const std::vector<Record>& records, const Allocations& allocations,
                                      const MachineParams& params, size_t event_limit) {
  auto report = Predictor(launch, plan, traces, records, allocations, params, event_limit).run();
  TimingReport& r = *report;
  const KernelInfo& info = launch.kernel->info;
  r.kernel = info.name;
  r.grid = launch.grid;
  r.block = launch.block;
  r.waves_per_group = waves_of(launch);
  r.vgprs = info.vgpr_count;
  r.agprs = info.agpr_count;
  r.sgprs = info.sgpr_count;
  r.lds_bytes = info.group_segment_size + launch.dynamic_lds;
  r.scratch_bytes = info.private_segment_size;
  r.vgpr_spills = info.vgpr_spill_count;
  r.sgpr_spills = info.sgpr_spill_count;
  r.program = launch.kernel->shared_program();
  for (const Record& record : records) r.units.push_back(record.unit);
  // Now, while the code object is loaded.
  if (r.program->lines != nullptr && !r.program->lines->empty()) {
    for (size_t k = 0; k < records.size(); ++k) {
      r.sources.push_back(r.unit.pcs[k].issues == 0 ? ""
                                                    : r.program->lines->at(r.program->address + r.program->offset[k]));
    }
  }
  return report;
}

}  // namespace gfx950::timing
