// Who wants to know which memory an instruction touches: the timing model, of the workgroups that it samples.
#pragma once

#include <cstdint>

namespace gfx950::exec {

struct Inst;

class Probe {
 public:
  virtual ~Probe() = default;
  // Lanes in `on` access `bytes` bytes each at `at[lane]`.
  virtual void global(const Inst& in, const int64_t* at, uint64_t on, unsigned bytes) = 0;
  // Private memory: byte `offset[lane]` of the lane's own.
  virtual void scratch(const Inst& in, const int64_t* offset, uint64_t on, unsigned bytes) = 0;
  // One access of each lane in `on`; instructions with two offsets call twice.
  virtual void lds(const Inst& in, const uint32_t* address, uint32_t offset, uint64_t on, unsigned bytes) = 0;
};

}  // namespace gfx950::exec
