#include "caches.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace gfx950::timing {
namespace {

// Set-associative, least recently used. Lines are spread over sets by a hash, as channels and banks do.
class Cache {
 public:
  explicit Cache(double bytes) {
    sets_ = std::max<size_t>(1, static_cast<size_t>(bytes / kLineBytes) / kWays);
    ways_.assign(sets_ * kWays, {});
  }
  // True if it was there; it is there afterwards if `fill`.
  bool touch(uint64_t line, bool fill) {
    uint64_t mixed = line * 0x9E3779B97F4A7C15u;
    mixed ^= mixed >> 29;
    Way* set = &ways_[mixed % sets_ * kWays];
    Way* oldest = set;
    ++clock_;
    for (Way* way = set; way < set + kWays; ++way) {
      if (way->line == line + 1) {
        way->used = clock_;
        return true;
      }
      if (way->used < oldest->used) oldest = way;
    }
    if (fill) *oldest = {line + 1, clock_};
    return false;
  }

 private:
  static constexpr size_t kWays = 16;
  struct Way {
    uint64_t line = 0;  // plus one
    uint64_t used = 0;
  };
  size_t sets_;
  uint64_t clock_ = 0;
  std::vector<Way> ways_;
};

// Lines by the order in which their allocations are first met, which depends on the launch alone.
class Order {
 public:
  struct Entry {
    uint64_t bytes = 0;
    uint64_t base = 0;  // line
    double misses = 0;  // lines that missed L2
  };

  explicit Order(const Allocations& allocations) : allocations_(allocations) {}

  uint64_t place(uint64_t line, Entry*& entry) {
    const uint64_t number = line >> kOffsetBits;
    if (number != last_number_) {
      const auto [found, fresh] = entries_.try_emplace(number);
      last_ = &found->second;
      last_number_ = number;
      if (fresh) {
        last_->bytes = allocations_.bytes_of(number);
        last_->base = next_;
        next_ += last_->bytes / kLineBytes + 4;
      }
    }
    entry = last_;
    return last_->base + (line & ((uint64_t{1} << kOffsetBits) - 1));
  }

  std::vector<Entry> entries() const {
    std::vector<Entry> list;
    for (const auto& [number, entry] : entries_) list.push_back(entry);
    std::sort(list.begin(), list.end(), [](const Entry& a, const Entry& b) { return a.base < b.base; });
    return list;
  }

 private:
  const Allocations& allocations_;
  std::map<uint64_t, Entry> entries_;
  Entry* last_ = nullptr;
  uint64_t last_number_ = ~uint64_t{0};
  uint64_t next_ = 1;
};

}  // namespace

CacheResult replay(const std::vector<const GroupTrace*>& groups, const std::vector<unsigned>& cu_of,
                   const std::vector<Record>& records, const Allocations& allocations, const MachineParams& params,
                   double scale, bool cut_short) {
  CacheResult result;
  result.rates.resize(records.size());
  const bool modelled = params.cache_model != 0;
  std::vector<Cache> l1;
  const unsigned cus = cu_of.empty() ? 1 : *std::max_element(cu_of.begin(), cu_of.end()) + 1;
  for (unsigned k = 0; k < cus; ++k) l1.emplace_back(params.l1_bytes);
  Cache l2(params.l2_bytes);
  Order order(allocations);

  // A recording that was cut short begins with empty caches and does not end: its second half stands for what follows.
  std::vector<HitRates> before(records.size());
  HitRates loads_before;
  bool early = false;
  double weight = 1;
  auto access = [&](const WaveTrace& wave, size_t index, unsigned cu) {
    const Access& a = wave.accesses[index];
    const Record& r = records[a.pc];
    if (r.unit != Unit::vmem) return;
    double l1_missed = 0, l2_missed = 0;
    const bool loads = !r.store && r.usage->memory != hazards::Memory::atomic;
    if (a.lines_at + size_t{a.lines} > wave.lines.size()) return;  // its lines were not kept
    for (unsigned k = 0; k < a.lines; ++k) {
      Order::Entry* entry;
      const uint64_t line = order.place(wave.lines[a.lines_at + k], entry);
      ++result.lines;
      // Stores go through L1; atomics are done in L2.
      if (loads && l1[cu].touch(line, true) && modelled) continue;
      ++l1_missed;
      if (l2.touch(line, true) && modelled) continue;
      ++l2_missed;
      if (loads) entry->misses += weight;
    }
    auto add = [&](HitRates& rates) {
      rates.accesses += 1;
      rates.lines += a.lines;
      rates.l1_miss += l1_missed;
      rates.l2_miss += l2_missed;
      rates.any_l1 += l1_missed > 0;
      rates.any_l2 += l2_missed > 0;
    };
    add(early ? before[a.pc] : result.rates[a.pc]);
    if (loads) add(early ? loads_before : result.loads);
  };

  // All waves advance together, one memory instruction at a time: they started together and do the same.
  struct Lane {
    const WaveTrace* wave;
    unsigned cu;
    size_t next = 0;
  };
  std::vector<Lane> lanes;
  size_t longest = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const WaveTrace& wave : groups[g]->waves) {
      lanes.push_back({&wave, cu_of[g], 0});
      size_t kept = 0;
      for (const Access& a : wave.accesses) {
        kept += records[a.pc].unit == Unit::vmem && a.lines_at + size_t{a.lines} <= wave.lines.size();
      }
      longest = std::max(longest, kept);
    }
  }
  bool any = true;
  for (size_t turn = 0; any; ++turn) {
    any = false;
    early = cut_short && turn < longest / 2;
    weight = !cut_short ? 1 : early ? 0 : 2;
    for (Lane& lane : lanes) {
      const auto& accesses = lane.wave->accesses;
      while (lane.next < accesses.size() && records[accesses[lane.next].pc].unit != Unit::vmem) ++lane.next;
      if (lane.next >= accesses.size()) continue;
      access(*lane.wave, lane.next++, lane.cu);
      any = true;
    }
  }

  for (size_t pc = 0; pc < records.size(); ++pc) {
    if (result.rates[pc].accesses == 0) result.rates[pc] = before[pc];
  }
  if (result.loads.accesses == 0) result.loads = loads_before;

  double missed = 0, from_hbm = 0;
  for (const Order::Entry& entry : order.entries()) result.footprint += static_cast<double>(entry.bytes);
  // A line comes from HBM if the Infinity Cache is too small for what the launch touches; the first time in any case,
  // unless the launch before touched the same.
  const double keeps = 1 / (1 + std::pow(result.footprint / params.mall_bytes, params.mall_smooth));
  for (const Order::Entry& entry : order.entries()) {
    const double bytes = entry.misses * kLineBytes * scale;
    const double first = params.warm != 0 ? 0 : std::min(bytes, static_cast<double>(entry.bytes));
    missed += bytes;
    from_hbm += first + (bytes - first) * (1 - keeps);
  }
  result.hbm_share = missed > 0 ? from_hbm / missed : 1;
  return result;
}

}  // namespace gfx950::timing
