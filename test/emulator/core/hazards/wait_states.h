// Distances that hardware does not enforce: so many instructions or s_nop must lie between two that depend.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "usage.h"

namespace gfx950::hazards {

struct TooSoon {
  enum class Kind : uint8_t { m0, matrix, matrix_input, vector, exec, store_data, mode };
  Kind kind = Kind::m0;
  uint32_t pc = 0;  // of the earlier instruction
  uint16_t reg = 0;
  unsigned missing = 0;  // wait states
};

// What a kernel's instructions were found to be at their places: whether one comes too soon depends on the way that
// led to it alone, so that a way is looked at once. Shared by the waves of one host thread.
class WaysSeen {
 public:
  static constexpr uint64_t kUnknown = 0, kNone = 1, kStraight = 2;  // a way that has no name; no way; without jumps
  explicit WaysSeen(size_t instructions) : ways_(instructions, kNone) {}
  bool seen(uint32_t pc, uint64_t way) const { return ways_[pc] == way; }
  void note(uint32_t pc, uint64_t way) { ways_[pc] = way; }

 private:
  std::vector<uint64_t> ways_;  // by instruction: the last way on which it was fine
};

// Of one wave.
class WaitStates {
 public:
  void clear();
  // False: the instruction is far enough from those that it depends on. Then it has been executed.
  bool too_soon(const std::vector<Usage>& usage, uint32_t pc, WaysSeen& ways, TooSoon& out) {
    if (pc != next_) jumped(pc);
    next_ = pc + 1;
    const uint64_t way = clock_ - jumps_[0].at >= kFar ? WaysSeen::kStraight : way_;
    if (way == WaysSeen::kUnknown || !ways.seen(pc, way)) {
      if (look_back(usage, pc, out)) return true;
      if (way != WaysSeen::kUnknown) ways.note(pc, way);
    }
    history_[end_++ % kHistory] = pc;
    clock_ += usage[pc].wait_states;
    return false;
  }

 private:
  static constexpr unsigned kFar = 20;      // wait states: nothing needs more
  static constexpr unsigned kHistory = 32;  // instructions, of at least one wait state each
  static constexpr unsigned kJumps = 4;
  struct Jump {
    uint32_t from = 0, to = 0;  // from: behind the branch, so never 0
    uint64_t at = 0;            // of the clock
  };

  void jumped(uint32_t pc);
  bool look_back(const std::vector<Usage>& usage, uint32_t pc, TooSoon& out) const;

  std::array<uint32_t, kHistory> history_;
  uint64_t end_ = 0;                   // of all that the wave executed
  uint64_t clock_ = 0;                 // wait states so far
  uint32_t next_ = UINT32_MAX;         // where it goes on if it does not jump; at first it jumps to the entry
  std::array<Jump, kJumps> jumps_;     // the last, newest first
  uint64_t way_ = WaysSeen::kUnknown;  // names the jumps that the last kFar states before the newest had
};

}  // namespace gfx950::hazards
