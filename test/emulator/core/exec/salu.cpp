// Scalar ALU. A lane function here takes values and may set SCC.
#include <cstdlib>

#include "builder.h"
#include "valu.h"
#include "wave.h"

namespace gfx950::exec {
namespace {

using decode::Parsed;

template <class T>
T read(const Wave& w, const Operand& o) {
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(scalar64(w, o));
  } else {
    return static_cast<T>(scalar32(w, o));
  }
}

template <class T>
void write(Wave& w, const Inst& in, T value) {
  if constexpr (sizeof(T) == 8) {
    w.write64(in.dst, static_cast<uint64_t>(value));
  } else {
    w.write32(in.dst, static_cast<uint32_t>(value));
  }
}

template <class T>
constexpr Ty type_of() {
  if constexpr (std::is_same<T, uint32_t>::value) return Ty::u32;
  if constexpr (std::is_same<T, int32_t>::value) return Ty::i32;
  if constexpr (std::is_same<T, uint64_t>::value) return Ty::b64;
  return Ty::i64;
}

// D = f(w, a [, b]); f may set w.scc.
template <class D, class F, class... S>
struct Salu {
  template <size_t... K>
  static void call(Wave& w, const Inst& in, std::index_sequence<K...>) {
    if constexpr (std::is_void<D>::value) {
      stateless<F>()(w, read<S>(w, in.src[K])...);
    } else {
      write<D>(w, in, stateless<F>()(w, read<S>(w, in.src[K])...));
    }
  }
  static void run(Wave& w, const Inst& in) { call(w, in, std::index_sequence_for<S...>{}); }
};

void build_salu(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  const size_t first = e.dst == Ty::none ? 0 : 1;
  b.expect_operands(p, first + e.nsrc);
  b.allow_modifiers(p, {});
  if (first != 0) in.dst = b.scalar_destination(p.operands[0], words_of(e.dst));
  for (int k = 0; k < e.nsrc; ++k) in.src[k] = b.scalar_source(p.operands[first + k], e.src[k]);
  in.klass = Klass::salu;
  in.nsrc = e.nsrc;
  in.fn = e.fast;
}

template <class D, class... S, class F>
Entry op(F) {
  Entry e;
  e.build = build_salu;
  e.fast = Salu<D, F, S...>::run;
  if constexpr (!std::is_void<D>::value) e.dst = type_of<D>();
  const Ty types[] = {type_of<S>()...};
  e.nsrc = sizeof...(S);
  for (int k = 0; k < e.nsrc; ++k) e.src[k] = types[k];
  return e;
}

// SOPK: the destination is also the first source, the immediate is signed 16 bits wide (or unsigned for s_cmpk_*_u32).
void build_sopk(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 2);
  b.allow_modifiers(p, {});
  if (e.dst != Ty::none) in.dst = b.scalar_destination(p.operands[0], 1);
  in.src[0] = b.scalar_source(p.operands[0], Ty::u32);
  in.src[1].kind = Operand::Kind::constant;
  const uint16_t immediate = static_cast<uint16_t>(p.words[0]);
  in.src[1].value = e.value != 0 ? immediate : static_cast<uint32_t>(static_cast<int16_t>(immediate));
  in.klass = Klass::salu;
  in.fn = e.fast;
}

template <class D, class S, class F>
Entry opk(F f) {
  Entry e = op<D, S, S>(f);
  e.build = build_sopk;
  e.value = std::is_same<S, uint32_t>::value && std::is_void<D>::value;
  return e;
}

uint64_t bit_field(uint32_t field, uint64_t value, int bits, bool sign) {
  const uint32_t offset = field & (bits == 64 ? 63 : 31), width = field >> 16 & 0x7f;
  if (width == 0) return 0;
  uint64_t x = value >> offset;
  if (bits == 32 && sign) x = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(value)) >> offset);
  if (bits == 64 && sign) x = static_cast<uint64_t>(static_cast<int64_t>(value) >> offset);
  if (width >= static_cast<uint32_t>(bits)) return x;
  const int unused = 64 - static_cast<int>(width);
  return sign ? static_cast<uint64_t>(static_cast<int64_t>(x << unused) >> unused) : x << unused >> unused;
}

void register_moves(Registry& r) {
  using u32 = uint32_t;
  using u64 = uint64_t;
  using i32 = int32_t;
  r["s_mov_b32"] = op<u32, u32>([](Wave&, u32 a) { return a; });
  r["s_mov_b64"] = op<u64, u64>([](Wave&, u64 a) { return a; });
  r["s_not_b32"] = op<u32, u32>([](Wave& w, u32 a) {
    w.scc = ~a != 0;
    return ~a;
  });
  r["s_not_b64"] = op<u64, u64>([](Wave& w, u64 a) {
    w.scc = ~a != 0;
    return ~a;
  });
  r["s_brev_b32"] = op<u32, u32>([](Wave&, u32 a) {
    u32 x = 0;
    for (int i = 0; i < 32; ++i) x |= (a >> i & 1) << (31 - i);
    return x;
  });
  r["s_brev_b64"] = op<u64, u64>([](Wave&, u64 a) {
    u64 x = 0;
    for (int i = 0; i < 64; ++i) x |= (a >> i & 1) << (63 - i);
    return x;
  });
  r["s_bcnt0_i32_b32"] = op<u32, u32>([](Wave& w, u32 a) {
    u32 x = 32 - __builtin_popcount(a);
    w.scc = x != 0;
    return x;
  });
  r["s_bcnt0_i32_b64"] = op<u32, u64>([](Wave& w, u64 a) {
    u32 x = 64 - __builtin_popcountll(a);
    w.scc = x != 0;
    return x;
  });
  r["s_bcnt1_i32_b32"] = op<u32, u32>([](Wave& w, u32 a) {
    u32 x = __builtin_popcount(a);
    w.scc = x != 0;
    return x;
  });
  r["s_bcnt1_i32_b64"] = op<u32, u64>([](Wave& w, u64 a) {
    u32 x = __builtin_popcountll(a);
    w.scc = x != 0;
    return x;
  });
  r["s_ff0_i32_b32"] = op<u32, u32>([](Wave&, u32 a) { return ~a == 0 ? ~0u : u32(__builtin_ctz(~a)); });
  r["s_ff0_i32_b64"] = op<u32, u64>([](Wave&, u64 a) { return ~a == 0 ? ~0u : u32(__builtin_ctzll(~a)); });
  r["s_ff1_i32_b32"] = op<u32, u32>([](Wave&, u32 a) { return a == 0 ? ~0u : u32(__builtin_ctz(a)); });
  r["s_ff1_i32_b64"] = op<u32, u64>([](Wave&, u64 a) { return a == 0 ? ~0u : u32(__builtin_ctzll(a)); });
  r["s_flbit_i32_b32"] = op<u32, u32>([](Wave&, u32 a) { return a == 0 ? ~0u : u32(__builtin_clz(a)); });
  r["s_flbit_i32_b64"] = op<u32, u64>([](Wave&, u64 a) { return a == 0 ? ~0u : u32(__builtin_clzll(a)); });
  r["s_flbit_i32"] = op<u32, i32>([](Wave&, i32 a) { return a == 0 || a == -1 ? ~0u : u32(__builtin_clrsb(a) + 1); });
  r["s_flbit_i32_i64"] =
      op<u32, int64_t>([](Wave&, int64_t a) { return a == 0 || a == -1 ? ~0u : u32(__builtin_clrsbll(a) + 1); });
  r["s_bitreplicate_b64_b32"] = op<u64, u32>([](Wave&, u32 a) {
    u64 x = 0;
    for (int i = 0; i < 32; ++i) x |= (a >> i & 1) != 0 ? u64{3} << (2 * i) : 0;
    return x;
  });
  r["s_sext_i32_i8"] = op<i32, u32>([](Wave&, u32 a) { return i32(int8_t(a)); });
  r["s_sext_i32_i16"] = op<i32, u32>([](Wave&, u32 a) { return i32(int16_t(a)); });
  r["s_abs_i32"] = op<u32, u32>([](Wave& w, u32 a) {
    u32 x = i32(a) < 0 ? 0u - a : a;
    w.scc = x != 0;
    return x;
  });
  r["s_wqm_b64"] = op<u64, u64>([](Wave& w, u64 a) {
    u64 x = 0;
    for (int i = 0; i < 64; i += 4) x |= (a >> i & 15) != 0 ? u64{15} << i : 0;
    w.scc = x != 0;
    return x;
  });
}

void register_arithmetic(Registry& r) {
  using u32 = uint32_t;
  using u64 = uint64_t;
  using i32 = int32_t;
  using i64 = int64_t;
  r["s_add_u32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    u64 x = u64(a) + b;
    w.scc = u32(x >> 32);
    return u32(x);
  });
  r["s_sub_u32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    w.scc = b > a;
    return a - b;
  });
  r["s_add_i32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    u32 x = a + b;
    w.scc = (~(a ^ b) & (a ^ x)) >> 31;
    return x;
  });
  r["s_sub_i32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    u32 x = a - b;
    w.scc = ((a ^ b) & (a ^ x)) >> 31;
    return x;
  });
  r["s_addc_u32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    u64 x = u64(a) + b + w.scc;
    w.scc = u32(x >> 32);
    return u32(x);
  });
  r["s_subb_u32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    const u64 take = u64(b) + w.scc;
    w.scc = take > a;
    return u32(a - take);
  });
  r["s_min_i32"] = op<i32, i32, i32>([](Wave& w, i32 a, i32 b) {
    w.scc = a < b;
    return a < b ? a : b;
  });
  r["s_min_u32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    w.scc = a < b;
    return a < b ? a : b;
  });
  r["s_max_i32"] = op<i32, i32, i32>([](Wave& w, i32 a, i32 b) {
    w.scc = a > b;
    return a > b ? a : b;
  });
  r["s_max_u32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    w.scc = a > b;
    return a > b ? a : b;
  });
  r["s_cselect_b32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) { return w.scc != 0 ? a : b; });
  r["s_cselect_b64"] = op<u64, u64, u64>([](Wave& w, u64 a, u64 b) { return w.scc != 0 ? a : b; });
#define LOGIC(name, expression)                                       \
  r["s_" name "_b32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) { \
    u32 x = expression;                                               \
    w.scc = x != 0;                                                   \
    return x;                                                         \
  });                                                                 \
  r["s_" name "_b64"] = op<u64, u64, u64>([](Wave& w, u64 a, u64 b) { \
    u64 x = expression;                                               \
    w.scc = x != 0;                                                   \
    return x;                                                         \
  })
  LOGIC("and", a & b);
  LOGIC("or", a | b);
  LOGIC("xor", a ^ b);
  LOGIC("andn2", a & ~b);
  LOGIC("orn2", a | ~b);
  LOGIC("nand", ~(a & b));
  LOGIC("nor", ~(a | b));
  LOGIC("xnor", ~(a ^ b));
#undef LOGIC
  r["s_lshl_b32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    u32 x = a << (b & 31);
    w.scc = x != 0;
    return x;
  });
  r["s_lshr_b32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    u32 x = a >> (b & 31);
    w.scc = x != 0;
    return x;
  });
  r["s_ashr_i32"] = op<i32, i32, u32>([](Wave& w, i32 a, u32 b) {
    i32 x = a >> (b & 31);
    w.scc = x != 0;
    return x;
  });
  r["s_lshl_b64"] = op<u64, u64, u32>([](Wave& w, u64 a, u32 b) {
    u64 x = a << (b & 63);
    w.scc = x != 0;
    return x;
  });
  r["s_lshr_b64"] = op<u64, u64, u32>([](Wave& w, u64 a, u32 b) {
    u64 x = a >> (b & 63);
    w.scc = x != 0;
    return x;
  });
  r["s_ashr_i64"] = op<i64, i64, u32>([](Wave& w, i64 a, u32 b) {
    i64 x = a >> (b & 63);
    w.scc = x != 0;
    return x;
  });
  r["s_bfm_b32"] = op<u32, u32, u32>([](Wave&, u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); });
  r["s_bfm_b64"] = op<u64, u32, u32>([](Wave&, u32 a, u32 b) { return ((u64{1} << (a & 63)) - 1) << (b & 63); });
  r["s_mul_i32"] = op<u32, u32, u32>([](Wave&, u32 a, u32 b) { return a * b; });
  r["s_mul_hi_u32"] = op<u32, u32, u32>([](Wave&, u32 a, u32 b) { return u32(u64(a) * b >> 32); });
  r["s_mul_hi_i32"] = op<u32, i32, i32>([](Wave&, i32 a, i32 b) { return u32(i64(a) * b >> 32); });
  r["s_bfe_u32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    u32 x = u32(bit_field(b, a, 32, false));
    w.scc = x != 0;
    return x;
  });
  r["s_bfe_i32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    u32 x = u32(bit_field(b, a, 32, true));
    w.scc = x != 0;
    return x;
  });
  r["s_bfe_u64"] = op<u64, u64, u32>([](Wave& w, u64 a, u32 b) {
    u64 x = bit_field(b, a, 64, false);
    w.scc = x != 0;
    return x;
  });
  r["s_bfe_i64"] = op<u64, u64, u32>([](Wave& w, u64 a, u32 b) {
    u64 x = bit_field(b, a, 64, true);
    w.scc = x != 0;
    return x;
  });
  r["s_absdiff_i32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) {
    u32 x = a - b;
    if (i32(x) < 0) x = 0u - x;
    w.scc = x != 0;
    return x;
  });
#define SHIFT_ADD(n)                                                        \
  r["s_lshl" #n "_add_u32"] = op<u32, u32, u32>([](Wave& w, u32 a, u32 b) { \
    const u64 x = (u64(a) << n) + b;                                        \
    w.scc = x >> 32 != 0;                                                   \
    return u32(x);                                                          \
  })
  SHIFT_ADD(1);
  SHIFT_ADD(2);
  SHIFT_ADD(3);
  SHIFT_ADD(4);
#undef SHIFT_ADD
  r["s_pack_ll_b32_b16"] = op<u32, u32, u32>([](Wave&, u32 a, u32 b) { return (a & 0xffff) | b << 16; });
  r["s_pack_lh_b32_b16"] = op<u32, u32, u32>([](Wave&, u32 a, u32 b) { return (a & 0xffff) | (b & 0xffff0000u); });
  r["s_pack_hh_b32_b16"] = op<u32, u32, u32>([](Wave&, u32 a, u32 b) { return a >> 16 | (b & 0xffff0000u); });
}

void build_bitset(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 2);
  b.allow_modifiers(p, {});
  in.dst = b.scalar_destination(p.operands[0], words_of(e.dst));
  in.src[0] = b.scalar_source(p.operands[1], Ty::u32);
  in.klass = Klass::salu;
  in.fn = e.fast;
}

void register_compares(Registry& r) {
  using u32 = uint32_t;
  using u64 = uint64_t;
  using i32 = int32_t;
#define COMPARE(name, operation)                                                                      \
  r["s_cmp_" name "_i32"] = op<void, i32, i32>([](Wave& w, i32 a, i32 b) { w.scc = a operation b; }); \
  r["s_cmp_" name "_u32"] = op<void, u32, u32>([](Wave& w, u32 a, u32 b) { w.scc = a operation b; }); \
  r["s_cmpk_" name "_i32"] = opk<void, i32>([](Wave& w, i32 a, i32 b) { w.scc = a operation b; });    \
  r["s_cmpk_" name "_u32"] = opk<void, u32>([](Wave& w, u32 a, u32 b) { w.scc = a operation b; })
  COMPARE("eq", ==);
  COMPARE("lg", !=);
  COMPARE("gt", >);
  COMPARE("ge", >=);
  COMPARE("lt", <);
  COMPARE("le", <=);
#undef COMPARE
  r["s_cmp_eq_u64"] = op<void, u64, u64>([](Wave& w, u64 a, u64 b) { w.scc = a == b; });
  r["s_cmp_lg_u64"] = op<void, u64, u64>([](Wave& w, u64 a, u64 b) { w.scc = a != b; });
  r["s_bitcmp0_b32"] = op<void, u32, u32>([](Wave& w, u32 a, u32 b) { w.scc = (a >> (b & 31) & 1) == 0; });
  r["s_bitcmp1_b32"] = op<void, u32, u32>([](Wave& w, u32 a, u32 b) { w.scc = (a >> (b & 31) & 1) != 0; });
  r["s_bitcmp0_b64"] = op<void, u64, u32>([](Wave& w, u64 a, u32 b) { w.scc = (a >> (b & 63) & 1) == 0; });
  r["s_bitcmp1_b64"] = op<void, u64, u32>([](Wave& w, u64 a, u32 b) { w.scc = (a >> (b & 63) & 1) != 0; });
  r["s_movk_i32"] = opk<u32, u32>([](Wave&, u32, u32 b) { return b; });
  r["s_cmovk_i32"] = opk<u32, u32>([](Wave& w, u32 a, u32 b) { return w.scc != 0 ? b : a; });
  r["s_addk_i32"] = opk<u32, u32>([](Wave& w, u32 a, u32 b) {
    u32 x = a + b;
    w.scc = (~(a ^ b) & (a ^ x)) >> 31;
    return x;
  });
  r["s_mulk_i32"] = opk<u32, u32>([](Wave&, u32 a, u32 b) { return a * b; });
  auto bitset = [](Ty type, Handler handler) {
    Entry e;
    e.build = build_bitset;
    e.dst = type;
    e.fast = handler;
    return e;
  };
  r["s_bitset0_b32"] = bitset(Ty::b32, [](Wave& w, const Inst& in) {
    w.write32(in.dst, w.s[in.dst] & ~(1u << (scalar32(w, in.src[0]) & 31)));
  });
  r["s_bitset1_b32"] = bitset(
      Ty::b32, [](Wave& w, const Inst& in) { w.write32(in.dst, w.s[in.dst] | 1u << (scalar32(w, in.src[0]) & 31)); });
  r["s_bitset0_b64"] = bitset(Ty::b64, [](Wave& w, const Inst& in) {
    w.write64(in.dst, w.read64(in.dst) & ~(uint64_t{1} << (scalar32(w, in.src[0]) & 63)));
  });
  r["s_bitset1_b64"] = bitset(Ty::b64, [](Wave& w, const Inst& in) {
    w.write64(in.dst, w.read64(in.dst) | uint64_t{1} << (scalar32(w, in.src[0]) & 63));
  });
  auto cmov = [](Ty type, Handler handler) {
    Entry e;
    e.build = build_salu;
    e.dst = e.src[0] = type;
    e.nsrc = 1;
    e.fast = handler;
    return e;
  };
  r["s_cmov_b32"] = cmov(Ty::b32, [](Wave& w, const Inst& in) {
    if (w.scc != 0) w.write32(in.dst, scalar32(w, in.src[0]));
  });
  r["s_cmov_b64"] = cmov(Ty::b64, [](Wave& w, const Inst& in) {
    if (w.scc != 0) w.write64(in.dst, scalar64(w, in.src[0]));
  });
}

template <class F>
Entry saveexec(F) {
  Entry e;
  e.build = build_salu;
  e.dst = e.src[0] = Ty::b64;
  e.nsrc = 1;
  e.fast = [](Wave& w, const Inst& in) {
    const uint64_t source = scalar64(w, in.src[0]);
    const uint64_t old = w.exec();
    const uint64_t next = stateless<F>()(source, old);
    w.write64(in.dst, old);
    w.write64(kExec, next);
    w.scc = next != 0;
  };
  return e;
}

// The destination holds the new EXEC, not the old one.
template <class F>
Entry wrexec(F) {
  Entry e = saveexec(F(stateless<F>()));
  e.fast = [](Wave& w, const Inst& in) {
    const uint64_t next = stateless<F>()(scalar64(w, in.src[0]), w.exec());
    w.write64(in.dst, next);
    w.write64(kExec, next);
    w.scc = next != 0;
  };
  return e;
}

void register_exec(Registry& r) {
  using u64 = uint64_t;
  r["s_and_saveexec_b64"] = saveexec([](u64 s, u64 e) { return s & e; });
  r["s_or_saveexec_b64"] = saveexec([](u64 s, u64 e) { return s | e; });
  r["s_xor_saveexec_b64"] = saveexec([](u64 s, u64 e) { return s ^ e; });
  r["s_andn2_saveexec_b64"] = saveexec([](u64 s, u64 e) { return s & ~e; });
  r["s_orn2_saveexec_b64"] = saveexec([](u64 s, u64 e) { return s | ~e; });
  r["s_nand_saveexec_b64"] = saveexec([](u64 s, u64 e) { return ~(s & e); });
  r["s_nor_saveexec_b64"] = saveexec([](u64 s, u64 e) { return ~(s | e); });
  r["s_xnor_saveexec_b64"] = saveexec([](u64 s, u64 e) { return ~(s ^ e); });
  r["s_andn1_saveexec_b64"] = saveexec([](u64 s, u64 e) { return ~s & e; });
  r["s_orn1_saveexec_b64"] = saveexec([](u64 s, u64 e) { return ~s | e; });
  r["s_andn1_wrexec_b64"] = wrexec([](u64 s, u64 e) { return ~s & e; });
  r["s_andn2_wrexec_b64"] = wrexec([](u64 s, u64 e) { return s & ~e; });
}

}  // namespace

void register_salu(Registry& r) {
  register_moves(r);
  register_arithmetic(r);
  register_compares(r);
  register_exec(r);
}

}  // namespace gfx950::exec
