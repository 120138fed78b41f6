// The instructions of one kernel, with what messages about them need.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "../hazards/usage.h"
#include "../loader/lines.h"
#include "inst.h"

namespace gfx950::exec {

struct Program {
  std::string kernel;
  uint64_t base = 0;   // address of the kernel's first instruction in host memory
  uint32_t entry = 0;  // index of the first instruction to execute
  std::vector<Inst> code;
  std::vector<int32_t> offset;  // of each instruction, bytes from `base`; functions may lie below it
  std::vector<std::string> text;
  bool interrupts = false;                  // it may call the host
  std::vector<hazards::Usage> usage;        // for the checker
  std::deque<std::shared_ptr<void>> owned;  // what Inst::extra and Inst::rows point to

  const loader::LineTable* lines = nullptr;  // of the code object, if known
  uint64_t address = 0;                      // of `base` in the code object

  // "0x1a4 at file:line" of an instruction, without the line if it is not known.
  std::string place(size_t index) const;
  // Index of the instruction at `bytes` from base, or -1.
  int64_t index_of(int64_t bytes) const;
};

}  // namespace gfx950::exec
