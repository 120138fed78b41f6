#include "allocations.h"

#include "gfx950/gfx950.h"

namespace gfx950::timing {

Allocations::Range Allocations::find(uint64_t address, uint64_t otherwise) {
  Range range{otherwise, otherwise + (uint64_t{1} << 24), 0};
  if (const auto found = Memory::instance().find(reinterpret_cast<const void*>(address))) {
    range.begin = found->begin;
    range.end = found->end;
  }
  std::lock_guard lock(mutex_);
  const auto known = by_begin_.find(range.begin);
  if (known != by_begin_.end()) return known->second;
  range.number = by_begin_.size() + 1;
  bytes_[range.number] = range.end - range.begin;
  return by_begin_[range.begin] = range;
}

uint64_t Allocations::bytes_of(uint64_t number) const {
  std::lock_guard lock(mutex_);
  const auto found = bytes_.find(number);
  return found == bytes_.end() ? 0 : found->second;
}

}  // namespace gfx950::timing
