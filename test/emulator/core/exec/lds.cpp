// ds_*: local data share, and the lane exchanges that use its crossbar.
#include "atomics.h"
#include "builder.h"
#include "element.h"
#include "rows.h"
#include "wave.h"

namespace gfx950::exec {
namespace {

using u8 = uint8_t;
using u32 = uint32_t;
using u64 = uint64_t;
using decode::Parsed;

// LDS addresses have 32 bits: address plus offset wraps around. Compilers fold negative bases into the offset.
inline u32 wrapped(u32 address, u32 offset) { return address + offset; }

// Checks the lanes that are on.
void check_range(Wave& w, const Inst& in, const u32* address, u32 offset, u32 bytes) {
  if (w.probe != nullptr) w.probe->lds(in, address, offset, w.exec(), bytes);
  u32 top = 0;
  if (w.exec_full) {
    for (int i = 0; i < kLanes; ++i) {
      const u32 at = wrapped(address[i], offset);
      top = at > top ? at : top;
    }
  } else {
    if (w.exec() == 0) return;
    const u32* m = w.mask();
    for (int i = 0; i < kLanes; ++i) {
      const u32 at = wrapped(address[i], offset) & m[i];
      top = at > top ? at : top;
    }
  }
  if (static_cast<u64>(top) + bytes <= w.lds_size) return;
  for_each_lane(w.exec(), [&](int lane) {
    const u64 at = wrapped(address[lane], offset);
    if (at + bytes > w.lds_size) {
      fail_fault(w, in,
                 "lane " + std::to_string(lane) + " accesses LDS bytes " + std::to_string(at) + " to " +
                     std::to_string(at + bytes - 1) + "; the workgroup has " + std::to_string(w.lds_size));
    }
  });
}

// LDS addresses wider than the alignment are refused by the hardware in its default mode; the compiler promises them.
template <int Words>
void ds_read(Wave& w, const Inst& in) {
  const u32* address = w.v[in.src[0].reg];
  const u32 offset = static_cast<u32>(in.offset);
  check_range(w, in, address, offset, 4 * Words);
  if (w.address_only) return;
  if (w.exec_full) {
    alignas(64) u32 at[kLanes];  // a copy: the destination may overlap the address
    for (int i = 0; i < kLanes; ++i) at[i] = wrapped(address[i], offset);
    gather_all<Words>(w.v[in.dst], [&](int i) { return w.lds + at[i]; });
  } else {
    for_each_lane(w.exec(), [&](int i) {
      u32 x[Words];
      std::memcpy(x, w.lds + wrapped(address[i], offset), sizeof x);
      for (int k = 0; k < Words; ++k) w.v[in.dst + k][i] = x[k];
    });
  }
}

template <int Words>
void ds_write(Wave& w, const Inst& in) {
  const u32* address = w.v[in.src[0].reg];
  const u32 offset = static_cast<u32>(in.offset);
  check_range(w, in, address, offset, 4 * Words);
  if (w.address_only) return;
  const u32* data = w.v[in.src[1].reg];
  if (w.exec_full) {
    scatter_all<Words>(data, [&](int i) { return w.lds + wrapped(address[i], offset); });
  } else {
    for_each_lane(w.exec(), [&](int i) {
      u32 x[Words];
      for (int k = 0; k < Words; ++k) x[k] = data[k * kLanes + i];
      std::memcpy(w.lds + wrapped(address[i], offset), x, sizeof x);
    });
  }
}

template <Element E>
void ds_read_small(Wave& w, const Inst& in) {
  const u32* address = w.v[in.src[0].reg];
  check_range(w, in, address, static_cast<u32>(in.offset), bytes_of(E));
  if (w.address_only) return;
  u32* d = w.v[in.dst];
  for_each_lane(w.exec(), [&](int i) {
    u32 raw = 0;
    std::memcpy(&raw, w.lds + wrapped(address[i], static_cast<u32>(in.offset)), bytes_of(E));
    d[i] = loaded(E, raw, d[i]);
  });
}

template <Element E>
void ds_write_small(Wave& w, const Inst& in) {
  const u32* address = w.v[in.src[0].reg];
  check_range(w, in, address, static_cast<u32>(in.offset), bytes_of(E));
  if (w.address_only) return;
  const u32* data = w.v[in.src[1].reg];
  for_each_lane(w.exec(), [&](int i) {
    const u32 value = stored(E, data[i]);
    std::memcpy(w.lds + wrapped(address[i], static_cast<u32>(in.offset)), &value, bytes_of(E));
  });
}

// Two accesses of Words dwords; the offsets are already in bytes.
template <int Words>
void ds_read2(Wave& w, const Inst& in) {
  alignas(64) u32 address[kLanes];
  std::memcpy(address, w.v[in.src[0].reg], sizeof address);
  const u32 offset[2] = {static_cast<u32>(in.offset), static_cast<u32>(in.offset2)};
  for (u32 half : offset) check_range(w, in, address, half, 4 * Words);
  if (w.address_only) return;
  alignas(64) u32 out[2 * Words][kLanes];
  for (int half = 0; half < 2; ++half) {
    if (w.exec_full) {
      gather_all<Words>(out[half * Words], [&](int i) { return w.lds + wrapped(address[i], offset[half]); });
    } else {
      for_each_lane(w.exec(), [&](int i) {
        u32 x[Words];
        std::memcpy(x, w.lds + wrapped(address[i], offset[half]), sizeof x);
        for (int k = 0; k < Words; ++k) out[half * Words + k][i] = x[k];
      });
    }
  }
  write_rows(w, w.v[in.dst], out[0], 2 * Words);
}

template <int Words>
void ds_write2(Wave& w, const Inst& in) {
  const u32* address = w.v[in.src[0].reg];
  const u32 offset[2] = {static_cast<u32>(in.offset), static_cast<u32>(in.offset2)};
  for (u32 half : offset) check_range(w, in, address, half, 4 * Words);
  if (w.address_only) return;
  for (int half = 0; half < 2; ++half) {
    const u32* data = w.v[in.src[1 + half].reg];
    for_each_lane(w.exec(), [&](int i) {
      u32 x[Words];
      for (int k = 0; k < Words; ++k) x[k] = data[k * kLanes + i];
      std::memcpy(w.lds + wrapped(address[i], offset[half]), x, sizeof x);
    });
  }
}

// Transposing reads: the 64 bits that each of 16 lanes reads form a tile, which is handed out by columns.
template <int Bits>
void ds_read_tr(Wave& w, const Inst& in) {
  if (!w.exec_full) fail_unsupported(w, in, "a transposing LDS read with lanes off in EXEC");
  const u32* address = w.v[in.src[0].reg];
  const u32 offset = static_cast<u32>(in.offset);
  check_range(w, in, address, offset, 8);
  if (w.address_only) return;
  alignas(64) u8 data[kLanes * 8];
  for (int i = 0; i < kLanes; ++i) std::memcpy(data + 8 * i, w.lds + wrapped(address[i], offset), 8);
  u32* low = w.v[in.dst];
  u32* high = w.v[in.dst + 1];
  for (int block = 0; block < kLanes; block += 16) {
    if constexpr (Bits == 16) {
      // A 4 x 16 tile of halves per 16 lanes, a row in four of them: lane q gets column q.
      const auto* tile = reinterpret_cast<const uint16_t*>(data + 8 * block);
      for (int q = 0; q < 16; ++q) {
        low[block + q] = tile[q] | static_cast<u32>(tile[16 + q]) << 16;
        high[block + q] = tile[32 + q] | static_cast<u32>(tile[48 + q]) << 16;
      }
    } else {
      // An 8 x 16 tile of bytes, a row in two lanes.
      const u8* tile = data + 8 * block;
      auto column = [&](int q, int row) {
        const u8* p = tile + 16 * row + q;
        return p[0] | static_cast<u32>(p[16]) << 8 | static_cast<u32>(p[32]) << 16 | static_cast<u32>(p[48]) << 24;
      };
      for (int q = 0; q < 16; ++q) {
        low[block + q] = column(q, 0);
        high[block + q] = column(q, 4);
      }
    }
  }
}

// The same with 16 elements of four or six bits a lane, a row each: lane q gets element q of all 16 rows.
template <int Bits>
void ds_read_tr_small(Wave& w, const Inst& in) {
  constexpr u32 kWords = 16 * Bits / 32, kMask = (1u << Bits) - 1;
  if (!w.exec_full) fail_unsupported(w, in, "a transposing LDS read with lanes off in EXEC");
  const u32* address = w.v[in.src[0].reg];
  const u32 offset = static_cast<u32>(in.offset);
  check_range(w, in, address, offset, 4 * kWords);
  if (w.address_only) return;
  u8 element[kLanes][16];
  for (int i = 0; i < kLanes; ++i) {
    const u32 at = address[i] + offset;
    if (Bits == 6 && at % 16 != 0) {
      fail_unsupported(w, in,
                       "a transposing LDS read of six-bit elements at address " + std::to_string(at) + " (lane " +
                           std::to_string(i) + "), which is no multiple of 16: it is not known what hardware does");
    }
    u32 x[kWords + 1] = {};
    std::memcpy(x, w.lds + at, 4 * kWords);
    for (u32 k = 0; k < 16; ++k) {
      const u64 pair = x[Bits * k / 32] | static_cast<u64>(x[Bits * k / 32 + 1]) << 32;
      element[i][k] = static_cast<u8>(pair >> (Bits * k % 32) & kMask);
    }
  }
  alignas(64) u32 out[kWords + 1][kLanes] = {};
  for (int i = 0; i < kLanes; ++i) {
    for (u32 k = 0; k < 16; ++k) {
      const u64 code = static_cast<u64>(element[(i & ~15) + static_cast<int>(k)][i & 15]) << (Bits * k % 32);
      out[Bits * k / 32][i] |= static_cast<u32>(code);
      out[Bits * k / 32 + 1][i] |= static_cast<u32>(code >> 32);
    }
  }
  write_rows(w, w.v[in.dst], out[0], kWords);
}

// ---- lane exchange
// ----------------------------------------------------------------------------------------------------

void ds_bpermute(Wave& w, const Inst& in) {
  alignas(64) u32 out[kLanes];
  const u32* address = w.v[in.src[0].reg];
  const u32* data = w.v[in.src[1].reg];
  const u64 exec = w.exec();
  for (int i = 0; i < kLanes; ++i) {
    const u32 from = (address[i] + static_cast<u32>(in.offset)) >> 2 & 63;
    out[i] = (exec >> from & 1) != 0 ? data[from] : 0;  // a lane that is off gives zero
  }
  write_rows(w, w.v[in.dst], out, 1);
}

void ds_permute(Wave& w, const Inst& in) {
  alignas(64) u32 out[kLanes] = {};
  const u32* address = w.v[in.src[0].reg];
  const u32* data = w.v[in.src[1].reg];
  for_each_lane(w.exec(), [&](int i) { out[(address[i] + static_cast<u32>(in.offset)) >> 2 & 63] = data[i]; });
  write_rows(w, w.v[in.dst], out, 1);
}

void ds_swizzle(Wave& w, const Inst& in) {
  alignas(64) u32 out[kLanes];
  const u32* data = w.v[in.src[0].reg];
  const u64 exec = w.exec();
  const u32 control = static_cast<u32>(in.offset);
  for (int i = 0; i < kLanes; ++i) {
    int from;
    if ((control & 0x8000) != 0) {
      from = (i & ~3) | static_cast<int>(control >> (2 * (i & 3)) & 3);
    } else {
      const int and_mask = control & 31, or_mask = control >> 5 & 31, xor_mask = control >> 10 & 31;
      from = (i & ~31) | ((((i & 31) & and_mask) | or_mask) ^ xor_mask);
    }
    out[i] = (exec >> from & 1) != 0 ? data[from] : 0;
  }
  write_rows(w, w.v[in.dst], out, 1);
}

// ---- atomics
// ----------------------------------------------------------------------------------------------------------

// in.flags: 1 if the old value is returned; in.cost unused.
template <class U, Atomic Op>
void ds_atomic(Wave& w, const Inst& in) {
  const u32* address = w.v[in.src[0].reg];
  check_range(w, in, address, static_cast<u32>(in.offset), sizeof(U));
  if (w.address_only) return;
  auto read = [&](int k, int lane) {
    const u32* row = w.v[in.src[k].reg];
    return sizeof(U) == 8 ? static_cast<U>(row[lane] | static_cast<u64>(row[kLanes + lane]) << 32)
                          : static_cast<U>(row[lane]);
  };
  for_each_lane(w.exec(), [&](int i) {
    u8* at = w.lds + wrapped(address[i], static_cast<u32>(in.offset));
    U old;
    std::memcpy(&old, at, sizeof(U));
    // ds_cmpst: the comparand first, then the new value.
    const U next =
        Op == Atomic::cmpswap ? combine<U>(Op, old, read(2, i), read(1, i)) : combine<U>(Op, old, read(1, i), 0);
    std::memcpy(at, &next, sizeof(U));
    if ((in.flags & 1) != 0) {
      w.v[in.dst][i] = static_cast<u32>(old);
      if (sizeof(U) == 8) w.v[in.dst + 1][i] = static_cast<u32>(static_cast<u64>(old) >> 32);
    }
  });
}

// ---- building
// ---------------------------------------------------------------------------------------------------------

// Entry: words of each data operand in src types; dst type none for stores; value: unit of offset0/offset1 (0: one
// offset).
void build_ds(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  const size_t first = e.dst == Ty::none ? 0 : 1;
  b.expect_operands(p, first + e.nsrc);
  if (first != 0) in.dst = b.vector_destination(p.operands[0], e.value != 0 ? 2 * words_of(e.dst) : words_of(e.dst));
  for (int k = 0; k < e.nsrc; ++k) {
    b.vector_source(in, k, p.operands[first + k], e.src[k]);
    if (in.src[k].kind != Operand::Kind::vector) Builder::refuse("an operand that is not a vector register");
  }
  if (e.value != 0) {
    b.allow_modifiers(p, {"offset0", "offset1"});
    in.offset = static_cast<int32_t>(p.value("offset0", 0)) * e.value;
    in.offset2 = static_cast<int32_t>(p.value("offset1", 0)) * e.value;
  } else {
    b.allow_modifiers(p, {"offset"});
    in.offset = static_cast<int32_t>(p.words[0] & 0xffff);  // ds_swizzle prints it in words
  }
  in.flags = first != 0;
  in.klass = Klass::lds;
  in.fn = e.fast;
}

Entry ds(Handler handler, Ty dst, std::initializer_list<Ty> sources, int unit = 0) {
  Entry e;
  e.build = build_ds;
  e.fast = handler;
  e.dst = dst;
  for (Ty type : sources) e.src[e.nsrc++] = type;
  e.value = unit;
  return e;
}

template <class U, Atomic Op>
void atomic(Registry& r, const std::string& name) {
  const Ty type = sizeof(U) == 8 ? Ty::b64 : Ty::b32;
  Entry e = ds(ds_atomic<U, Op>, Ty::none, {Ty::b32, type});
  if (Op == Atomic::cmpswap) e.src[e.nsrc++] = type;
  r["ds_" + name] = e;
  e.dst = type;
  const size_t suffix = name.rfind('_');
  r["ds_" + name.substr(0, suffix) + "_rtn" + name.substr(suffix)] = e;
}

void register_atomics(Registry& r) {
  atomic<u32, Atomic::add>(r, "add_u32");
  atomic<u32, Atomic::sub>(r, "sub_u32");
  atomic<u32, Atomic::rsub>(r, "rsub_u32");
  atomic<u32, Atomic::inc>(r, "inc_u32");
  atomic<u32, Atomic::dec>(r, "dec_u32");
  atomic<u32, Atomic::smin>(r, "min_i32");
  atomic<u32, Atomic::smax>(r, "max_i32");
  atomic<u32, Atomic::umin>(r, "min_u32");
  atomic<u32, Atomic::umax>(r, "max_u32");
  atomic<u32, Atomic::and_>(r, "and_b32");
  atomic<u32, Atomic::or_>(r, "or_b32");
  atomic<u32, Atomic::xor_>(r, "xor_b32");
  atomic<u32, Atomic::cmpswap>(r, "cmpst_b32");
  atomic<u32, Atomic::add_f32>(r, "add_f32");
  atomic<u32, Atomic::min_f32>(r, "min_f32");
  atomic<u32, Atomic::max_f32>(r, "max_f32");
  atomic<u32, Atomic::pk_add_f16>(r, "pk_add_f16");
  atomic<u32, Atomic::pk_add_bf16>(r, "pk_add_bf16");
  atomic<u64, Atomic::add>(r, "add_u64");
  atomic<u64, Atomic::sub>(r, "sub_u64");
  atomic<u64, Atomic::smin>(r, "min_i64");
  atomic<u64, Atomic::smax>(r, "max_i64");
  atomic<u64, Atomic::umin>(r, "min_u64");
  atomic<u64, Atomic::umax>(r, "max_u64");
  atomic<u64, Atomic::and_>(r, "and_b64");
  atomic<u64, Atomic::or_>(r, "or_b64");
  atomic<u64, Atomic::xor_>(r, "xor_b64");
  atomic<u64, Atomic::cmpswap>(r, "cmpst_b64");
  atomic<u64, Atomic::add_f64>(r, "add_f64");
  atomic<u64, Atomic::min_f64>(r, "min_f64");
  atomic<u64, Atomic::max_f64>(r, "max_f64");
  atomic<u64, Atomic::rsub>(r, "rsub_u64");
  atomic<u64, Atomic::inc>(r, "inc_u64");
  atomic<u64, Atomic::dec>(r, "dec_u64");
  r["ds_wrxchg_rtn_b32"] = ds(ds_atomic<u32, Atomic::swap>, Ty::b32, {Ty::b32, Ty::b32});
  r["ds_wrxchg_rtn_b64"] = ds(ds_atomic<u64, Atomic::swap>, Ty::b64, {Ty::b32, Ty::b64});
}

}  // namespace

void register_lds(Registry& r) {
  r["ds_read_b32"] = ds(ds_read<1>, Ty::b32, {Ty::b32});
  r["ds_read_b64"] = ds(ds_read<2>, Ty::b64, {Ty::b32});
  r["ds_read_b96"] = ds(ds_read<3>, Ty::b96, {Ty::b32});
  r["ds_read_b128"] = ds(ds_read<4>, Ty::b128, {Ty::b32});
  r["ds_write_b32"] = ds(ds_write<1>, Ty::none, {Ty::b32, Ty::b32});
  r["ds_write_b64"] = ds(ds_write<2>, Ty::none, {Ty::b32, Ty::b64});
  r["ds_write_b96"] = ds(ds_write<3>, Ty::none, {Ty::b32, Ty::b96});
  r["ds_write_b128"] = ds(ds_write<4>, Ty::none, {Ty::b32, Ty::b128});
  r["ds_read_u8"] = ds(ds_read_small<Element::u8>, Ty::b32, {Ty::b32});
  r["ds_read_i8"] = ds(ds_read_small<Element::i8>, Ty::b32, {Ty::b32});
  r["ds_read_u16"] = ds(ds_read_small<Element::u16>, Ty::b32, {Ty::b32});
  r["ds_read_i16"] = ds(ds_read_small<Element::i16>, Ty::b32, {Ty::b32});
  r["ds_read_u8_d16"] = ds(ds_read_small<Element::u8_low>, Ty::b32, {Ty::b32});
  r["ds_read_u8_d16_hi"] = ds(ds_read_small<Element::u8_high>, Ty::b32, {Ty::b32});
  r["ds_read_i8_d16"] = ds(ds_read_small<Element::i8_low>, Ty::b32, {Ty::b32});
  r["ds_read_i8_d16_hi"] = ds(ds_read_small<Element::i8_high>, Ty::b32, {Ty::b32});
  r["ds_read_u16_d16"] = ds(ds_read_small<Element::u16_low>, Ty::b32, {Ty::b32});
  r["ds_read_u16_d16_hi"] = ds(ds_read_small<Element::u16_high>, Ty::b32, {Ty::b32});
  r["ds_write_b8"] = ds(ds_write_small<Element::u8>, Ty::none, {Ty::b32, Ty::b32});
  r["ds_write_b16"] = ds(ds_write_small<Element::u16>, Ty::none, {Ty::b32, Ty::b32});
  r["ds_write_b8_d16_hi"] = ds(ds_write_small<Element::u8_high>, Ty::none, {Ty::b32, Ty::b32});
  r["ds_write_b16_d16_hi"] = ds(ds_write_small<Element::u16_high>, Ty::none, {Ty::b32, Ty::b32});
  r["ds_read2_b32"] = ds(ds_read2<1>, Ty::b32, {Ty::b32}, 4);
  r["ds_read2_b64"] = ds(ds_read2<2>, Ty::b64, {Ty::b32}, 8);
  r["ds_read2st64_b32"] = ds(ds_read2<1>, Ty::b32, {Ty::b32}, 4 * 64);
  r["ds_read2st64_b64"] = ds(ds_read2<2>, Ty::b64, {Ty::b32}, 8 * 64);
  r["ds_write2_b32"] = ds(ds_write2<1>, Ty::none, {Ty::b32, Ty::b32, Ty::b32}, 4);
  r["ds_write2_b64"] = ds(ds_write2<2>, Ty::none, {Ty::b32, Ty::b64, Ty::b64}, 8);
  r["ds_write2st64_b32"] = ds(ds_write2<1>, Ty::none, {Ty::b32, Ty::b32, Ty::b32}, 4 * 64);
  r["ds_write2st64_b64"] = ds(ds_write2<2>, Ty::none, {Ty::b32, Ty::b64, Ty::b64}, 8 * 64);
  r["ds_read_b64_tr_b16"] = ds(ds_read_tr<16>, Ty::b64, {Ty::b32});
  r["ds_read_b64_tr_b8"] = ds(ds_read_tr<8>, Ty::b64, {Ty::b32});
  r["ds_read_b64_tr_b4"] = ds(ds_read_tr_small<4>, Ty::b64, {Ty::b32});
  r["ds_read_b96_tr_b6"] = ds(ds_read_tr_small<6>, Ty::b96, {Ty::b32});
  r["ds_bpermute_b32"] = ds(ds_bpermute, Ty::b32, {Ty::b32, Ty::b32});
  r["ds_permute_b32"] = ds(ds_permute, Ty::b32, {Ty::b32, Ty::b32});
  r["ds_swizzle_b32"] = ds(ds_swizzle, Ty::b32, {Ty::b32});
  register_atomics(r);
}

}  // namespace gfx950::exec
