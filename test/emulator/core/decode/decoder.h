// From the bytes of a kernel to its Program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "../exec/program.h"

namespace gfx950::decode {

// Bytes of code before and behind a kernel's own, where the functions are that it calls.
struct Around {
  uint64_t before = 0, behind = 0;
};

// Decodes what can be reached from `entry` (bytes from `code`) within [code, code + size), and the functions around it
// whose addresses it computes. Throws Error(unsupported_instruction) that names the kernel, the pc and the text.
std::unique_ptr<exec::Program> decode_kernel(const std::string& name, const uint8_t* code, uint64_t size,
                                             uint64_t entry, Around around);

// One instruction by itself, for listings. Nothing is thrown: `refusal` says why it cannot be executed.
struct Examined {
  uint32_t size = 0;  // bytes; 0: no instruction
  std::string text;
  std::string base;  // the mnemonic without its encoding suffix
  exec::Klass klass = exec::Klass::other;
  bool is_branch = false;  // to `target`, bytes from `code`
  int64_t target = 0;
  std::string refusal;
};
Examined examine(const uint8_t* code, uint64_t size, uint64_t at);

}  // namespace gfx950::decode
