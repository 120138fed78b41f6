// What one workgroup does, as text: GFX950_TRACE (every instruction and the registers it changed) and GFX950_BREAK (all
// registers of a wave when it first gets to a pc). Costs nothing where no workgroup is watched.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "../exec/wave.h"
#include "gfx950/gfx950.h"

namespace gfx950 {

class Tracer {
 public:
  // Throws Error(invalid_launch) if a watch on this kernel names a workgroup or a pc that it does not have.
  static void validate(const RunOptions& options, const exec::Program& program, const Dim3& grid);
  static bool wants(const RunOptions& options, const exec::Program& program, uint64_t workgroup);

  // Registers are taken as they are now: before the first instruction.
  Tracer(const RunOptions& options, const exec::Program& program, uint64_t workgroup, uint32_t vgprs, uint32_t agprs,
         const exec::Wave* waves, uint32_t waves_count);
  ~Tracer();
  Tracer(const Tracer&) = delete;

  // Around each instruction.
  void before(const exec::Wave& wave, uint32_t index);
  void after(const exec::Wave& wave);

 private:
  struct Seen {
    std::vector<uint32_t> scalars, vectors;
    uint32_t scc = 0;
    bool at_breakpoint = false;
  };

  void dump(const exec::Wave& wave, uint32_t index);
  size_t row_of(uint32_t number) const { return number < vgprs_ ? number : exec::kAccBase + number - vgprs_; }

  const exec::Program& program_;
  uint32_t vgprs_, agprs_;
  bool trace_ = false, break_ = false;
  uint32_t break_offset_ = 0;
  std::FILE* out_ = stderr;
  bool line_open_ = false;
  std::vector<Seen> seen_;  // by wave
};

}  // namespace gfx950
