// Instructions that move values between lanes, or between vector and scalar registers.
#include "valu.h"

namespace gfx950::exec {
namespace {

using u32 = uint32_t;
using u64 = uint64_t;
using decode::Parsed;

void v_readfirstlane(Wave& w, const Inst& in) {
  const u64 exec = w.exec();
  const int lane = exec == 0 ? 0 : __builtin_ctzll(exec);
  w.write32(in.dst, w.v[in.src[0].reg][lane]);
}

void v_readlane(Wave& w, const Inst& in) { w.write32(in.dst, w.v[in.src[0].reg][scalar32(w, in.src[1]) & 63]); }

void v_writelane(Wave& w, const Inst& in) { w.v[in.dst][scalar32(w, in.src[1]) & 63] = scalar32(w, in.src[0]); }

void build_read(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 1u + e.nsrc);
  b.allow_modifiers(p, {});
  in.dst = b.scalar_destination(p.operands[0], 1);
  b.vector_source(in, 0, p.operands[1], Ty::b32);
  if (in.src[0].kind != Operand::Kind::vector) Builder::refuse("source must be a vector register");
  if (e.nsrc > 1) in.src[1] = b.scalar_source(p.operands[2], Ty::u32);
  in.klass = Klass::valu;
  in.fn = e.fast;
}

void build_write(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 3);
  b.allow_modifiers(p, {});
  in.dst = b.vector_destination(p.operands[0], 1);
  in.src[0] = b.scalar_source(p.operands[1], Ty::u32);
  in.src[1] = b.scalar_source(p.operands[2], Ty::u32);
  in.klass = Klass::valu;
  in.fn = e.fast;
}

// Lanes of `d` that `in_d` selects trade places with lanes of `s` a distance away; both registers change.
template <int Distance>
void v_permlane_swap(Wave& w, const Inst& in) {
  u32* d = w.v[in.dst];
  u32* s = w.v[in.src[0].reg];
  if (!w.exec_full && in.offset == 0) {
    // The pair moves only where both lanes are on; with one off, what hardware does is not documented.
    const u64 exec = w.exec();
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((lane & Distance) != 0) continue;
      const bool low = (exec >> lane & 1) != 0, high = (exec >> (lane + Distance) & 1) != 0;
      if (low != high) fail_unsupported(w, in, "a pair of lanes of which one is off in EXEC");
      if (low) std::swap(d[lane + Distance], s[lane]);
    }
    return;
  }
  for (int base = 0; base < kLanes; base += 2 * Distance) {
    for (int i = 0; i < Distance; ++i) std::swap(d[base + Distance + i], s[base + i]);
  }
}

void build_swap(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 2);
  b.allow_modifiers(p, {"bound_ctrl", "fi"});
  if (p.has("bound_ctrl") || p.has("fi")) Builder::refuse("bound_ctrl or fi");
  in.dst = b.vector_destination(p.operands[0], 1);
  b.vector_source(in, 0, p.operands[1], Ty::b32);
  if (in.src[0].kind != Operand::Kind::vector) Builder::refuse("source must be a vector register");
  in.klass = Klass::valu;
  in.fn = e.fast;
}

void v_swap(Wave& w, const Inst& in) {
  alignas(64) u32 keep[kLanes];
  std::memcpy(keep, w.v[in.dst], sizeof keep);
  write_rows(w, w.v[in.dst], w.v[in.src[0].reg], 1);
  write_rows(w, w.v[in.src[0].reg], keep, 1);
}

// Number of set bits of the mask below this lane, in its lower or upper half, plus the second source.
template <bool Upper>
void v_mbcnt(Wave& w, const Inst& in) {
  alignas(64) u32 buffer[2][2 * kLanes];
  alignas(64) u32 out[kLanes];
  const u32* mask = source(w, in, 0, buffer[0]);
  const u32* add = source(w, in, 1, buffer[1]);
  for (int lane = 0; lane < kLanes; ++lane) {
    const u64 below = (u64{1} << lane) - 1;
    const u32 part = static_cast<u32>(Upper ? below >> 32 : below);
    out[lane] = static_cast<u32>(__builtin_popcount(mask[lane] & part)) + add[lane];
  }
  write_rows(w, w.v[in.dst], out, 1);
}

void build_mbcnt(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  build_valu(b, p, e, in);
  if (in.flags != 0) Builder::refuse("modifiers");
  in.fn = e.fast;
}

void build_nop(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 0);
  in.klass = Klass::valu;
  in.fn = e.fast;
}

}  // namespace

void register_lane(Registry& r) {
  Entry e;
  e.build = build_read;
  e.nsrc = 1;
  e.fast = v_readfirstlane;
  r["v_readfirstlane_b32"] = e;
  e.nsrc = 2;
  e.fast = v_readlane;
  r["v_readlane_b32"] = e;
  e.build = build_write;
  e.fast = v_writelane;
  r["v_writelane_b32"] = e;
  e.build = build_swap;
  e.fast = v_permlane_swap<32>;
  r["v_permlane32_swap_b32"] = e;
  e.fast = v_permlane_swap<16>;
  r["v_permlane16_swap_b32"] = e;
  e.fast = v_swap;
  r["v_swap_b32"] = e;
  Entry count = lane_op<Ty::u32, Ty::u32, Ty::u32>([](u32 a, u32 b) { return a + b; });
  count.build = build_mbcnt;
  count.fast = v_mbcnt<false>;
  r["v_mbcnt_lo_u32_b32"] = count;
  count.fast = v_mbcnt<true>;
  r["v_mbcnt_hi_u32_b32"] = count;
  e.build = build_nop;
  e.fast = [](Wave&, const Inst&) {};
  r["v_nop"] = e;
}

}  // namespace gfx950::exec
