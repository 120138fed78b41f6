#include "wait_states.h"

#include <algorithm>

namespace gfx950::hazards {
namespace {

using Kind = TooSoon::Kind;

bool overlap(Registers a, Registers b) {
  return a.count != 0 && b.count != 0 && a.first < b.first + b.count && b.first < a.first + a.count;
}

bool is_vector_row(Registers r) { return r.first < kScalarBase; }

// The largest distance that any rule asks for between two instructions. README.md has the sources.
struct Need {
  unsigned states = 0;
  Kind kind = Kind::vector;
  uint16_t reg = 0;

  void at_least(unsigned wanted, Kind why, uint16_t which) {
    if (wanted <= states) return;
    states = wanted;
    kind = why;
    reg = which;
  }
  // If one of `touched` meets one of `changed`.
  void between(unsigned wanted, Kind why, Registers changed, Registers touched) {
    if (overlap(changed, touched)) at_least(wanted, why, std::max(changed.first, touched.first));
  }
};

constexpr uint16_t kExecReg = kScalarBase + exec::kExec, kM0Reg = kScalarBase + exec::kM0;

// `earlier` is a vector instruction, but no matrix one.
void behind_vector(const Usage& earlier, const Usage& u, Need& need) {
  const bool vector = u.unit == Unit::valu || u.unit == Unit::matrix;
  if (earlier.is(Usage::writes_exec)) {
    if (u.dpp) need.at_least(5, Kind::exec, kExecReg);
    if (u.is(Usage::lane_access) || u.is(Usage::swaps_lanes) || u.unit == Unit::matrix) {
      need.at_least(4, Kind::exec, kExecReg);
    }
  }
  for (unsigned w = 0; w < earlier.nwrites; ++w) {
    const Registers written = earlier.writes[w];
    if (!is_vector_row(written)) {
      for (unsigned s = 0; s < u.nlate; ++s) need.between(u.late_states, Kind::vector, written, u.late_scalars[s]);
      if (!vector) continue;
      for (unsigned r = 0; r < u.nreads; ++r) need.between(2, Kind::vector, written, u.reads[r]);
      continue;
    }
    if (!vector) continue;
    for (unsigned r = 0; r < u.nreads; ++r) {
      const Registers read = u.reads[r];
      if ((u.unit == Unit::matrix && !earlier.is(Usage::dot)) || u.is(Usage::swaps_lanes) || u.dpp) {
        need.between(2, Kind::vector, written, read);
      }
      if (u.is(Usage::reads_lane)) need.between(1, Kind::vector, written, read);
      if (earlier.is(Usage::transcendental) && !u.is(Usage::transcendental)) {
        need.between(1, Kind::vector, written, read);
      }
      if (earlier.is(Usage::part_of_result)) need.between(1, Kind::vector, written, read);
    }
    if (!earlier.is(Usage::part_of_result)) continue;
    for (unsigned r = 0; r < u.nwrites; ++r) need.between(1, Kind::vector, written, u.writes[r]);
  }
}

// Behind a dot product: 3, but for another of the same kind that adds to it.
void behind_dot(const Usage& earlier, const Usage& u, Need& need) {
  const bool same = u.is(Usage::dot) && u.name == earlier.name;
  for (unsigned r = 0; r < u.nreads; ++r) {
    if (!same || r != 2) need.between(3, Kind::vector, earlier.writes[0], u.reads[r]);
  }
  for (unsigned w = 0; w < u.nwrites && !same; ++w) need.between(3, Kind::vector, earlier.writes[0], u.writes[w]);
}

void behind_store(const Usage& earlier, const Usage& u, Need& need) {
  if (u.unit != Unit::valu && u.unit != Unit::matrix) return;
  for (unsigned w = 0; w < u.nwrites; ++w) need.between(2, Kind::store_data, earlier.store_data, u.writes[w]);
}

// What `earlier`, a matrix instruction, reads as C must stay until it has been read.
void over_matrix_input(const Usage& earlier, const Usage& u, Need& need) {
  if (!earlier.is(Usage::xdl) || earlier.c_read < 0 || u.unit == Unit::matrix) return;
  const unsigned states = earlier.passes > 0 ? std::min<unsigned>(earlier.passes - 1u, 15) : 0;
  for (unsigned w = 0; w < u.nwrites; ++w) {
    need.between(states, Kind::matrix_input, earlier.reads[earlier.c_read], u.writes[w]);
  }
}

unsigned states_to_read(const Usage& earlier, const Usage& u, unsigned r) {
  const Usage::Latency& l = earlier.latency;
  if (u.unit != Unit::matrix) return u.unit == Unit::memory ? l.memory : l.vector;
  if (static_cast<int>(r) != u.c_read) return l.ab;
  const Registers read = u.reads[r], written = earlier.writes[0];
  const bool same = read.first == written.first && read.count == written.count;
  if (earlier.is(Usage::matrix_f64)) {
    if (same) return std::min(l.same_c, u.latency.same_c);  // both 4x4x4
    return u.is(Usage::xdl) ? 0 : l.c;
  }
  if (same) return l.same_c;
  return u.is(Usage::xdl) && !earlier.is(Usage::xdl) ? 0 : l.c;
}

bool touches_vectors(const Usage& u) {
  return u.unit == Unit::valu || u.unit == Unit::matrix || u.unit == Unit::memory;
}

Need needed(const Usage& earlier, const Usage& u) {
  Need need;
  if (earlier.is(Usage::writes_m0) && u.is(Usage::reads_m0)) need.at_least(1, Kind::m0, kM0Reg);
  if (earlier.sets_mode != 0 && earlier.sets_mode == u.touches_mode) need.at_least(2, Kind::mode, 0);
  if (earlier.unit == Unit::valu) behind_vector(earlier, u, need);
  if (earlier.store_data.count != 0) behind_store(earlier, u, need);
  if (!touches_vectors(u)) return need;
  if (earlier.is(Usage::dot) && u.unit != Unit::matrix) behind_dot(earlier, u, need);
  if (earlier.unit == Unit::matrix) {
    over_matrix_input(earlier, u, need);
    if (earlier.is(Usage::matrix_f64) && u.is(Usage::fma_f64)) need.at_least(2, Kind::matrix, earlier.writes[0].first);
  }
  return need;
}

}  // namespace

void WaitStates::clear() { *this = {}; }

void WaitStates::jumped(uint32_t pc) {
  for (unsigned k = kJumps - 1; k > 0; --k) jumps_[k] = jumps_[k - 1];
  jumps_[0] = {next_, pc, clock_};
  way_ = 0;
  for (const Jump& jump : jumps_) {
    const bool none = jump.from == 0;  // before the entry
    if (none || clock_ - jump.at >= kFar) {
      way_ |= WaysSeen::kStraight + 1;  // no other constant
      return;
    }
    way_ = (way_ + jump.from) * 0x9E3779B97F4A7C15u + jump.to;
    way_ = (way_ ^ way_ >> 29) * 0xBF58476D1CE4E5B9u;
  }
  way_ = WaysSeen::kUnknown;
}

bool WaitStates::look_back(const std::vector<Usage>& usage, uint32_t pc, TooSoon& out) const {
  const Usage& u = usage[pc];
  bool read_found[Usage::kReads] = {}, write_found[Usage::kWrites] = {};
  unsigned since = 0;
  const uint64_t oldest = end_ > kHistory ? end_ - kHistory : 0;
  for (uint64_t k = end_; k > oldest && since < kFar; --k) {
    const uint32_t at = history_[(k - 1) % kHistory];
    const Usage& earlier = usage[at];
    Need need = needed(earlier, u);
    if (earlier.unit == Unit::matrix && touches_vectors(u)) {
      // Of the matrix instructions that wrote a register the last counts: it had to wait for the others.
      const Registers written = earlier.writes[0];
      for (unsigned r = 0; r < u.nreads; ++r) {
        if (read_found[r] || !overlap(written, u.reads[r])) continue;
        read_found[r] = true;
        need.between(states_to_read(earlier, u, r), Kind::matrix, written, u.reads[r]);
      }
      for (unsigned w = 0; w < u.nwrites && u.unit != Unit::matrix; ++w) {
        if (write_found[w] || !overlap(written, u.writes[w])) continue;
        write_found[w] = true;
        need.between(earlier.latency.overwrite, Kind::matrix, written, u.writes[w]);
      }
    }
    if (need.states > since) {
      out = {need.kind, at, need.reg, need.states - since};
      return true;
    }
    since += earlier.wait_states;
  }
  return false;
}

}  // namespace gfx950::hazards
