// AMD's LLVM as a disassembler: libLLVM.so of the Python package rocm-bindings-compiler, found by GFX950_LIBLLVM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gfx950::decode {

// Disassembles the instruction at `bytes`. Returns its size, 0 if the bytes are no instruction of gfx950. Thread-safe.
// Throws Error(unsupported_instruction) when LLVM cannot be loaded; the text says what to install or set.
size_t disassemble(const uint8_t* bytes, size_t size, uint64_t address, std::string& text);

}  // namespace gfx950::decode
