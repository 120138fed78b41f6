// Distances that hardware does not enforce: so many instructions or s_nop must lie between two that depend.
#pragma once

#include <array>
#include <cstdint>

#include "usage.h"

namespace gfx950::hazards {

struct TooSoon {
  enum class Kind : uint8_t { m0, matrix, vector, scalar };  // what the earlier instruction wrote
  Kind kind = Kind::m0;
  uint32_t pc = 0;  // of it
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
  struct Write {
    Registers registers;
    uint32_t pc = 0;
    uint64_t end = 0;  // clock behind the instruction
  };
  struct MatrixWrite {
    Write write;
    Usage::Latency latency;
  };
  // The last `N` of a kind.
  template <class T, unsigned N>
  struct Ring {
    std::array<T, N> items;
    unsigned next = 0;
    void push(const T& item) {
      items[next] = item;
      next = (next + 1) % N;
    }
    const T& back(unsigned k) const { return items[(next + N - 1 - k) % N]; }  // 0: the newest
  };

  bool matrix_too_soon(const Usage& u, TooSoon& out) const;
  // A register of `touched` that `write` wrote less than `states` ago.
  bool recent(const Write& write, Registers touched, unsigned states, TooSoon::Kind kind, TooSoon& out) const;

  uint64_t clock_ = 0;  // wait states since the wave began
  Write m0_;
  Ring<MatrixWrite, 32> matrix_;
  Ring<Write, 8> scalars_;  // by vector instructions
  Ring<Write, 4> vectors_;
};

}  // namespace gfx950::hazards
