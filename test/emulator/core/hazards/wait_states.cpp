#include "wait_states.h"

#include <algorithm>

namespace gfx950::hazards {
namespace {

constexpr unsigned kM0States = 1;       // between a scalar write of M0 and an LDS DMA
constexpr unsigned kVectorStates = 2;   // between a vector write and a matrix or DPP instruction that reads it
constexpr unsigned kMatrixStates = 20;  // no result takes longer
constexpr unsigned kScalarStates = 5;

bool overlap(Registers a, Registers b) { return a.first < b.first + b.count && b.first < a.first + a.count; }

}  // namespace

void WaitStates::clear() { *this = {}; }

bool WaitStates::recent(const Write& write, Registers touched, unsigned states, TooSoon::Kind kind,
                        TooSoon& out) const {
  if (write.end == 0 || clock_ >= write.end + states || !overlap(touched, write.registers)) return false;
  out = {kind, write.pc, std::max(touched.first, write.registers.first),
         static_cast<unsigned>(write.end + states - clock_)};
  return true;
}

bool WaitStates::matrix_too_soon(const Usage& u, TooSoon& out) const {
  for (unsigned k = 0; k < matrix_.items.size(); ++k) {
    const MatrixWrite& m = matrix_.back(k);
    if (m.write.end + kMatrixStates <= clock_ || m.write.end == 0) break;
    const Usage::Latency& l = m.latency;
    for (unsigned r = 0; r < u.nreads; ++r) {
      unsigned states = u.unit == Unit::memory ? l.memory : l.vector;
      if (u.unit == Unit::matrix) {
        const bool same = u.reads[r].first == m.write.registers.first && u.reads[r].count == m.write.registers.count;
        states = r != 2 ? l.ab : same ? l.same_c : u.latency.c != 0 ? l.c : 0;
      }
      if (recent(m.write, u.reads[r], states, TooSoon::Kind::matrix, out)) return true;
    }
    if (u.unit == Unit::matrix) continue;
    for (unsigned r = 0; r < u.nwrites; ++r) {
      if (recent(m.write, u.writes[r], l.overwrite, TooSoon::Kind::matrix, out)) return true;
    }
  }
  return false;
}

bool WaitStates::too_soon(const Usage& u, TooSoon& out) const {
  if (u.memory == Memory::dma && recent(m0_, m0_.registers, kM0States, TooSoon::Kind::m0, out)) return true;
  if (u.unit == Unit::matrix || u.unit == Unit::valu || u.unit == Unit::memory) {
    if (matrix_too_soon(u, out)) return true;
  }
  if (u.unit == Unit::matrix || u.dpp) {
    const unsigned reads = u.dpp ? std::min<unsigned>(u.nreads, 1) : u.nreads;
    for (unsigned k = 0; k < vectors_.items.size(); ++k) {
      for (unsigned r = 0; r < reads; ++r) {
        if (recent(vectors_.back(k), u.reads[r], kVectorStates, TooSoon::Kind::vector, out)) return true;
      }
    }
  }
  for (unsigned s = 0; s < u.nlate; ++s) {
    for (unsigned k = 0; k < kScalarStates; ++k) {
      if (recent(scalars_.back(k), u.late_scalars[s], u.late_states, TooSoon::Kind::scalar, out)) return true;
    }
  }
  return false;
}

void WaitStates::advance(const Usage& u, uint32_t pc) {
  clock_ += u.wait_states;
  if (u.writes_m0) {
    m0_ = {u.writes[0], pc, clock_};
  } else if (u.unit == Unit::matrix) {
    matrix_.push({{u.writes[0], pc, clock_}, u.latency});
  } else if (u.unit == Unit::valu) {
    for (unsigned k = 0; k < u.nwrites; ++k) {
      const Write write = {u.writes[k], pc, clock_};
      if (write.registers.first >= kScalarBase) {
        scalars_.push(write);
      } else {
        vectors_.push(write);
      }
    }
  }
}

}  // namespace gfx950::hazards
