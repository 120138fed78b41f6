#include "lds_shadow.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "../exec/rows.h"

namespace gfx950::hazards {

using exec::for_each_lane;
using exec::kLanes;

namespace {

constexpr uint32_t kLastStamp = UINT32_MAX - 2 * kStampStep;
constexpr uint32_t kAllWrites =
    1 << static_cast<int>(Access::write) | 1 << static_cast<int>(Access::dma) | 1 << static_cast<int>(Access::atomic);

}  // namespace

LdsShadow::LdsShadow(uint32_t lds_size, unsigned shift, uint32_t waves, bool dma)
    : size_(lds_size), shift_(shift), waves_(waves), ordered_lds_(waves), ordered_dma_(waves) {
  const size_t parts = (size_t{lds_size} >> shift) + 8;  // wide comparisons may look behind the end
  written_.resize(parts);
  if (waves > 1 || dma) read_.assign(waves, std::vector<uint32_t>(parts));
  block_read_.resize((lds_size >> kBlockShift) + 2);
}

void LdsShadow::start() {
  if (last_ > kLastStamp / 2) {
    std::fill(written_.begin(), written_.end(), 0);
    for (auto& stamps : read_) std::fill(stamps.begin(), stamps.end(), 0);
    std::fill(block_read_.begin(), block_read_.end(), 0);
    last_ = 0;
  }
  start_ = last_ + kStampStep;
  all_ordered();
}

void LdsShadow::all_ordered() {
  floor_ = read_floor_ = last_ | (kStampStep - 1);
  std::fill(ordered_lds_.begin(), ordered_lds_.end(), floor_);
  std::fill(ordered_dma_.begin(), ordered_dma_.end(), floor_);
  set_limits();
}

void LdsShadow::set_limits() {
  for (uint32_t low = 0; low < kStampStep; ++low) {
    const uint32_t wave = wave_of(low);
    const bool dma = access_of(low) == Access::dma;
    limits_.of[low] = wave >= waves_ ? floor_ : std::max(floor_, (dma ? ordered_dma_ : ordered_lds_)[wave]);
  }
}

LdsShadow::Limits LdsShadow::limits_for(uint32_t stamp, uint32_t own_dma) const {
  Limits result = limits_;
  const uint32_t own = stamp % kStampStep & ~3u;
  for (uint32_t kind = 0; kind < 4; ++kind) {
    uint32_t& limit = result.of[own | kind];
    limit = static_cast<Access>(kind) == Access::dma ? std::max(limit, own_dma) : UINT32_MAX;
  }
  return result;
}

// Or uninitialised.
bool LdsShadow::any_unordered(uint32_t first, uint32_t count, const Limits& limits) const {
  const uint32_t* stamps = written_.data() + first;
  uint32_t found = 0, k = 0;
  const __m256i low = _mm256_set1_epi32(kStampStep - 1), start = _mm256_set1_epi32(static_cast<int>(start_));
  __m256i suspects = _mm256_setzero_si256();
  for (; k + 8 <= count; k += 8) {
    const __m256i s = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(stamps + k));
    const __m256i limit = _mm256_i32gather_epi32(reinterpret_cast<const int*>(limits.of), _mm256_and_si256(s, low), 4);
    const __m256i fine = _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_min_epu32(s, limit), s),
                                          _mm256_cmpeq_epi32(_mm256_max_epu32(s, start), s));
    suspects = _mm256_or_si256(suspects, _mm256_xor_si256(fine, _mm256_set1_epi32(-1)));
  }
  for (; k < count; ++k) found |= stamps[k] < start_ || stamps[k] > limits.of[stamps[k] % kStampStep] ? 1 : 0;
  return found != 0 || !_mm256_testz_si256(suspects, suspects);
}

// The stamps are used up within one workgroup: all accesses so far count as ordered.
void LdsShadow::forget() {
  for (uint32_t& stamp : written_) stamp = stamp >= start_ ? kStampStep : 0;
  for (auto& stamps : read_) std::fill(stamps.begin(), stamps.end(), 0);
  std::fill(block_read_.begin(), block_read_.end(), 0);
  last_ = start_ = kStampStep;
  all_ordered();
}

uint32_t LdsShadow::next_stamp(uint32_t wave, Access access) {
  if (last_ >= kLastStamp) forget();
  last_ += kStampStep;
  return last_ | wave << 2 | static_cast<uint32_t>(access);
}

void LdsShadow::barrier(const std::vector<Scoreboard>& boards) {
  floor_ = read_floor_ = last_ | (kStampStep - 1);
  for (uint32_t wave = 0; wave < waves_; ++wave) {
    const Scoreboard& board = boards[wave];
    ordered_lds_[wave] = std::max(ordered_lds_[wave], board.done_lds);
    ordered_dma_[wave] = std::max(ordered_dma_[wave], board.done_dma);
    floor_ = std::min(floor_, board.oldest(kAllWrites) - 1);
    read_floor_ = std::min(read_floor_, board.oldest(1u << static_cast<int>(Access::read)) - 1);
  }
  set_limits();
}

bool LdsShadow::read_part(uint32_t part, uint32_t stamp, const Scoreboard& board, Collision& out) {
  const uint32_t earlier = written_[part];
  if (earlier < start_) {
    ++uninitialised_reads;
    out.kind = Collision::Kind::uninitialised;
    out.earlier = 0;
    return tracks_uninitialised;
  }
  if (wave_of(earlier) == wave_of(stamp)) {
    if (access_of(earlier) != Access::dma || earlier <= board.done_dma || earlier <= floor_) return false;
    out.kind = Collision::Kind::own_dma;
  } else {
    if (ordered(earlier)) return false;
    out.kind = Collision::Kind::read_after_write;
  }
  out.earlier = earlier;
  return true;
}

bool LdsShadow::read(const Places& places, uint32_t stamp, const Scoreboard& board, Collision& out) {
  uint32_t* mine = read_.empty() ? nullptr : read_[wave_of(stamp)].data();
  const uint32_t ordered_count = floor_ >= start_ ? floor_ - start_ + 1 : 0;
  bool found = false;
  auto slowly = [&](int lane, uint32_t first, uint32_t last) {
    for (uint32_t part = first; part <= last && !found; ++part) {
      if (!read_part(part, stamp, board, out)) continue;
      found = true;
      out.byte = part << shift_;
      out.lane = lane;
    }
  };
  if (shift_ == 2 && places.bytes == 16) {
    const __m128i start = _mm_set1_epi32(static_cast<int>(start_));
    const __m128i limit = _mm_set1_epi32(static_cast<int>(ordered_count));
    const __m128i own = _mm_set1_epi32(static_cast<int>(stamp));
    const uint32_t* written = written_.data();
    __m128i suspects = _mm_setzero_si128();
    auto look = [&](int i) {
      const uint32_t first = places.at[i] >> 2;
      const __m128i age = _mm_sub_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(written + first)), start);
      suspects = _mm_or_si128(suspects, _mm_cmpeq_epi32(_mm_max_epu32(age, limit), age));
      if (mine != nullptr) _mm_storeu_si128(reinterpret_cast<__m128i*>(mine + first), own);
      block_read_[places.at[i] >> kBlockShift] = stamp;
      block_read_[(places.at[i] + 15) >> kBlockShift] = stamp;
    };
    if (places.exec == ~uint64_t{0}) {
      for (int i = 0; i < kLanes; ++i) look(i);
    } else {
      for_each_lane(places.exec, look);
    }
    if (!_mm_testz_si128(suspects, suspects)) {
      const Limits limits = limits_for(stamp, board.done_dma);
      for_each_lane(places.exec, [&](int i) {
        const uint32_t first = places.at[i] >> 2;
        if (any_unordered(first, 4, limits)) slowly(i, first, first + 3);
      });
    }
    return found;
  }
  for_each_lane(places.exec, [&](int i) {
    const uint32_t first = places.at[i] >> shift_, last = (places.at[i] + places.bytes - 1) >> shift_;
    for (uint32_t part = first; part <= last; ++part) {
      if (written_[part] - start_ >= ordered_count) slowly(i, part, part);
      if (mine != nullptr) mine[part] = stamp;
      block_read_[part << shift_ >> kBlockShift] = stamp;
    }
  });
  return found;
}

bool LdsShadow::clean(uint32_t first, uint32_t count, uint32_t stamp, const Scoreboard& board) const {
  const uint32_t last_block = (first + count - 1) << shift_ >> kBlockShift;
  uint32_t last_read = 0;
  for (uint32_t block = first << shift_ >> kBlockShift; block <= last_block; ++block) {
    last_read = std::max(last_read, block_read_[block]);
  }
  auto newest = [=](const std::vector<uint32_t>& stamps) {
    uint32_t result = 0;
    for (uint32_t k = first; k < first + count; ++k) result = std::max(result, stamps[k]);
    return result;
  };
  if (newest(written_) > floor_) return false;
  if (last_read <= read_floor_) return true;
  for (uint32_t other = 0; other < read_.size(); ++other) {
    if (other != wave_of(stamp)) {
      if (newest(read_[other]) > ordered_lds_[other]) return false;
    } else if (access_of(stamp) == Access::dma && newest(read_[other]) > std::max(board.done_lds, start_ - 1)) {
      return false;
    }
  }
  return true;
}

bool LdsShadow::write_part(uint32_t part, uint32_t stamp, const Scoreboard& board, bool same_value, Collision& out) {
  const uint32_t wave = wave_of(stamp), earlier = written_[part];
  if (earlier > floor_) {
    out.earlier = earlier;
    if (wave_of(earlier) == wave) {
      if (access_of(earlier) == Access::dma && access_of(stamp) != Access::dma && earlier > board.done_dma) {
        out.kind = Collision::Kind::own_dma;
        return true;
      }
    } else if (!ordered(earlier) && !same_value &&
               !(access_of(earlier) == Access::atomic && access_of(stamp) == Access::atomic)) {
      out.kind = Collision::Kind::write_write;
      return true;
    }
  }
  if (access_of(stamp) == Access::dma && read_[wave][part] > std::max(board.done_lds, start_ - 1)) {
    out.kind = Collision::Kind::own_read;
    out.earlier = read_[wave][part];
    return true;
  }
  if (same_value) return false;
  for (uint32_t other = 0; other < read_.size(); ++other) {
    if (other == wave || read_[other][part] <= ordered_lds_[other]) continue;
    out.kind = Collision::Kind::write_after_read;
    out.earlier = read_[other][part];
    return true;
  }
  return false;
}

bool LdsShadow::write(const Places& places, uint32_t stamp, const Scoreboard& board, const uint8_t* lds,
                      const uint32_t* rows, Collision& out) {
  bool found = false;
  auto slowly = [&](int i, uint32_t first, uint32_t count) {
    const uint32_t at = places.at[i];
    bool same = false;
    if (rows != nullptr) {
      uint32_t value[4];
      for (uint32_t k = 0; 4 * k < places.bytes; ++k) value[k] = rows[k * kLanes + static_cast<uint32_t>(i)];
      if (places.high_half) value[0] >>= 16;
      same = std::memcmp(value, lds + at, places.bytes) == 0;
    }
    for (uint32_t part = first; part < first + count && !found; ++part) {
      if (!write_part(part, stamp, board, same, out)) continue;
      found = true;
      out.byte = std::max(part << shift_, at);
      out.lane = i;
    }
  };
  auto parts = [&](int i) { return ((places.at[i] + places.bytes - 1) >> shift_) - (places.at[i] >> shift_) + 1; };
  if (places.contiguous && places.exec == ~uint64_t{0}) {
    const uint32_t first = places.at[0] >> shift_;
    const uint32_t count = ((places.at[0] + kLanes * places.bytes - 1) >> shift_) - first + 1;
    if (!clean(first, count, stamp, board)) {
      for (int i = 0; i < kLanes; ++i) slowly(i, places.at[i] >> shift_, parts(i));
    }
    std::fill_n(written_.begin() + first, count, stamp);
    return found;
  }
  for_each_lane(places.exec, [&](int i) {
    const uint32_t first = places.at[i] >> shift_, count = parts(i);
    if (!clean(first, count, stamp, board)) slowly(i, first, count);
    std::fill_n(written_.begin() + first, count, stamp);
  });
  return found;
}

}  // namespace gfx950::hazards
