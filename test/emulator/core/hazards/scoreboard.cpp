#include "scoreboard.h"

#include <algorithm>

namespace gfx950::hazards {
namespace {

constexpr uint8_t kVm = 1, kLgkm = 2;

bool is_vector(Memory m) { return m == Memory::load || m == Memory::store || m == Memory::atomic || m == Memory::dma; }
bool is_lds(Memory m) {
  return m == Memory::lds_read || m == Memory::lds_write || m == Memory::lds_atomic || m == Memory::lds_exchange;
}

}  // namespace

Scoreboard::Scoreboard() { unordered_.reserve(InOrder::kCapacity + 1); }

void Scoreboard::clear() {
  vector_.clear();
  lds_.clear();
  unordered_.clear();
  pending_.fill(0);
  outstanding_ = 0;
  done_lds = done_dma = 0;
}

bool Scoreboard::any_pending(Registers r) const {
  const unsigned last = r.first + r.count - 1u;
  const uint64_t low = ~uint64_t{0} << (r.first % 64), high = ~uint64_t{0} >> (63 - last % 64);
  if (r.first / 64 == last / 64) return (pending_[r.first / 64] & low & high) != 0;
  return ((pending_[r.first / 64] & low) | (pending_[last / 64] & high)) != 0;  // operands have at most 64 registers
}

// `harmless`: the queue that the instruction itself joins: results of one queue arrive in order.
bool Scoreboard::find(Registers r, const InOrder* harmless, Conflict& out) const {
  for (uint16_t reg = r.first; reg < r.first + r.count; ++reg) {
    if ((pending_[reg / 64] >> (reg % 64) & 1) == 0) continue;
    for (const InOrder* queue : {&vector_, &lds_}) {
      for (unsigned k = 0; k < queue->size(); ++k) {
        const Event& e = (*queue)[k];
        if (e.id != owner_[reg]) continue;
        if (queue == harmless) break;
        const int left = static_cast<int>(queue->size() - k - 1);
        out = {e.pc, reg, queue == &vector_ ? left : -1, queue == &lds_ ? left : -1};
        return true;
      }
    }
    for (const Event& e : unordered_) {
      if (e.id != owner_[reg]) continue;
      out = {e.pc, reg, (e.counters & kVm) != 0 ? 0 : -1, (e.counters & kLgkm) != 0 ? 0 : -1};
      return true;
    }
  }
  return false;
}

bool Scoreboard::conflicts(const Usage& u, Conflict& out) const {
  if (outstanding_ == 0) return false;
  for (unsigned k = 0; k < u.nreads; ++k) {
    if (any_pending(u.reads[k]) && find(u.reads[k], nullptr, out)) return true;
  }
  for (unsigned k = 0; k < u.nwrites; ++k) {
    if (!any_pending(u.writes[k])) continue;
    const InOrder* harmless = u.flat ? nullptr : is_vector(u.memory) ? &vector_ : is_lds(u.memory) ? &lds_ : nullptr;
    if (find(u.writes[k], harmless, out)) return true;
  }
  return false;
}

void Scoreboard::issue(const Usage& u, uint32_t pc, uint32_t stamp) {
  Event e{pc, ++last_id_, stamp, u.nwrites != 0 ? u.writes[0] : Registers{}, 0};
  if (e.result.count != 0) {
    ++outstanding_;
    for (uint16_t reg = e.result.first; reg < e.result.first + e.result.count; ++reg) {
      pending_[reg / 64] |= uint64_t{1} << (reg % 64);
      owner_[reg] = e.id;
    }
  }
  if (u.flat || u.memory == Memory::scalar_load) {
    e.counters = u.flat ? kVm | kLgkm : kLgkm;
    unordered_.push_back(e);
    if (unordered_.size() > InOrder::kCapacity) {
      complete(unordered_.front(), nullptr);
      unordered_.erase(unordered_.begin());
    }
  } else if (is_vector(u.memory)) {
    if (vector_.size() == InOrder::kCapacity) complete(vector_.pop(), &done_dma);
    vector_.push(e);
  } else {
    if (lds_.size() == InOrder::kCapacity) complete(lds_.pop(), &done_lds);
    lds_.push(e);
  }
}

void Scoreboard::complete(const Event& e, uint32_t* done) {
  if (done != nullptr && e.stamp != 0) *done = e.stamp;
  if (e.result.count == 0) return;
  --outstanding_;
  for (uint16_t reg = e.result.first; reg < e.result.first + e.result.count; ++reg) {
    if (owner_[reg] == e.id) pending_[reg / 64] &= ~(uint64_t{1} << (reg % 64));
  }
}

void Scoreboard::complete_unordered(uint8_t counter) {
  size_t kept = 0;
  for (Event& e : unordered_) {
    e.counters &= static_cast<uint8_t>(~counter);
    if (e.counters == 0) {
      complete(e, nullptr);
    } else {
      unordered_[kept++] = e;
    }
  }
  unordered_.resize(kept);
}

// A counter counts both kinds. Those out of order may all be complete, so of the others only the oldest are proved to
// be; and any one of those out of order is proved complete by 0 alone.
void Scoreboard::wait(unsigned vm, unsigned lgkm) {
  while (vector_.size() > vm) complete(vector_.pop(), &done_dma);
  while (lds_.size() > lgkm) complete(lds_.pop(), &done_lds);
  if (unordered_.empty()) return;
  if (vm == 0) complete_unordered(kVm);
  if (lgkm == 0) complete_unordered(kLgkm);
}

int Scoreboard::wait_for(uint32_t stamp) const {
  for (const InOrder* queue : {&vector_, &lds_}) {
    for (unsigned k = 0; k < queue->size(); ++k) {
      if ((*queue)[k].stamp == stamp) return static_cast<int>(queue->size() - k - 1);
    }
  }
  return -1;
}

uint32_t Scoreboard::oldest(uint32_t kinds) const {
  uint32_t oldest = UINT32_MAX;
  for (const InOrder* queue : {&vector_, &lds_}) {
    for (unsigned k = 0; k < queue->size(); ++k) {
      const Event& e = (*queue)[k];
      if (e.stamp == 0 || (kinds >> (e.stamp & 3) & 1) == 0) continue;
      oldest = std::min(oldest, e.stamp);
      break;
    }
  }
  return oldest;
}

}  // namespace gfx950::hazards
