// An ELF64 AMDGPU code object: bounds-checked parts, and the image as it lies in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lines.h"
#include "msgpack.h"

namespace gfx950::loader {

struct Symbol {
  std::string name;
  uint64_t value = 0;  // virtual address in the object
  uint64_t size = 0;
  uint8_t type = 0;  // STT_*
};

struct Elf {
  uint32_t flags = 0;
  std::vector<Symbol> symbols;  // defined ones only
  MsgValue metadata;            // the document of the NT_AMDGPU_METADATA note
  LineTable lines;              // empty if the object was compiled without

  // The loaded segments, [base_address, base_address + image_size) of the object's address space, relocated.
  uint64_t base_address = 0;
  size_t image_size = 0;
  std::unique_ptr<uint8_t[]> storage;
  uint8_t* image = nullptr;  // 4 KiB aligned inside `storage`: code finds its data by pc-relative page arithmetic

  // Where the segments with code lie: [first, second).
  std::vector<std::pair<uint64_t, uint64_t>> executable;
  // The one that holds [address, address + size); that itself if none does.
  std::pair<uint64_t, uint64_t> executable_around(uint64_t address, uint64_t size) const;

  // The bytes at a virtual address. Throws Error(invalid_image) when [address, address + size) is not loaded.
  uint8_t* at(uint64_t address, uint64_t size, const char* what) const;
};

// Throws Error(invalid_image | unsupported_target).
Elf parse_elf(const uint8_t* data, size_t size);

// The extent of the ELF file that starts at `data`, by its headers alone, which may be damaged: `readable` bytes are
// there. Throws Error(invalid_image).
size_t elf_size(const uint8_t* data, uint64_t readable);

// If `data` is a clang offload bundle: the code object in it for gfx950, else `data` itself.
std::pair<const uint8_t*, size_t> unbundle(const uint8_t* data, size_t size);
constexpr uint64_t kLongestMagic = 24;  // bytes that the next two look at
bool is_bundle(const uint8_t* data);
bool is_elf(const uint8_t* data);
size_t bundle_size(const uint8_t* data, uint64_t readable);

}  // namespace gfx950::loader
