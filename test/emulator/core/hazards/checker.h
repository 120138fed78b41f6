// The hazard checker of one workgroup at a time: sees every instruction before it is executed. README.md: what it
// finds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../exec/program.h"
#include "lds_shadow.h"
#include "scoreboard.h"
#include "wait_states.h"

namespace gfx950::hazards {

class Checker {
 public:
  // `strict`: reads of LDS bytes that nobody wrote are findings too.
  Checker(const exec::Program& program, uint32_t waves, uint32_t lds_size, bool strict);

  void start();                                      // of another workgroup
  void before(const exec::Wave& wave, uint32_t pc);  // throws Error(hazard)
  void barrier();                                    // all waves go on from it
  uint64_t uninitialised_reads() const { return shadow_.uninitialised_reads; }

 private:
  struct Noted {
    uint32_t stamp = 0, pc = 0;
  };
  static constexpr size_t kNotes = 1024;  // LDS accesses that a message can still name, of each wave

  bool lds_places(const exec::Wave& w, const exec::Inst& in, const Usage& u, int access, Places& out) const;
  bool dma_places(const exec::Wave& w, const exec::Inst& in, Places& out) const;
  uint32_t lds_access(const exec::Wave& w, uint32_t pc, const Usage& u);
  [[noreturn]] void report_register(const exec::Wave& w, uint32_t pc, const Conflict& c) const;
  [[noreturn]] void report_lds(const exec::Wave& w, uint32_t pc, const Collision& c, uint32_t stamp) const;
  [[noreturn]] void report_wait_states(const exec::Wave& w, uint32_t pc, const TooSoon& t) const;
  [[noreturn]] void report(const exec::Wave& w, uint32_t pc, const std::string& what) const;
  std::string instruction(uint32_t pc) const;
  std::string noted(uint32_t stamp) const;

  const exec::Program& program_;
  LdsShadow shadow_;
  std::vector<Scoreboard> boards_;  // by wave, as what follows
  std::vector<WaitStates> wait_states_;
  WaysSeen ways_;
  std::vector<std::array<Noted, kNotes>> notes_;
  std::vector<size_t> notes_end_;
};

}  // namespace gfx950::hazards
