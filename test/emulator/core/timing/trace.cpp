#include "trace.h"

#include <algorithm>

#include "../exec/rows.h"

namespace gfx950::timing {

using exec::Inst;
using exec::kLanes;
using exec::Wave;
using hazards::Memory;
using hazards::Registers;
using hazards::Usage;

Recorder::Recorder(const exec::Program& program, const std::vector<Record>& records, const MachineParams& params,
                   Allocations& allocations, uint32_t waves)
    : program_(program),
      records_(records),
      params_(params),
      allocations_(allocations),
      banks_(params),
      taints_(waves),
      scratch_taints_(waves) {
  for (const std::string& text : program.text) indexed_ = indexed_ || text.rfind("s_set_gpr_idx", 0) == 0;
}

void Recorder::start(const Sample& sample, Skip skip, GroupTrace* out) {
  sample_ = sample;
  skip_ = skip;
  out_ = out;
  out->index = sample.index;
  out->waves.assign(taints_.size(), WaveTrace{});
  for (Taint& taint : taints_) taint.fill(0);
  for (auto& dwords : scratch_taints_) dwords.clear();
  lds_tainted_ = false;
  following_ = true;
  // Registers that M0 chooses cannot be followed.
  if (indexed_ && (skip == Skip::data || skip == Skip::matrix)) throw SkippedTooMuch{};
  out->depends_on_data = indexed_;
}

bool Recorder::before(Wave& w, uint32_t pc) {
  WaveTrace& trace = out_->waves[w.id_in_group];
  const bool within = trace.instructions < sample_.limit;
  ++trace.instructions;
  wave_ = &trace;
  executing_ = &w;
  open_ = false;
  if (sample_.whole) trace.pcs.push_back(pc);
  const Record& r = records_[pc];
  const bool memory = r.unit == Unit::vmem || r.unit == Unit::lds || r.unit == Unit::smem;
  if (memory && (sample_.whole || (within && r.unit == Unit::vmem))) {
    Access access;
    access.pc = pc;
    access.lines_at = static_cast<uint32_t>(trace.lines.size());
    if (r.unit == Unit::lds && r.usage->memory == Memory::lds_exchange) {
      access.bytes = 4 * kLanes;
      access.clocks = banks_.straight(access.bytes).clocks;
    }
    trace.accesses.push_back(access);
    open_ = true;
  }
  w.address_only = false;
  return !following_ || follow(w, pc);
}

// ---- what the accesses touch

void Recorder::add_lines(const uint64_t* lines, unsigned count, unsigned bytes, float clocks) {
  Access& access = wave_->accesses.back();
  access.bytes += bytes;
  access.lines = static_cast<uint16_t>(access.lines + count);
  access.clocks += clocks;
  if (sample_.lines && wave_->instructions <= sample_.limit)
    wave_->lines.insert(wave_->lines.end(), lines, lines + count);
}

uint64_t Recorder::line_of(uint64_t address) {
  if (!range_.holds(address)) {
    // Kernel arguments lie in no allocation.
    const exec::MemoryWindow& arguments = executing_->windows[0];
    range_ = allocations_.find(address, address >= arguments.begin && address < arguments.end
                                            ? arguments.begin
                                            : address & ~uint64_t{0xffffff});
  }
  return range_.line(address);
}

void Recorder::global(const Inst&, const int64_t* at, uint64_t on, unsigned bytes) {
  if (!open_) return;
  uint64_t lines[2 * kLanes];
  unsigned count = 0;
  float clocks = 0;
  const unsigned group = static_cast<unsigned>(params_.vmem_lanes_per_clk);
  for (unsigned first = 0; first < kLanes; first += group) {
    // Lanes that the address unit looks at in one clock; each line of theirs takes another.
    const unsigned begin = count;
    unsigned active = 0;
    for (unsigned lane = first; lane < first + group && lane < kLanes; ++lane) {
      if ((on >> lane & 1) == 0) continue;
      ++active;
      const uint64_t address = static_cast<uint64_t>(at[lane]);
      const uint64_t low = line_of(address);
      const uint64_t high = bytes == 1 ? low : range_.line(address + bytes - 1);
      if (count == begin || lines[count - 1] != low) lines[count++] = low;
      if (high != low) lines[count++] = high;
    }
    std::sort(lines + begin, lines + count);
    count = static_cast<unsigned>(std::unique(lines + begin, lines + count) - lines);
    const float data = static_cast<float>(active * bytes / params_.l1_bytes_per_clk);
    clocks += std::max({1.0f, static_cast<float>(count - begin), data});
  }
  // Of the whole instruction, each line once: swizzled accesses would else hit their own lines.
  std::sort(lines, lines + count);
  count = static_cast<unsigned>(std::unique(lines, lines + count) - lines);
  add_lines(lines, count, bytes * static_cast<unsigned>(__builtin_popcountll(on)), clocks);
}

// Hardware interleaves the lanes' private memory by dwords.
void Recorder::scratch(const Inst&, const int64_t* offset, uint64_t on, unsigned bytes) {
  if (!open_) return;
  alignas(64) int64_t at[kLanes] = {};
  // High addresses that no allocation has: each wave's own.
  const int64_t base = (int64_t{1} << 62) + (static_cast<int64_t>(out_->index) << 29) +
                       (static_cast<int64_t>(wave_ - out_->waves.data()) << 24);
  range_ = allocations_.find(static_cast<uint64_t>(base), static_cast<uint64_t>(base));
  exec::for_each_lane(on, [&](int lane) { at[lane] = base + offset[lane] / 4 * 4 * kLanes + 4 * lane; });
  for (unsigned k = 0; k < bytes; k += 4) {
    uint64_t lines[kLanes];
    unsigned count = 0;
    exec::for_each_lane(
        on, [&](int lane) { lines[count++] = range_.line(static_cast<uint64_t>(at[lane] + int64_t{kLanes} * k)); });
    std::sort(lines, lines + count);
    count = static_cast<unsigned>(std::unique(lines, lines + count) - lines);
    add_lines(lines, count, 4 * static_cast<unsigned>(__builtin_popcountll(on)), 4);
  }
}

void Recorder::lds(const Inst&, const uint32_t* address, uint32_t offset, uint64_t on, unsigned bytes) {
  if (!open_ || !sample_.whole) return;
  Access& access = wave_->accesses.back();
  alignas(64) uint32_t at[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) at[lane] = address[lane] + offset;
  const Memory kind = records_[access.pc].usage->memory;
  const LdsCost cost = banks_.cost(at, on, bytes, kind == Memory::lds_write || kind == Memory::lds_atomic);
  access.bytes += bytes * static_cast<unsigned>(__builtin_popcountll(on));
  access.clocks += cost.clocks;
  access.conflicts += cost.conflicts;
}

// ---- what may be skipped

bool Recorder::tainted(const Taint& taint, Registers r) const {
  for (unsigned k = r.first; k < r.first + unsigned{r.count}; ++k) {
    if ((taint[k / 64] >> (k % 64) & 1) != 0) return true;
  }
  return false;
}

void Recorder::set(Taint& taint, Registers r, bool value) const {
  for (unsigned k = r.first; k < r.first + unsigned{r.count}; ++k) {
    const uint64_t bit = uint64_t{1} << (k % 64);
    taint[k / 64] = value ? taint[k / 64] | bit : taint[k / 64] & ~bit;
  }
}

void Recorder::decided() {
  if (skip_ != Skip::none) throw SkippedTooMuch{};
  out_->depends_on_data = true;
  following_ = false;
}

bool Recorder::follow(Wave& w, uint32_t pc) {
  const Record& r = records_[pc];
  const Usage& u = *r.usage;
  Taint& taint = taints_[w.id_in_group];
  const bool skipping = skip_ == Skip::data || skip_ == Skip::matrix;
  bool any = false;
  switch (r.unit) {
    case Unit::internal:
      return true;
    case Unit::vmem:
    case Unit::lds:
    case Unit::smem:
      return follow_memory(w, pc, taint);
    case Unit::salu:
    case Unit::branch:
      for (int k = 0; k < u.nreads && !any; ++k) any = tainted(taint, u.reads[k]);
      if (any) decided();
      for (int k = 0; k < u.nwrites; ++k) set(taint, u.writes[k], false);
      return true;
    case Unit::mfma:
      if (skipping) {
        set(taint, u.writes[0], true);
        return false;
      }
      break;
    case Unit::valu:
      break;
  }
  for (int k = 0; k < u.nreads && !any; ++k) any = tainted(taint, u.reads[k]);
  if (any && program_.text[pc].rfind("v_cmpx", 0) == 0) decided();
  if (any) {
    for (int k = 0; k < u.nwrites; ++k) set(taint, u.writes[k], true);
    return !skipping;
  }
  // Lanes that are off keep what they had.
  for (int k = 0; k < u.nwrites; ++k) {
    if ((w.exec_full && !r.keeps_old) || u.writes[k].first >= hazards::kScalarBase) set(taint, u.writes[k], false);
  }
  return true;
}

// Private memory is always read and written: what is spilled there comes back, addresses among it.
bool Recorder::follow_scratch(Wave& w, uint32_t pc, bool data) {
  constexpr int64_t kAnywhere = -1;
  const Inst& in = program_.code[pc];
  std::set<int64_t>& dwords = scratch_taints_[w.id_in_group];
  if (in.src[0].kind == exec::Operand::Kind::vector) {  // each lane at a place of its own
    if (data) dwords.insert(kAnywhere);
    return !dwords.empty();
  }
  const int64_t base = in.src[1].kind == exec::Operand::Kind::scalar ? w.s[in.src[1].reg] : 0;
  const int64_t first = (base + in.offset) / 4, end = first + std::max<int64_t>(1, in.words);
  if (records_[pc].store) {
    for (int64_t dword = first; dword < end; ++dword) {
      if (data) {
        dwords.insert(dword);
      } else if (w.exec_full && in.words > 0) {
        dwords.erase(dword);
      }
    }
    return false;
  }
  const auto found = dwords.lower_bound(first);
  return dwords.count(kAnywhere) != 0 || (found != dwords.end() && *found < end);
}

bool Recorder::follow_memory(Wave& w, uint32_t pc, Taint& taint) {
  const Record& r = records_[pc];
  const Usage& u = *r.usage;
  const Inst& in = program_.code[pc];
  const bool exchange = u.memory == Memory::lds_exchange;
  // Which registers hold data and not an address.
  auto is_data = [&](int k) {
    if (exchange) return true;
    if (r.unit == Unit::lds) return k > 0;
    if (r.unit == Unit::smem || u.reads[k].first >= hazards::kScalarBase) return false;
    for (int s = 2; s < 4; ++s) {
      if (in.src[s].kind == exec::Operand::Kind::vector && in.src[s].reg == u.reads[k].first) return true;
    }
    return false;
  };
  bool data = false, address = false;
  for (int k = 0; k < u.nreads; ++k) {
    if (!tainted(taint, u.reads[k])) continue;
    (is_data(k) ? data : address) = true;
  }
  if (u.memory == Memory::dma) address = address || tainted(taint, {hazards::kScalarBase + exec::kM0, 1});
  if (address) decided();
  if (!following_) return true;
  auto result = [&](bool value) {
    for (int k = 0; k < u.nwrites; ++k) {
      if (value || (w.exec_full && !r.keeps_old) || u.writes[k].first >= hazards::kScalarBase)
        set(taint, u.writes[k], value);
    }
  };
  if (r.scratch) {
    result(follow_scratch(w, pc, data));
    return true;
  }
  const bool executes_loads = skip_ != Skip::data;  // and LDS
  switch (u.memory) {
    case Memory::scalar_load: {
      // Kernel arguments and the dispatch packet are known; other memory may change from launch to launch.
      const uint64_t base = w.read64(in.src[0].reg);
      const bool known = (base >= w.windows[0].begin && base < w.windows[0].end) ||
                         (base >= w.windows[1].begin && base < w.windows[1].end);
      result(skip_ == Skip::none && !known);
      if (!known && skip_ != Skip::none) out_->depends_on_data = true;  // perhaps: it is not followed
      return true;
    }
    case Memory::store:
      w.address_only = skip_ != Skip::none;
      return true;
    case Memory::atomic:
      // Cannot be executed without changing memory.
      w.address_only = skip_ != Skip::none;
      result(true);
      return true;
    case Memory::load:
      w.address_only = !executes_loads;
      result(skip_ == Skip::none || !executes_loads);
      return true;
    case Memory::dma:
      w.address_only = !executes_loads;
      if (skip_ == Skip::none || !executes_loads) lds_tainted_ = true;
      return true;
    case Memory::lds_write:
      w.address_only = !executes_loads;
      lds_tainted_ = lds_tainted_ || data || !executes_loads;
      return true;
    case Memory::lds_atomic:
      w.address_only = !executes_loads;
      lds_tainted_ = lds_tainted_ || data || !executes_loads;
      result(lds_tainted_);
      return true;
    case Memory::lds_read:
      w.address_only = !executes_loads;
      result(lds_tainted_ || !executes_loads);
      return true;
    case Memory::lds_exchange:
      result(data);
      return !(data && (skip_ == Skip::data || skip_ == Skip::matrix));
    case Memory::none:
      return true;
  }
  return true;
}

}  // namespace gfx950::timing
