// A kernel of a loaded code object: its descriptor, and its program once it has been launched.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "../decode/decoder.h"
#include "../exec/program.h"
#include "../timing/record.h"
#include "gfx950/gfx950.h"

namespace gfx950 {

// The 64-byte kernel descriptor, taken apart.
struct Descriptor {
  uint32_t group_segment_size = 0, private_segment_size = 0, kernarg_size = 0;
  int64_t entry_offset = 0;
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  uint16_t properties = 0;
  uint16_t preload_length = 0, preload_offset = 0;  // dwords
};

class Kernel {
 public:
  KernelInfo info;
  Descriptor descriptor;
  const uint8_t* code = nullptr;  // loaded, at the kernel's entry
  uint64_t code_size = 0;
  uint64_t address = 0;   // of `code` in the code object
  decode::Around around;  // the segment that the code lies in
  const loader::LineTable* lines = nullptr;

  // Decodes at the first call. Thread-safe. Throws Error(unsupported_instruction), again at every call.
  const exec::Program& program() const;
  std::shared_ptr<const exec::Program> shared_program() const;
  // What the timing model knows of its instructions. Thread-safe, as are the next two.
  const std::vector<timing::Record>& records() const;
  // Modelled times that hold for every launch of this signature.
  std::shared_ptr<const TimingReport> remembered(const std::string& signature) const;
  void remember(const std::string& signature, std::shared_ptr<const TimingReport> report) const;

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const exec::Program> program_;
  mutable std::vector<timing::Record> records_;
  mutable std::unordered_map<std::string, std::shared_ptr<const TimingReport>> times_;
};

}  // namespace gfx950
