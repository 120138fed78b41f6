// Clang offload bundles: magic, then a table of (offset, size, target triple), then the code objects.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "elf.h"
#include "gfx950/gfx950.h"

namespace gfx950::loader {
namespace {

constexpr char kMagic[] = "__CLANG_OFFLOAD_BUNDLE__";
constexpr char kCompressedMagic[] = "CCOB";
constexpr size_t kMagicSize = sizeof(kMagic) - 1;
constexpr uint64_t kMaxEntries = 1024;
constexpr uint64_t kMaxTriple = 4096;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::invalid_image, "clang offload bundle: " + what);
}

uint64_t read64(const uint8_t* data, size_t size, size_t offset) {
  if (offset > size || size - offset < 8) fail("truncated at byte " + std::to_string(offset));
  uint64_t value;
  std::memcpy(&value, data + offset, 8);
  return value;
}

}  // namespace

bool is_bundle(const uint8_t* data) { return std::memcmp(data, kMagic, kMagicSize) == 0; }
bool is_elf(const uint8_t* data) {
  return std::memcmp(data,
                     "\x7f"
                     "ELF",
                     4) == 0;
}

std::pair<const uint8_t*, size_t> unbundle(const uint8_t* data, size_t size) {
  if (size >= 4 && std::memcmp(data, kCompressedMagic, 4) == 0) {
    fail("compressed (CCOB): not supported; build with --no-offload-compress");
  }
  if (size < kMagicSize || !is_bundle(data)) return {data, size};
  const uint64_t entries = read64(data, size, kMagicSize);
  if (entries > kMaxEntries) fail(std::to_string(entries) + " entries; the limit is " + std::to_string(kMaxEntries));
  size_t cursor = kMagicSize + 8;
  std::string targets;
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t offset = read64(data, size, cursor);
    const uint64_t length = read64(data, size, cursor + 8);
    const uint64_t triple_size = read64(data, size, cursor + 16);
    cursor += 24;
    if (triple_size > size - cursor) fail("target name of entry " + std::to_string(i) + " runs past the end");
    const std::string triple(reinterpret_cast<const char*>(data + cursor), triple_size);
    cursor += triple_size;
    if (offset > size || length > size - offset) fail("entry '" + triple + "' lies outside the bundle");
    // hip-amdgcn-amd-amdhsa--gfx950[:features]
    const std::string target = triple.substr(0, triple.find(':'));
    if (length != 0 && target.substr(target.rfind('-') + 1) == "gfx950") return {data + offset, length};
    targets += (targets.empty() ? "" : ", ") + triple;
  }
  throw Error(ErrorKind::unsupported_target, "clang offload bundle holds no gfx950 code object, only: " + targets);
}

size_t bundle_size(const uint8_t* data, uint64_t readable) {
  // The total size is not stored; it is where the last entry ends.
  const uint64_t entries = read64(data, readable, kMagicSize);
  if (entries > kMaxEntries) fail(std::to_string(entries) + " entries; the limit is " + std::to_string(kMaxEntries));
  size_t cursor = kMagicSize + 8;
  uint64_t end = cursor;
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t offset = read64(data, readable, cursor);
    const uint64_t length = read64(data, readable, cursor + 8);
    const uint64_t triple_size = read64(data, readable, cursor + 16);
    if (triple_size > kMaxTriple) fail("target name of " + std::to_string(triple_size) + " bytes");
    cursor += 24 + triple_size;
    if (offset > readable || length > readable - offset || cursor > readable) {
      fail("entry " + std::to_string(i) + " ends beyond the memory that can be read");
    }
    end = std::max({end, offset + length, uint64_t{cursor}});
  }
  return end;
}

}  // namespace gfx950::loader
