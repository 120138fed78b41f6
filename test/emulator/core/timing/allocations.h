// Addresses that depend on neither the host nor its threads: an allocation, and the bytes from its beginning.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace gfx950::timing {

constexpr unsigned kLineShift = 7;    // lines of 128 bytes
constexpr unsigned kOffsetBits = 40;  // of a line's number, below its allocation's

// Numbers the allocations of a launch as they are met. The numbers depend on host threads; the caches give them an
// order of their own. Thread-safe.
class Allocations {
 public:
  struct Range {
    uint64_t begin = 1, end = 0;  // empty
    uint64_t number = 0;
    bool holds(uint64_t address) const { return address >= begin && address < end; }
    // As if the allocation began at the beginning of a line, as hipMalloc's do.
    uint64_t line(uint64_t address) const { return number << kOffsetBits | (address - begin) >> kLineShift; }
  };
  // That holds the address; memory that nobody registered counts from `otherwise`.
  Range find(uint64_t address, uint64_t otherwise);
  uint64_t bytes_of(uint64_t number) const;

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, Range> by_begin_;
  std::map<uint64_t, uint64_t> bytes_;  // by number
};

}  // namespace gfx950::timing
