#include "usage.h"

#include <set>
#include <string>

namespace gfx950::hazards {
namespace {

using decode::Parsed;
using decode::ParsedOperand;
using exec::Klass;

bool begins(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }
bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// The exceptions to "the first operand is the result, the others are sources".
const std::set<std::string> kSecondResult = {"v_add_co_u32",  "v_sub_co_u32",     "v_subrev_co_u32", "v_addc_co_u32",
                                             "v_subb_co_u32", "v_subbrev_co_u32", "v_div_scale_f32", "v_div_scale_f64",
                                             "v_mad_u64_u32", "v_mad_i64_i32"};
const std::set<std::string> kExchanges = {"v_swap_b32", "v_permlane16_swap_b32", "v_permlane32_swap_b32"};
const char* const kNoResult[] = {"s_cmp_",   "s_bitcmp",  "s_cbranch_", "s_branch",   "s_setpc",
                                 "s_setreg", "s_waitcnt", "s_nop",      "s_sleep",    "s_sendmsg",
                                 "s_trap",   "s_sethalt", "s_setprio",  "s_barrier",  "s_endpgm",
                                 "s_dcache", "s_icache",  "s_ttrace",   "buffer_inv", "buffer_wbl2"};

Registers registers_of(const ParsedOperand& o) {
  const bool scalar = o.kind == ParsedOperand::Kind::scalar;
  return {static_cast<uint16_t>(o.reg + (scalar ? kScalarBase : 0)), o.count};
}

bool is_register(const ParsedOperand& o) {
  return o.kind == ParsedOperand::Kind::scalar || o.kind == ParsedOperand::Kind::vector;
}

void classify_vector_memory(const Parsed& p, Usage& u) {
  u.flat = begins(p.base, "flat_");
  if (p.has("lds") || contains(p.base, "_load_lds_")) {
    u.memory = Memory::dma;
  } else if (contains(p.base, "_load_")) {
    u.memory = Memory::load;
  } else if (contains(p.base, "_atomic_") && p.has("sc0")) {
    u.memory = Memory::atomic;
  } else {
    u.memory = Memory::store;
  }
}

void classify_lds(const Parsed& p, Usage& u) {
  const std::string& name = p.base;
  if (contains(name, "permute") || contains(name, "swizzle")) {
    u.memory = Memory::lds_exchange;
    return;
  }
  u.accesses = contains(name, "read2") || contains(name, "write2") ? 2 : 1;
  unsigned words;
  if (begins(name, "ds_read")) {
    u.memory = Memory::lds_read;
    words = p.operands[0].count / u.accesses;
  } else if (begins(name, "ds_write")) {
    u.memory = Memory::lds_write;
    words = p.operands[1].count;
  } else {
    u.memory = Memory::lds_atomic;
    words = p.operands.back().count;
  }
  u.bytes = static_cast<uint8_t>(4 * words);
  u.high_half = contains(name, "_d16_hi");
  if (u.memory != Memory::lds_atomic && !contains(name, "_tr_")) {
    if (contains(name, "_u8") || contains(name, "_i8") || contains(name, "_b8")) u.bytes = 1;
    if (contains(name, "_u16") || contains(name, "_i16") || contains(name, "_b16")) u.bytes = 2;
  }
}

// Wait states between a matrix instruction and what uses its result; README.md has the source.
Usage::Latency latency_of(const Parsed& p, unsigned passes) {
  Usage::Latency l;
  if (begins(p.base, "v_mfma_f64_")) {
    const bool small = passes <= 4;
    l.vector = l.overwrite = small ? 6 : 11;
    l.memory = small ? 9 : 18;
    return l;
  }
  // The f32 multipliers are not of the XDL unit.
  const bool xdl = p.base.compare(p.base.size() - 4, 4, "_f32") != 0;
  const unsigned more = xdl && passes != 2 ? 1 : 0;  // on gfx950
  l.overwrite = static_cast<uint8_t>(passes + (xdl ? 3 : 2));
  l.vector = l.memory = l.ab = static_cast<uint8_t>(l.overwrite + more);
  l.c = xdl ? static_cast<uint8_t>(passes + 1 + more) : 0;
  l.same_c = passes == 2 ? 2 : 0;
  return l;
}

// Scalars whose value a vector instruction must not have written just before.
void late_scalars(const Parsed& p, Usage& u) {
  auto add = [&](const ParsedOperand& o) {
    if (o.kind == ParsedOperand::Kind::scalar && u.nlate < 3) u.late_scalars[u.nlate++] = registers_of(o);
  };
  if (u.memory == Memory::load || u.memory == Memory::store || u.memory == Memory::atomic || u.memory == Memory::dma) {
    u.late_states = 5;
    for (const ParsedOperand& o : p.operands) add(o);
  } else if (begins(p.base, "v_readlane") || begins(p.base, "v_writelane")) {
    u.late_states = 4;
    add(p.operands.back());
  } else if (begins(p.base, "v_div_fmas")) {
    u.late_states = 4;
    u.late_scalars[u.nlate++] = {kScalarBase + exec::kVcc, 2};
  }
}

int results_of(const Parsed& p, const Usage& u) {
  switch (u.memory) {
    case Memory::load:
    case Memory::atomic:
    case Memory::lds_read:
    case Memory::lds_exchange:
    case Memory::scalar_load:
      return 1;
    case Memory::store:
    case Memory::dma:
    case Memory::lds_write:
      return 0;
    case Memory::lds_atomic:
      return contains(p.base, "_rtn") ? 1 : 0;
    case Memory::none:
      break;
  }
  for (const char* prefix : kNoResult) {
    if (begins(p.base, prefix)) return 0;
  }
  return kSecondResult.count(p.base) != 0 || kExchanges.count(p.base) != 0 ? 2 : 1;
}

}  // namespace

Usage usage_of(const Parsed& p, const exec::Inst& in) {
  Usage u;
  switch (in.klass) {
    case Klass::vmem:
      classify_vector_memory(p, u);
      u.unit = Unit::memory;
      break;
    case Klass::lds:
      classify_lds(p, u);
      u.unit = Unit::memory;
      break;
    case Klass::smem:
      u.memory = Memory::scalar_load;
      break;
    case Klass::mfma:
      u.latency = latency_of(p, in.cost);
      u.unit = Unit::matrix;
      break;
    case Klass::valu:
      u.unit = Unit::valu;
      break;
    case Klass::salu:
      u.unit = begins(p.base, "v_") ? Unit::valu : Unit::salu;
      break;
    case Klass::branch:
    case Klass::other:
      break;
  }
  if (p.base == "s_waitcnt") {
    const uint32_t bits = p.words[0] & 0xffff;
    u.waits = true;
    u.wait_vm = static_cast<uint8_t>((bits & 15) | (bits >> 14 & 3) << 4);
    u.wait_lgkm = static_cast<uint8_t>(bits >> 8 & 15);
  }
  if (p.base == "buffer_wbl2") u.memory = Memory::store;  // counted by vmcnt
  if (p.base == "s_nop") u.wait_states = static_cast<uint8_t>((p.words[0] & 15) + 1);

  const size_t results = static_cast<size_t>(results_of(p, u));
  auto read = [&](Registers r) {
    if (u.nreads < Usage::kReads) u.reads[u.nreads++] = r;
  };
  for (size_t k = 0; k < p.operands.size(); ++k) {
    const ParsedOperand& o = p.operands[k];
    if (!is_register(o)) continue;
    if (k < results) u.writes[u.nwrites++] = registers_of(o);
    const bool also_read = kExchanges.count(p.base) != 0 || (u.memory == Memory::atomic && begins(p.base, "buffer_"));
    if (k >= results || also_read) read(registers_of(o));
  }
  constexpr Registers vcc = {kScalarBase + exec::kVcc, 2};
  if (begins(p.base, "v_div_fmas") || begins(p.base, "s_cbranch_vcc")) read(vcc);
  u.dpp = p.encoding == decode::Encoding::dpp;
  late_scalars(p, u);
  if (u.unit == Unit::salu && u.nwrites != 0) u.writes_m0 = u.writes[0].first == kScalarBase + exec::kM0;
  return u;
}

}  // namespace gfx950::hazards
