#include "usage.h"

#include <functional>
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
const char* const kNoResult[] = {"s_cmp_",     "s_bitcmp",    "s_cbranch_",   "s_branch",  "s_setpc",  "s_setreg",
                                 "s_waitcnt",  "s_nop",       "s_sleep",      "s_sendmsg", "s_trap",   "s_sethalt",
                                 "s_setprio",  "s_barrier",   "s_endpgm",     "s_dcache",  "s_icache", "s_ttrace",
                                 "buffer_inv", "buffer_wbl2", "s_set_gpr_idx"};

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

// The f32 and f64 multipliers are not of the XDL unit.
bool is_xdl(const std::string& base) {
  return base.compare(base.size() - 4, 4, "_f32") != 0 && !begins(base, "v_mfma_f64_");
}

// Wait states between a matrix instruction and what uses its result; README.md has the source.
Usage::Latency latency_of(const Parsed& p, unsigned passes) {
  Usage::Latency l;
  if (begins(p.base, "v_mfma_f64_")) {
    const bool small = contains(p.base, "_4x4x4_");
    l.vector = l.ab = small ? 6 : 19;
    l.overwrite = small ? 6 : 11;
    l.memory = small ? 9 : 18;
    l.c = small ? 4 : 17;
    l.same_c = small ? 4 : 0;
    return l;
  }
  const bool xdl = is_xdl(p.base);
  const unsigned more = xdl && passes != 2 ? 1 : 0;  // on gfx950
  l.overwrite = static_cast<uint8_t>(passes + (xdl ? 3 : 2));
  l.vector = l.memory = l.ab = static_cast<uint8_t>(l.overwrite + more);
  l.c = static_cast<uint8_t>(xdl ? passes + 1 + more : passes);
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

const std::set<std::string> kTranscendental = {
    "v_exp_f32", "v_log_f32", "v_rcp_f32", "v_rcp_iflag_f32", "v_rsq_f32",        "v_sqrt_f32",      "v_sin_f32",
    "v_cos_f32", "v_exp_f16", "v_log_f16", "v_rcp_f16",       "v_rsq_f16",        "v_sqrt_f16",      "v_sin_f16",
    "v_cos_f16", "v_rcp_f64", "v_rsq_f64", "v_sqrt_f64",      "v_exp_legacy_f32", "v_log_legacy_f32"};

uint16_t vector_traits(const Parsed& p) {
  const std::string& name = p.base;
  uint16_t t = 0;
  if (begins(name, "v_cmpx_")) t |= Usage::writes_exec;
  if (begins(name, "v_readlane") || begins(name, "v_readfirstlane")) t |= Usage::lane_access | Usage::reads_lane;
  if (begins(name, "v_writelane")) t |= Usage::lane_access;
  if (begins(name, "v_permlane")) t |= Usage::swaps_lanes;
  if (kTranscendental.count(name) != 0) t |= Usage::transcendental;
  if (begins(name, "v_dot")) t |= Usage::dot;
  if (name == "v_fma_f64" || name == "v_fmac_f64") t |= Usage::fma_f64;
  // SDWA that does not write a dword; the last op_sel of VOP3 chooses the half of the result, in the word's bit 14.
  if (p.encoding == decode::Encoding::sdwa && !begins(name, "v_cmp") && (p.words[1] >> 8 & 7) != 6) {
    t |= Usage::part_of_result;
  }
  const bool vop3 = p.words[0] >> 26 == 0b110100 && (p.words[0] >> 16 & 0x380) != 0x380;
  const unsigned chosen = p.words[0] >> 13 & (begins(name, "v_cvt_") ? 3 : 2);  // conversions: one byte of four
  if (vop3 && p.has("op_sel") && chosen != 0) t |= Usage::part_of_result;
  return t;
}

// Whether the old value of the result counts as an operand: accumulators, and what leaves lanes or bits as they were.
bool reads_result(const Parsed& p, const Usage& u) {
  static const char* const kAccumulators[] = {"v_fmac_",  "v_mac_",   "v_pk_fmac_", "v_dot2c_",
                                              "v_dot4c_", "v_dot8c_", "v_writelane"};
  for (const char* prefix : kAccumulators) {
    if (begins(p.base, prefix)) return true;
  }
  if (u.dpp) return !p.has("bound_ctrl") || p.value("row_mask", 15) != 15 || p.value("bank_mask", 15) != 15;
  constexpr uint32_t kPreserve = 2;
  if (p.encoding == decode::Encoding::sdwa) return u.is(Usage::part_of_result) && (p.words[1] >> 11 & 3) == kPreserve;
  return u.is(Usage::part_of_result);
}

uint16_t hardware_register(const Parsed& p) { return static_cast<uint16_t>((p.words[0] & 63) + 1); }

// Stores of more than 8 bytes read their data late, but for buffers with an offset in a register.
Registers late_store_data(const Parsed& p, const Usage& u) {
  if (u.memory != Memory::store && u.memory != Memory::atomic) return {};
  const bool buffer = begins(p.base, "buffer_");
  const size_t data = buffer ? 0 : u.memory == Memory::atomic ? 2 : 1;
  if (data >= p.operands.size() || p.operands[data].count <= 2 || !is_register(p.operands[data])) return {};
  if (buffer && p.operands.size() > 3 && p.operands[3].kind == ParsedOperand::Kind::scalar) return {};
  return registers_of(p.operands[data]);
}

void note_traits(const Parsed& p, Usage& u) {
  u.name = static_cast<uint32_t>(std::hash<std::string>()(p.base));
  if (u.unit == Unit::valu) u.traits |= vector_traits(p);
  if (u.unit == Unit::matrix) {
    if (is_xdl(p.base)) u.traits |= Usage::xdl;
    if (begins(p.base, "v_mfma_f64_")) u.traits |= Usage::matrix_f64;
  }
  if (u.memory == Memory::dma || begins(p.base, "s_sendmsg") || begins(p.base, "s_movrel") ||
      contains(p.base, "_addtid_")) {
    u.traits |= Usage::reads_m0;
  }
  if (begins(p.base, "s_set_gpr_idx")) u.traits |= Usage::writes_m0;
  if (begins(p.base, "s_setreg")) u.sets_mode = u.touches_mode = hardware_register(p);
  if (begins(p.base, "s_getreg")) u.touches_mode = hardware_register(p);
  u.store_data = late_store_data(p, u);
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
      u.passes = in.cost;
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
  const bool sparse = begins(p.base, "v_smfmac_");  // its accumulator is the result, its last operand an index
  for (size_t k = 0; k < p.operands.size(); ++k) {
    const ParsedOperand& o = p.operands[k];
    if (!is_register(o)) continue;
    if (k < results) u.writes[u.nwrites++] = registers_of(o);
    const bool also_read = kExchanges.count(p.base) != 0 || (u.memory == Memory::atomic && begins(p.base, "buffer_"));
    if (u.unit == Unit::matrix && k == 3 && !sparse) u.c_read = static_cast<int8_t>(u.nreads);
    if (k >= results || also_read) read(registers_of(o));
  }
  if (sparse) {
    u.c_read = static_cast<int8_t>(u.nreads);
    read(u.writes[0]);
  }
  constexpr Registers vcc = {kScalarBase + exec::kVcc, 2};
  if (begins(p.base, "v_div_fmas") || begins(p.base, "s_cbranch_vcc")) read(vcc);
  u.dpp = p.encoding == decode::Encoding::dpp;
  late_scalars(p, u);
  note_traits(p, u);
  if (u.unit == Unit::valu && u.nwrites != 0 && reads_result(p, u)) read(u.writes[0]);
  if (u.unit == Unit::salu && u.nwrites != 0 && u.writes[0].first == kScalarBase + exec::kM0) {
    u.traits |= Usage::writes_m0;
  }
  return u;
}

}  // namespace gfx950::hazards
