#include "valu.h"

#include "dpp.h"
#include "sdwa.h"

namespace gfx950::exec {
namespace {

// Sign bit of each element of a source, by type; the row it is in.
void apply_sign(uint32_t* row, const Operand& o) {
  uint32_t* target = row;
  uint32_t bit = 0x80000000u;
  if (o.type == Ty::f64) {
    target = row + kLanes;
  } else if (o.type == Ty::f16) {
    bit = 0x8000u;
  }
  const uint32_t keep = o.abs ? ~bit : ~uint32_t{0};
  const uint32_t flip = o.neg ? bit : 0;
  for (int i = 0; i < kLanes; ++i) target[i] = (target[i] & keep) ^ flip;
}

void scale_and_clamp(const Inst& in, uint32_t* out) {
  const Ty type = static_cast<Ty>(in.words);  // of the result
  auto each = [&](auto lane, auto scale) {
    using L = decltype(lane);
    using V = typename L::Value;
    for (int i = 0; i < kLanes; ++i) {
      V x = L::load(out, i);
      if (in.omod != 0) x *= static_cast<V>(scale);
      if (in.clamp != 0) x = x > V(0) ? (x < V(1) ? x : V(1)) : V(0);  // NaN becomes 0 (DX10_CLAMP)
      L::store(out, i, x);
    }
  };
  const double scale = in.omod == 1 ? 2.0 : in.omod == 2 ? 4.0 : in.omod == 3 ? 0.5 : 1.0;
  if (type == Ty::f32) each(Lane<Ty::f32>{}, scale);
  if (type == Ty::f64) each(Lane<Ty::f64>{}, scale);
  if (type == Ty::f16) {
    alignas(64) uint32_t wide[kLanes];
    widen_half(out, wide);
    std::memcpy(out, wide, sizeof wide);
    each(Lane<Ty::f32>{}, scale);
    narrow_half(out);
  }
}

}  // namespace

void prepare_sources(Wave& w, const Inst& in, Prepared& out) {
  for (int k = 0; k < in.nsrc; ++k) {
    const Operand& o = in.src[k];
    uint32_t* buffer = out.buffer[k];
    const uint32_t* row = source(w, in, k, buffer);
    const bool dpp = k == 0 && (in.flags & kDpp) != 0;
    const bool high = is_16bit(o.type) && (in.op_sel >> k & 1) != 0;
    if (!dpp && !high && !o.neg && !o.abs && !o.sext && o.sel == kSelDword) {
      out.row[k] = row;
      continue;
    }
    const int words = o.type == Ty::mask ? 1 : words_of(o.type);
    if (dpp) {
      alignas(64) uint32_t moved[2 * kLanes];
      out.enabled = dpp_move(w, *static_cast<const DppMap*>(in.dpp), row, moved, words);
      std::memcpy(buffer, moved, sizeof(Row) * words);
    } else if (row != buffer) {
      std::memcpy(buffer, row, sizeof(Row) * words);
    }
    if (o.sel != kSelDword || o.sext) sdwa_select(buffer, o.sel, o.sext);
    if (high) {
      for (int i = 0; i < kLanes; ++i) buffer[i] >>= 16;
    }
    if (o.neg || o.abs) apply_sign(buffer, o);
    out.row[k] = buffer;
  }
}

void finish_result(Wave& w, const Inst& in, uint32_t* out, uint64_t enabled) {
  if (in.omod != 0 || in.clamp != 0) scale_and_clamp(in, out);
  uint32_t* d = w.v[in.dst];
  if ((in.flags & kSdwa) != 0 && in.dst_sel != kSelDword) {
    sdwa_merge(out, d, in.dst_sel, in.dst_unused);
  } else if ((in.flags & kHighHalf) != 0) {
    for (int i = 0; i < kLanes; ++i) out[i] = (d[i] & 0xffffu) | out[i] << 16;
  } else if ((in.flags & kKeepHigh) != 0) {
    for (int i = 0; i < kLanes; ++i) out[i] = (d[i] & 0xffff0000u) | (out[i] & 0xffffu);
  }
  if (enabled == ~uint64_t{0}) {
    write_rows(w, d, out, in.dst_words);
    return;
  }
  alignas(64) uint32_t mask[kLanes];
  Wave::expand_mask(enabled & w.exec(), mask);
  for (int k = 0; k < in.dst_words; ++k) {
    for (int i = 0; i < kLanes; ++i) {
      d[k * kLanes + i] = (out[k * kLanes + i] & mask[i]) | (d[k * kLanes + i] & ~mask[i]);
    }
  }
}

void run_modified(Wave& w, const Inst& in) {
  Prepared sources;
  prepare_sources(w, in, sources);
  alignas(64) uint32_t out[2 * kLanes];
  in.lanes(out, sources.row[0], sources.row[1], sources.row[2]);
  finish_result(w, in, out, sources.enabled);
}

void build_sources(Builder& b, const decode::Parsed& p, const Entry& e, Inst& in, size_t first) {
  in.klass = Klass::valu;
  in.cost = e.cost;
  in.nsrc = e.nsrc;
  const size_t printed = e.nsrc - ((e.flags & kReadsDst) != 0 ? 1 : 0);
  b.expect_operands(p, first + printed);
  for (int k = 0; k < e.nsrc; ++k) {
    const decode::ParsedOperand& o = p.operands[static_cast<size_t>(k) < printed ? first + k : 0];
    b.vector_source(in, k, o, e.src[k]);
    if ((o.neg || o.abs) && !is_float(e.src[k])) Builder::refuse("neg or abs on an operand that is not a float");
    if ((o.neg || o.abs) && p.encoding == decode::Encoding::e32)
      Builder::refuse("source modifier in a 32-bit encoding");
    if (o.neg || o.abs) in.flags |= kModified;
  }
  if (p.encoding == decode::Encoding::dpp) {
    b.allow_modifiers(
        p, {"quad_perm", "row_shl", "row_shr", "row_ror", "wave_shl", "wave_rol", "wave_shr", "wave_ror", "row_mirror",
            "row_half_mirror", "row_bcast", "row_newbcast", "row_mask", "bank_mask", "bound_ctrl"});
    const uint32_t dpp = p.words[1];
    if (!dpp_supported(dpp)) Builder::refuse("DPP control " + std::to_string(dpp >> 8 & 0x1ff));
    in.dpp = b.own(dpp_map(dpp));
    in.flags |= kDpp;
    return;
  }
  if (p.encoding == decode::Encoding::sdwa) {
    b.allow_modifiers(p, {"dst_sel", "dst_unused", "src0_sel", "src1_sel", "clamp", "mul", "div"});
    const uint32_t bits = p.words[1];
    in.src[0].sel = bits >> 16 & 7;
    in.src[0].sext = (bits >> 19 & 1) != 0;
    if (e.nsrc > 1 && e.src[1] != Ty::mask) {
      in.src[1].sel = bits >> 24 & 7;
      in.src[1].sext = (bits >> 27 & 1) != 0;
    }
    if (in.src[0].sel > kSelDword || in.src[1].sel > kSelDword) Builder::refuse("SDWA selector 7");
    if (e.dst != Ty::none) {  // comparisons hold their scalar destination in these bits
      in.dst_sel = bits >> 8 & 7;
      in.dst_unused = bits >> 11 & 3;
      if (in.dst_sel > kSelDword || in.dst_unused > 2) Builder::refuse("SDWA destination selector");
    }
    in.flags |= kSdwa;
  } else {
    b.allow_modifiers(p, {"clamp", "mul", "div", "op_sel"});
    auto op_sel = p.modifiers.find("op_sel");
    if (op_sel != p.modifiers.end()) {
      const std::vector<int64_t>& bits = op_sel->second;
      if (bits.size() != printed + 1) Builder::refuse("op_sel with " + std::to_string(bits.size()) + " bits");
      for (size_t k = 0; k < printed; ++k) {
        if (bits[k] == 0) continue;
        if (!is_16bit(e.src[k])) Builder::refuse("op_sel on an operand that is not 16 bits wide");
        in.op_sel |= static_cast<uint8_t>(1u << k);
      }
      if (bits[printed] != 0) {
        if (!is_16bit(e.dst)) Builder::refuse("op_sel on a result that is not 16 bits wide");
        in.flags |= kHighHalf;
      }
      in.flags |= kModified;
    }
  }
  if (p.has("mul") || p.has("div")) {
    const int64_t mul = p.value("mul", 0), div = p.value("div", 0);
    in.omod = mul == 2 ? 1 : mul == 4 ? 2 : div == 2 ? 3 : 0;
    if (in.omod == 0 || !is_float(e.dst)) Builder::refuse("output modifier");
    in.flags |= kModified;
  }
  if (p.has("clamp")) {
    in.flags |= kModified;
    if (is_float(e.dst)) {
      in.clamp = 1;
    } else if ((e.flags & kIntegerClamp) == 0) {
      Builder::refuse("clamp on this integer result");
    }
  }
}

void build_valu(Builder& b, const decode::Parsed& p, const Entry& e, Inst& in) {
  if (p.operands.empty()) Builder::refuse("no destination");
  in.dst = b.vector_destination(p.operands[0], words_of(e.dst));
  in.dst_words = static_cast<uint8_t>(words_of(e.dst));
  in.words = static_cast<uint8_t>(e.dst);
  build_sources(b, p, e, in, 1);
  if (is_16bit(e.dst) && (e.flags & kPreservesHigh) != 0 && (in.flags & (kHighHalf | kSdwa)) == 0) {
    in.flags |= kKeepHigh;
  }
  in.lanes = e.lanes;
  if (p.has("clamp") && (e.flags & kIntegerClamp) != 0) {
    in.lanes = reinterpret_cast<Lanes>(reinterpret_cast<uintptr_t>(e.extra));
  }
  in.fn = in.flags == 0 ? e.fast : run_modified;
}

}  // namespace gfx950::exec
