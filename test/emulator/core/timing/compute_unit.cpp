#include "compute_unit.h"

#include <algorithm>
#include <limits>

namespace gfx950::timing {
namespace {

using hazards::Memory;
using hazards::Registers;
using hazards::Usage;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr unsigned kMostVm = 63, kMostLgkm = 15;  // what the counters can hold

// Completion times of outstanding accesses, in the order of issue; results come back in that order.
class Counter {
 public:
  void push(double completion) {
    last_ = std::max(last_, completion);
    times_[(begin_ + size_) % kSize] = last_;
    ++size_;
  }
  void retire(double now) {
    while (size_ != 0 && times_[begin_] <= now) {
      begin_ = (begin_ + 1) % kSize;
      --size_;
    }
  }
  // When no more than `left` are outstanding.
  double when(unsigned left) const { return size_ <= left ? 0 : times_[(begin_ + size_ - left - 1) % kSize]; }
  double last() const { return last_; }
  unsigned size() const { return size_; }

 private:
  static constexpr unsigned kSize = 64;
  double times_[kSize] = {};
  unsigned begin_ = 0, size_ = 0;
  double last_ = 0;
};

struct MatrixResult {
  Registers registers;
  double issued = -1e9;
  const Usage::Latency* latency = nullptr;
};

struct Group {
  const GroupTrace* trace = nullptr;
  unsigned waves = 0, ended = 0, waiting = 0;
  double released = 0, stores = 0;
};

struct WaveState {
  const WaveTrace* trace = nullptr;
  size_t next = 0, access = 0;
  double time = 0;   // of its next issue, as far as is known
  double since = 0;  // when it could have issued, had nothing been in its way
  double started = 0, valu_ready = 0;
  double arrived = 0;  // at the barrier
  uint32_t group = 0, number = 0, simd = 0, age = 0;
  int priority = 0;
  bool in_loop = false;
  Counter vm, lgkm;
  std::array<MatrixResult, 8> results;
  unsigned results_end = 0;
  uint32_t valu_pc = 0;  // the last vector instruction, and when it issued
  double valu_time = -1e9;
};

struct Simd {
  std::array<double, kUnits> port{};  // when each class may issue again
  double matrix_free = 0;
  unsigned waves = 0, in_loop = 0;
  double loop_since = 0;
};

bool overlap(Registers a, Registers b) { return a.first < b.first + b.count && b.first < a.first + a.count; }

class ComputeUnit {
 public:
  explicit ComputeUnit(const UnitJob& job)
      : job_(job), records_(*job.records), p_(*job.params), simds_(static_cast<size_t>(p_.simds)) {
    result_.pcs.resize(records_.size());
    carry_l1_.assign(records_.size(), 0.5);
    carry_l2_.assign(records_.size(), 0.5);
    carry_hbm_.assign(records_.size(), 0.5);
    mall_rate_ = p_.mall_bytes_per_ns / p_.clock_ghz / job.active_units;
    hbm_rate_ = p_.hbm_bytes_per_ns / p_.clock_ghz / job.active_units;
  }

  UnitResult run() {
    for (unsigned k = 0; k < job_.resident; ++k) dispatch(0);
    while (WaveState* w = next()) step(*w);
    std::sort(result_.completions.begin(), result_.completions.end());
    result_.clocks = result_.completions.empty() ? 0 : result_.completions.back();
    return std::move(result_);
  }

 private:
  void dispatch(double now) {
    if (dispatched_ == job_.groups.size()) return;
    const GroupTrace* trace = job_.groups[dispatched_];
    const uint32_t number = static_cast<uint32_t>(dispatched_++);
    groups_.push_back({});
    Group& group = groups_.back();
    group.trace = trace;
    group.waves = static_cast<unsigned>(trace->waves.size());
    for (uint32_t k = 0; k < group.waves; ++k) {
      auto least = std::min_element(simds_.begin(), simds_.end(),
                                    [](const Simd& a, const Simd& b) { return a.waves < b.waves; });
      ++least->waves;
      WaveState w;
      w.trace = &trace->waves[k];
      w.time = w.since = w.started = now;
      w.group = number;
      w.number = k;
      w.simd = static_cast<uint32_t>(least - simds_.begin());
      w.age = age_++;
      waves_.push_back(std::move(w));
    }
    result_.waves += group.waves;
  }

  // Whether `a` comes before `b`: of waves that could issue at once the one of higher priority, then the one that has
  // waited longer, then the older.
  static bool before(const WaveState& a, const WaveState& b) {
    if (a.time != b.time) return a.time < b.time;
    if (a.priority != b.priority) return a.priority > b.priority;
    return a.since != b.since ? a.since < b.since : a.age < b.age;
  }

  WaveState* next() {
    WaveState* best = nullptr;
    for (WaveState& w : waves_) {
      if (best == nullptr || before(w, *best)) best = &w;
    }
    return best == nullptr || best->time == kNever ? nullptr : best;
  }

  void stall(const WaveState& w, uint32_t pc, Stall reason, double clocks) {
    result_.stalls[static_cast<size_t>(reason)] += clocks;
    PcStatistics& s = result_.pcs[pc];
    s.stalls += clocks;
    s.by_reason[static_cast<size_t>(reason)] += static_cast<float>(clocks);
    (void)w;
  }

  // ---- when an instruction may issue

  void consider(double when, Stall reason) {
    if (when > earliest_) {
      earliest_ = when;
      reason_ = reason;
    }
  }

  void consider_registers(const WaveState& w, const Record& r) {
    const Usage& u = *r.usage;
    if (p_.mfma_latency != 0) {
      for (const MatrixResult& m : w.results) {
        if (m.issued + 21 * p_.slot_clk <= w.time) continue;
        for (int k = 0; k < u.nreads; ++k) {
          if (!overlap(u.reads[k], m.registers)) continue;
          unsigned states = u.unit == hazards::Unit::memory ? m.latency->memory : m.latency->vector;
          if (r.unit == Unit::mfma) {
            const bool same = u.reads[k].first == m.registers.first && u.reads[k].count == m.registers.count;
            states = k != u.c_read ? m.latency->ab : same ? m.latency->same_c : u.latency.c != 0 ? m.latency->c : 0;
          }
          consider(m.issued + p_.slot_clk * (states + 1), Stall::matrix_data);
        }
        if (r.unit != Unit::mfma) {
          for (int k = 0; k < u.nwrites; ++k) {
            if (overlap(u.writes[k], m.registers))
              consider(m.issued + p_.slot_clk * (m.latency->overwrite + 1), Stall::matrix_data);
          }
        }
      }
    }
    if (p_.valu_latency_clk > p_.slot_clk && w.valu_time + p_.valu_latency_clk > w.time) {
      const Usage& before = *records_[w.valu_pc].usage;
      for (int k = 0; k < u.nreads; ++k) {
        for (int m = 0; m < before.nwrites; ++m) {
          if (overlap(u.reads[k], before.writes[m])) consider(w.valu_time + p_.valu_latency_clk, Stall::valu_pipe);
        }
      }
    }
  }

  double& port(Simd& simd, Unit unit) {
    if (p_.coissue == 0) return simd.port[0];
    return simd.port[static_cast<size_t>(unit == Unit::mfma ? Unit::valu : unit)];
  }

  void consider_units(WaveState& w, const Record& r) {
    Simd& simd = simds_[w.simd];
    if (r.unit == Unit::internal) {
      if (r.internal == Internal::waitcnt) {
        w.vm.retire(w.time);
        w.lgkm.retire(w.time);
        consider(w.vm.when(r.usage->wait_vm), Stall::wait_vm);
        consider(w.lgkm.when(r.usage->wait_lgkm), Stall::wait_lgkm);
      }
      return;
    }
    consider(port(simd, r.unit), Stall::issue);
    switch (r.unit) {
      case Unit::valu:
        consider(w.valu_ready, Stall::valu_pipe);
        break;
      case Unit::mfma:
        consider(simd.matrix_free, Stall::matrix_pipe);
        break;
      case Unit::lds:
        consider(lds_free_ - p_.lds_queue_clk, Stall::lds_pipe);
        break;
      case Unit::vmem:
        consider(address_free_ - p_.vmem_queue_clk, Stall::memory_pipe);
        consider(std::max({l2_free_, mall_free_, hbm_free_}) - p_.memory_queue_clk, Stall::memory_pipe);
        break;
      default:
        break;
    }
    if (r.counts_vm) {
      w.vm.retire(w.time);
      consider(w.vm.when(kMostVm - 1), Stall::memory_pipe);
    }
    if (r.counts_lgkm) {
      w.lgkm.retire(w.time);
      consider(w.lgkm.when(kMostLgkm - 1), r.unit == Unit::lds ? Stall::lds_pipe : Stall::memory_pipe);
    }
  }

  // ---- one instruction, or the news that it has to wait

  void step(WaveState& w) {
    const uint32_t pc = w.trace->pcs[w.next];
    const Record& r = records_[pc];
    earliest_ = w.time;
    consider_registers(w, r);
    consider_units(w, r);
    if (earliest_ > w.time) {
      stall(w, pc, reason_, earliest_ - w.time);
      w.time = earliest_;
      return;
    }
    ended_ = false;
    issue(w, pc, r);
    if (!ended_) w.since = w.time;
  }

  void note_event(const WaveState& w, uint32_t pc, const Record& r, double start, double clocks) {
    if (result_.events.size() >= job_.event_limit) return;
    result_.events.push_back({w.group, w.number, w.simd, pc, r.unit, r.internal == Internal::barrier, start, clocks});
  }

  void track_loop(WaveState& w, uint32_t pc) {
    const bool inside = job_.loop.found && pc >= job_.loop.first && pc <= job_.loop.last;
    if (inside == w.in_loop) return;
    Simd& simd = simds_[w.simd];
    w.in_loop = inside;
    if (inside) {
      if (simd.in_loop++ == 0) simd.loop_since = w.time;
    } else if (--simd.in_loop == 0) {
      result_.loop_simd_clocks += w.time - simd.loop_since;
    }
  }

  void issue(WaveState& w, uint32_t pc, const Record& r) {
    Simd& simd = simds_[w.simd];
    const double now = w.time;
    track_loop(w, pc);
    ++result_.pcs[pc].issues;
    ++result_.instructions;
    ++w.next;
    double occupied = p_.slot_clk;
    switch (r.unit) {
      case Unit::internal:
        internal(w, pc, r);
        return;
      case Unit::valu:
        if (p_.valu_rates != 0) occupied *= r.slots;
        port(simd, r.unit) = now + occupied;
        w.valu_pc = pc;
        w.valu_time = now;
        break;
      case Unit::mfma:
        port(simd, r.unit) = now + p_.slot_clk;
        occupied = r.passes * p_.mfma_pass_clk;
        simd.matrix_free = now + occupied;
        if (p_.mfma_valu_wait != 0) w.valu_ready = now + p_.slot_clk * r.valu_wait;
        w.results[w.results_end++ % w.results.size()] = {r.usage->writes[0], now, &r.usage->latency};
        if (w.in_loop) result_.loop_matrix_clocks += occupied;
        break;
      case Unit::salu:
        port(simd, r.unit) = now + p_.slot_clk;
        break;
      case Unit::branch: {
        port(simd, r.unit) = now + p_.slot_clk;
        const bool taken = w.next < w.trace->pcs.size() && w.trace->pcs[w.next] != pc + 1;
        const double clocks = taken ? p_.branch_taken_clk : p_.branch_clk;
        stall(w, pc, Stall::branch, std::max(0.0, clocks - p_.slot_clk));
        w.time = now + std::max(clocks, p_.slot_clk) - p_.slot_clk;
        break;
      }
      case Unit::smem:
        port(simd, r.unit) = now + p_.slot_clk;
        ++w.access;
        w.lgkm.push(now + p_.smem_latency_clk);
        break;
      case Unit::lds:
        port(simd, r.unit) = now + p_.slot_clk;
        occupied = lds(w, pc);
        break;
      case Unit::vmem:
        port(simd, r.unit) = now + p_.slot_clk;
        occupied = memory(w, pc, r);
        break;
    }
    result_.busy[static_cast<size_t>(r.unit)] += occupied;
    note_event(w, pc, r, now, occupied);
    w.time += p_.slot_clk;
  }

  double lds(WaveState& w, uint32_t pc) {
    const Access& a = w.trace->accesses[w.access++];
    const double start = std::max(w.time, lds_free_);
    lds_free_ = start + a.clocks;
    w.lgkm.push(lds_free_ + p_.lds_latency_clk);
    result_.pcs[pc].lds_clocks += a.clocks;
    result_.pcs[pc].lds_conflicts += a.conflicts;
    return a.clocks;
  }

  // Whether this access is one of the given share; shares are spread evenly.
  static bool one_of(double& carry, double share) {
    carry += share;
    if (carry < 1) return false;
    carry -= 1;
    return true;
  }

  // Every server on the way is charged now, so that later accesses find it busy.
  double memory(WaveState& w, uint32_t pc, const Record& r) {
    const Access& a = w.trace->accesses[w.access++];
    const double start = std::max(w.time, address_free_);
    address_free_ = start + a.clocks;
    result_.l1_bytes += a.bytes;
    if (a.bytes == 0) {  // no lane was on
      finish(w, r, start + p_.slot_clk);
      return a.clocks;
    }
    const HitRates& rates = job_.caches->rates[pc];
    const bool stores = r.store || r.usage->memory == Memory::atomic;
    const HitRates& known = rates.lines > 0 ? rates : job_.caches->loads;
    double done;
    if (stores) {
      const double new_share = rates.lines > 0 ? rates.l2_miss / rates.lines : 1;
      const double written = std::min<double>(a.bytes, a.lines * kLineBytes * new_share);
      charge_l2(start, a.bytes);
      charge_hbm(start, written);
      done = std::max(address_free_, l2_free_) + p_.l2_latency_clk;
      groups_[w.group].stores = std::max({groups_[w.group].stores, done, hbm_free_});
    } else {
      const bool unknown = known.lines <= 0;
      const double l1_share = unknown ? 1 : known.l1_miss / known.lines;
      const double l2_share = unknown ? 1 : known.l2_miss / known.lines;
      const double l1_lines = a.lines * l1_share, l2_lines = a.lines * l2_share;
      const double per_access = unknown ? 1 : known.accesses;
      done = std::max(address_free_, start + p_.l1_latency_clk);
      charge_l2(start, l1_lines * kLineBytes);
      const double fabric = l2_lines * kLineBytes, from_hbm = fabric * job_.caches->hbm_share;
      if (fabric > 0) {
        mall_free_ = std::max(mall_free_, start) + fabric / mall_rate_;
        result_.mall_busy += fabric / mall_rate_;
        result_.fabric_bytes += fabric;
        charge_hbm(start, from_hbm);
      }
      if (one_of(carry_l1_[pc], unknown ? 1 : known.any_l1 / per_access)) {
        done = std::max(done, std::max(address_free_, l2_free_) + p_.l2_latency_clk);
      }
      if (one_of(carry_l2_[pc], unknown ? 1 : known.any_l2 / per_access)) {
        done = std::max(done, std::max(address_free_, mall_free_) + p_.mall_latency_clk);
        if (one_of(carry_hbm_[pc], job_.caches->hbm_share)) {
          done = std::max(done, std::max(address_free_, hbm_free_) + p_.hbm_latency_clk);
        }
      }
      if (r.dma) {  // written to LDS when it arrives; the unit's time is charged now
        const double clocks = a.bytes / p_.lds_bytes_per_clk;
        lds_free_ = std::max(lds_free_, start) + clocks;
        result_.busy[static_cast<size_t>(Unit::lds)] += clocks;
      }
    }
    finish(w, r, done);
    return a.clocks;
  }

  void finish(WaveState& w, const Record& r, double done) {
    if (r.counts_vm) w.vm.push(done);
    if (r.counts_lgkm) w.lgkm.push(done);
  }

  void charge_l2(double start, double bytes) {
    if (bytes <= 0) return;
    const double clocks = bytes / p_.l2_bytes_per_clk;
    l2_free_ = std::max(l2_free_, start) + clocks;
    result_.l2_busy += clocks;
    result_.l2_bytes += bytes;
  }

  void charge_hbm(double start, double bytes) {
    if (bytes <= 0) return;
    const double clocks = bytes / hbm_rate_;
    hbm_free_ = std::max(hbm_free_, start) + clocks;
    result_.hbm_busy += clocks;
    result_.hbm_bytes += bytes;
  }

  void internal(WaveState& w, uint32_t pc, const Record& r) {
    const double now = w.time;
    double clocks = p_.slot_clk;
    switch (r.internal) {
      case Internal::nop:
        clocks = p_.slot_clk * (r.argument + 1);
        break;
      case Internal::sleep:
        clocks = std::max(p_.slot_clk, p_.sleep_clk * r.argument);
        break;
      case Internal::setprio:
        w.priority = p_.arbitration != 0 ? r.argument & 3 : 0;
        break;
      case Internal::barrier:
        note_event(w, pc, r, now, 0);
        barrier(w, pc);
        return;
      case Internal::end:
        note_event(w, pc, r, now, 0);
        end(w);
        return;
      default:
        break;
    }
    if (clocks > p_.slot_clk) stall(w, pc, Stall::idle, clocks - p_.slot_clk);
    w.time = now + clocks;
    if (w.next == w.trace->pcs.size()) end(w);  // a trace that was cut short
  }

  void barrier(WaveState& w, uint32_t pc) {
    Group& group = groups_[w.group];
    w.arrived = w.time;
    w.time = kNever;
    ++group.waiting;
    release(w.group, w.arrived, pc);
  }

  void release(uint32_t number, double now, uint32_t pc) {
    Group& group = groups_[number];
    if (group.waiting == 0 || group.waiting + group.ended < group.waves) return;
    group.waiting = 0;
    for (WaveState& w : waves_) {
      if (w.group != number || w.time != kNever) continue;
      w.time = w.since = now + p_.barrier_clk;
      stall(w, pc, Stall::barrier, w.time - w.arrived);
    }
  }

  void end(WaveState& w) {
    const uint32_t number = w.group;
    const double now = w.time;
    Group& group = groups_[number];
    if (w.in_loop && --simds_[w.simd].in_loop == 0) result_.loop_simd_clocks += now - simds_[w.simd].loop_since;
    --simds_[w.simd].waves;
    result_.wave_clocks += now - w.started;
    const uint32_t pc = w.trace->pcs.back();
    ended_ = true;  // and `w` is no more
    waves_.erase(waves_.begin() + (&w - waves_.data()));
    ++group.ended;
    if (group.ended == group.waves) {
      result_.completions.push_back(std::max(now, group.stores));
      dispatch(now);
    } else {
      release(number, now, pc);
    }
  }

  const UnitJob& job_;
  const std::vector<Record>& records_;
  const MachineParams& p_;
  UnitResult result_;
  std::vector<Simd> simds_;
  std::vector<WaveState> waves_;  // resident
  std::vector<Group> groups_;
  size_t dispatched_ = 0;
  uint32_t age_ = 0;
  double lds_free_ = 0, address_free_ = 0, l2_free_ = 0, mall_free_ = 0, hbm_free_ = 0;
  double mall_rate_ = 1, hbm_rate_ = 1;  // bytes a clock, this compute unit's share
  std::vector<double> carry_l1_, carry_l2_, carry_hbm_;
  bool ended_ = false;
  double earliest_ = 0;
  Stall reason_ = Stall::issue;
};

}  // namespace

const char* name_of(Stall stall) {
  static const char* const names[kStalls] = {"wait_vm",     "wait_lgkm", "barrier",  "matrix_data",
                                             "matrix_pipe", "valu_pipe", "lds_pipe", "memory_pipe",
                                             "issue",       "branch",    "idle"};
  return names[static_cast<int>(stall)];
}

UnitResult simulate(const UnitJob& job) { return ComputeUnit(job).run(); }

Loop hottest_loop(const GroupTrace& trace, const std::vector<Record>& records) {
  std::vector<uint64_t> hits(records.size()), passes(records.size() + 1), counts(records.size() + 1);
  std::vector<std::pair<uint32_t, uint32_t>> edges;  // first, last; of repeated ones each once
  std::vector<uint64_t> trips;
  for (const WaveTrace& wave : trace.waves) {
    for (size_t k = 0; k < wave.pcs.size(); ++k) {
      ++hits[wave.pcs[k]];
      if (k + 1 == wave.pcs.size() || wave.pcs[k + 1] > wave.pcs[k]) continue;
      const std::pair<uint32_t, uint32_t> edge{wave.pcs[k + 1], wave.pcs[k]};
      const auto found = std::find(edges.begin(), edges.end(), edge);
      if (found == edges.end()) {
        edges.push_back(edge);
        trips.push_back(1);
      } else {
        ++trips[static_cast<size_t>(found - edges.begin())];
      }
    }
  }
  for (size_t k = 0; k < records.size(); ++k) {
    counts[k + 1] = counts[k] + hits[k];
    passes[k + 1] = passes[k] + hits[k] * records[k].passes;
  }
  const std::vector<uint64_t>& weight = passes.back() != 0 ? passes : counts;
  Loop best;
  uint64_t most = 0;
  for (size_t k = 0; k < edges.size(); ++k) most = std::max(most, weight[edges[k].second + 1] - weight[edges[k].first]);
  for (size_t k = 0; k < edges.size(); ++k) {
    const auto [first, last] = edges[k];
    if (10 * (weight[last + 1] - weight[first]) < 9 * most) continue;
    if (!best.found || last - first < best.last - best.first) best = {first, last, trips[k], true};
  }
  if (most == 0) best.found = false;
  return best;
}

}  // namespace gfx950::timing
