#include "wait_states.h"

#include <algorithm>

namespace gfx950::hazards {
namespace {

constexpr uint64_t kM0States = 1;  // between a scalar write of M0 and an LDS DMA

bool overlap(Registers a, Registers b) { return a.first < b.first + b.count && b.first < a.first + a.count; }

}  // namespace

void WaitStates::clear() {
  clock_ = m0_written_ = all_ready_ = 0;
  next_ = 0;
  results_.fill({});
}

bool WaitStates::result_too_soon(const Usage& u, TooSoon& out) const {
  // The newest first: an older result that the newer overwrote does not matter.
  for (unsigned back = 1; back <= kResults; ++back) {
    const Result& r = results_[(next_ + kResults - back) % kResults];
    const uint64_t ready = u.unit == Unit::memory ? r.ready_memory : r.ready;
    if (std::max(r.ready, r.ready_memory) <= clock_) continue;
    auto check = [&](Registers touched, uint64_t needed) {
      if (needed <= clock_ || !overlap(touched, r.registers)) return false;
      out = {TooSoon::Kind::matrix, r.pc, std::max(touched.first, r.registers.first),
             static_cast<unsigned>(needed - clock_)};
      return true;
    };
    for (unsigned k = 0; k < u.nreads; ++k) {
      if (check(u.reads[k], ready)) return true;
    }
    for (unsigned k = 0; k < u.nwrites; ++k) {
      if (check(u.writes[k], r.ready)) return true;
    }
  }
  return false;
}

bool WaitStates::too_soon(const Usage& u, TooSoon& out) const {
  if (u.memory == Memory::dma && m0_written_ != 0 && clock_ < m0_written_ + kM0States) {
    out = {TooSoon::Kind::m0, m0_pc_, 0, static_cast<unsigned>(m0_written_ + kM0States - clock_)};
    return true;
  }
  return clock_ < all_ready_ && (u.unit == Unit::valu || u.unit == Unit::memory) && result_too_soon(u, out);
}

void WaitStates::advance(const Usage& u, uint32_t pc) {
  clock_ += u.wait_states;
  if (u.writes_m0) {
    m0_written_ = clock_;
    m0_pc_ = pc;
  } else if (u.unit == Unit::matrix) {
    Result& r = results_[next_];
    next_ = (next_ + 1) % kResults;
    r = {u.writes[0], pc, clock_ + u.result_states, clock_ + u.result_states_memory};
    all_ready_ = std::max({all_ready_, r.ready, r.ready_memory});
  }
}

}  // namespace gfx950::hazards
