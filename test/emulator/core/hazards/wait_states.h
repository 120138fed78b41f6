// Distances that hardware does not enforce: so many instructions or s_nop must lie between two that depend.
#pragma once

#include <array>
#include <cstdint>

#include "usage.h"

namespace gfx950::hazards {

struct TooSoon {
  enum class Kind : uint8_t { m0, matrix };
  Kind kind = Kind::m0;
  uint32_t pc = 0;  // the earlier instruction
  uint16_t reg = 0;
  unsigned missing = 0;  // wait states
};

// Of one wave.
class WaitStates {
 public:
  void clear();
  bool too_soon(const Usage& u, TooSoon& out) const;
  void advance(const Usage& u, uint32_t pc);

 private:
  bool result_too_soon(const Usage& u, TooSoon& out) const;

  struct Result {
    Registers registers;
    uint32_t pc = 0;
    uint64_t ready = 0, ready_memory = 0;
  };
  static constexpr unsigned kResults = 32;  // more than can be unfinished: the longest takes 19 states

  uint64_t clock_ = 0;
  uint64_t m0_written_ = 0;  // clock behind the instruction; 0: long ago
  uint32_t m0_pc_ = 0;
  std::array<Result, kResults> results_;  // a ring: of the last matrix instructions
  unsigned next_ = 0;
  uint64_t all_ready_ = 0;
};

}  // namespace gfx950::hazards
