// What one wave has outstanding: the memory instructions behind vmcnt and lgkmcnt, and the registers they will write.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "usage.h"

namespace gfx950::hazards {

struct Event {
  uint32_t pc = 0;     // index of the instruction
  uint32_t id = 0;     // from 1, in program order
  uint32_t stamp = 0;  // place of an LDS access in the workgroup's order; 0: none
  Registers result;
  uint8_t counters = 0;  // out of order: those that have not proved it complete
};

// Instructions that complete in the order of issue. The counter's maximum makes hardware wait, so no more are in
// flight.
class InOrder {
 public:
  static constexpr unsigned kCapacity = 64;
  unsigned size() const { return size_; }
  const Event& operator[](unsigned k) const { return ring_[(head_ + k) % kCapacity]; }  // 0: the oldest
  void push(const Event& e) { ring_[(head_ + size_++) % kCapacity] = e; }
  Event pop() {
    const Event e = ring_[head_];
    head_ = (head_ + 1) % kCapacity;
    --size_;
    return e;
  }
  void clear() { head_ = size_ = 0; }

 private:
  std::array<Event, kCapacity> ring_;
  unsigned head_ = 0, size_ = 0;
};

struct Conflict {
  uint32_t pc = 0;
  uint16_t reg = 0;
  int vm = -1, lgkm = -1;  // the s_waitcnt that is missing; -1: not that counter
};

class Scoreboard {
 public:
  Scoreboard();
  void clear();

  // True if `u` touches a register whose result is outstanding.
  bool conflicts(const Usage& u, Conflict& out) const;
  void issue(const Usage& u, uint32_t pc, uint32_t stamp);
  void wait(unsigned vm, unsigned lgkm);

  // Stamps up to these are known to be complete: of the ds instructions, of the LDS DMA.
  uint32_t done_lds = 0, done_dma = 0;
  // The vmcnt or lgkmcnt that proves the LDS access of this stamp complete; -1 if it is not outstanding.
  int wait_for(uint32_t stamp) const;
  // The oldest outstanding LDS access of these kinds (bits by Access); UINT32_MAX if there is none.
  uint32_t oldest(uint32_t kinds) const;

 private:
  bool any_pending(Registers r) const;
  bool find(Registers r, const InOrder* harmless, Conflict& out) const;
  void complete(const Event& e, uint32_t* done);
  void complete_unordered(uint8_t counter);

  InOrder vector_, lds_;
  std::vector<Event> unordered_;  // scalar loads and flat instructions
  std::array<uint64_t, kRegisters / 64> pending_{};
  std::array<uint32_t, kRegisters> owner_{};  // id of the youngest event that writes the register
  uint32_t last_id_ = 0;
  unsigned outstanding_ = 0;  // events with a result
};

}  // namespace gfx950::hazards
