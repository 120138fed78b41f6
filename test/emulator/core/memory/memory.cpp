#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "gfx950/gfx950.h"

namespace gfx950 {
namespace {

// Owned behind the singleton rather than inside Memory so that the public header needs no container or mutex.
struct Store {
  std::shared_mutex mutex;
  std::map<uintptr_t, Memory::Range> ranges;  // by begin; never overlapping
  std::map<uintptr_t, size_t> owned;          // begin -> size of what allocate() made
  std::map<int, size_t> of_device;            // sums of `owned`
};

Store& store() {
  static Store* instance = new Store;  // never destroyed: tensors may be freed after static destructors have started
  return *instance;
}

constexpr size_t kAlignment = 256;

}  // namespace

Memory& Memory::instance() {
  static Memory memory;
  return memory;
}

void* Memory::allocate(size_t size, int device, bool poison) {
  // An empty allocation still needs an address of its own.
  const size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded < size) return nullptr;
  void* pointer = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
  if (pointer == nullptr) return nullptr;
  if (poison) std::memset(pointer, 0xA5, rounded);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(pointer);
  std::unique_lock lock(store().mutex);
  store().ranges[begin] = Range{begin, begin + size, Owner::device, device};
  store().owned[begin] = size;
  store().of_device[device] += size;
  return pointer;
}

bool Memory::release(void* pointer) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(pointer);
  {
    std::unique_lock lock(store().mutex);
    const auto owned = store().owned.find(begin);
    if (owned == store().owned.end()) return false;
    store().of_device[store().ranges.at(begin).device] -= owned->second;
    store().owned.erase(owned);
    store().ranges.erase(begin);
  }
  std::free(pointer);
  return true;
}

void Memory::add(void* pointer, size_t size, Owner owner, int device) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(pointer);
  std::unique_lock lock(store().mutex);
  // Two ranges over one byte would let a stale one decide what is in bounds.
  auto next = store().ranges.lower_bound(begin);
  const bool meets_next = next != store().ranges.end() && next->first < begin + size;
  const bool meets_previous = next != store().ranges.begin() && std::prev(next)->second.end > begin;
  if (meets_next || meets_previous) {
    throw Error(ErrorKind::memory_fault, "memory of " + std::to_string(size) +
                                             " bytes overlaps a range that is registered already; "
                                             "remove that one first");
  }
  store().ranges[begin] = Range{begin, begin + size, owner, device};
}

bool Memory::remove(void* pointer) {
  std::unique_lock lock(store().mutex);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(pointer);
  if (store().owned.count(begin) != 0) return false;  // made by allocate(): release() frees it
  return store().ranges.erase(begin) == 1;
}

std::optional<Memory::Range> Memory::find(const void* pointer) const {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  std::shared_lock lock(store().mutex);
  auto next = store().ranges.upper_bound(address);
  if (next == store().ranges.begin()) return std::nullopt;
  const Range& range = std::prev(next)->second;
  if (address >= range.end) return std::nullopt;
  return range;
}

std::optional<Memory::Range> Memory::nearest(const void* pointer) const {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  std::shared_lock lock(store().mutex);
  std::optional<Range> best;
  uintptr_t best_distance = 0;
  auto consider = [&](const Range& range) {
    const uintptr_t distance = address < range.begin ? range.begin - address
                               : address < range.end ? 0
                                                     : address - range.end;
    if (!best || distance < best_distance) {
      best = range;
      best_distance = distance;
    }
  };
  auto next = store().ranges.upper_bound(address);
  if (next != store().ranges.end()) consider(next->second);
  if (next != store().ranges.begin()) consider(std::prev(next)->second);
  return best;
}

size_t Memory::allocated_bytes(int device) const {
  std::shared_lock lock(store().mutex);
  const auto found = store().of_device.find(device);
  return found == store().of_device.end() ? 0 : found->second;
}

}  // namespace gfx950
