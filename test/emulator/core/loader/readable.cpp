#include "readable.h"

#include <cinttypes>
#include <cstdio>
#include <memory>

namespace gfx950::loader {

uint64_t readable_bytes(const void* data) {
  const uint64_t begin = reinterpret_cast<uintptr_t>(data);
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(std::fopen("/proc/self/maps", "re"), &std::fclose);
  if (!maps) return UINT64_MAX;
  uint64_t end = begin;
  char line[1024];  // a longer line's rest does not look like a mapping
  while (std::fgets(line, sizeof line, maps.get()) != nullptr) {
    uint64_t low, high;
    char readable;
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %c", &low, &high, &readable) != 3) continue;
    if (high <= end) continue;
    if (low > end || readable != 'r') break;  // the list is sorted
    end = high;
  }
  return end - begin;
}

}  // namespace gfx950::loader
