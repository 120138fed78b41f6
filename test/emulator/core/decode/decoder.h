// From the bytes of a kernel to its Program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "../exec/program.h"

namespace gfx950::decode {

// Decodes what can be reached from `entry` (bytes from `code`) within [code, code + size). Throws
// Error(unsupported_instruction) that names the kernel, the pc and the text.
std::unique_ptr<exec::Program> decode_kernel(const std::string& name, const uint8_t* code, uint64_t size,
                                             uint64_t entry);

}  // namespace gfx950::decode
