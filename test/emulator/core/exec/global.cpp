// global_*, flat_* and scratch_*.
#include "builder.h"
#include "vmem.h"

namespace gfx950::exec {
namespace {

using u32 = uint32_t;
using u64 = uint64_t;
using decode::Parsed;
using decode::ParsedOperand;

// src[0]: address registers; src[1]: scalar base, if any; src[2]: data.
void global_addresses(Wave& w, const Inst& in, LaneAddresses& out) {
  out.on = w.exec();
  const u32* low = w.v[in.src[0].reg];
  if (in.src[1].kind == Operand::Kind::scalar) {
    const int64_t base = static_cast<int64_t>(w.read64(in.src[1].reg)) + in.offset;
    for (int i = 0; i < kLanes; ++i) out.at[i] = base + static_cast<int64_t>(static_cast<u64>(low[i]));
  } else {
    for (int i = 0; i < kLanes; ++i) {
      out.at[i] = static_cast<int64_t>(low[i] | static_cast<u64>(low[kLanes + i]) << 32) + in.offset;
    }
  }
}

// Private memory: each lane has scratch_size bytes; addresses are offsets into them.
void scratch_addresses(Wave& w, const Inst& in, LaneAddresses& out, unsigned bytes) {
  out.on = w.exec();
  const u32 base = in.src[1].kind == Operand::Kind::scalar ? w.s[in.src[1].reg] : 0;
  alignas(64) int64_t offsets[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const u32 lane_offset = in.src[0].kind == Operand::Kind::vector ? w.v[in.src[0].reg][i] : 0;
    const int64_t offset = static_cast<int64_t>(base) + lane_offset + in.offset;
    if ((out.on >> i & 1) != 0 && (offset < 0 || offset + bytes > w.scratch_size)) {
      fail_fault(w, in,
                 "lane " + std::to_string(i) + " accesses scratch byte " + std::to_string(offset) + "; a lane has " +
                     std::to_string(w.scratch_size));
    }
    offsets[i] = offset;
    out.at[i] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(w.scratch)) +
                static_cast<int64_t>(i) * w.scratch_size + offset;
  }
  if (w.probe != nullptr) w.probe->scratch(in, offsets, out.on, bytes);
}

template <bool Scratch>
void addresses(Wave& w, const Inst& in, LaneAddresses& out, unsigned bytes, LastDword last = LastDword::whole) {
  if (Scratch) {
    scratch_addresses(w, in, out, bytes);
  } else {
    global_addresses(w, in, out);
    check_addresses(w, in, out, bytes, last);
  }
}

template <int Words, bool Scratch>
void load(Wave& w, const Inst& in) {
  LaneAddresses lanes;
  addresses<Scratch>(w, in, lanes, 4 * Words);
  load_dwords<Words>(w, in, lanes);
}
template <int Words, bool Scratch>
void store(Wave& w, const Inst& in) {
  LaneAddresses lanes;
  addresses<Scratch>(w, in, lanes, 4 * Words, LastDword::exact);
  store_dwords<Words>(w, w.v[in.src[2].reg], lanes);
}
template <Element E, bool Scratch>
void load_part(Wave& w, const Inst& in) {
  LaneAddresses lanes;
  addresses<Scratch>(w, in, lanes, static_cast<unsigned>(bytes_of(E)));
  load_small<E>(w, in, lanes);
}
template <Element E, bool Scratch>
void store_part(Wave& w, const Inst& in) {
  LaneAddresses lanes;
  addresses<Scratch>(w, in, lanes, static_cast<unsigned>(bytes_of(E)));
  store_small<E>(w, w.v[in.src[2].reg], lanes);
}
template <int Words>
void load_lds(Wave& w, const Inst& in) {
  LaneAddresses lanes;
  addresses<false>(w, in, lanes, 4 * Words);
  load_to_lds<Words>(w, in, lanes, 0);
}
template <Element E>
void load_part_lds(Wave& w, const Inst& in) {
  LaneAddresses lanes;
  addresses<false>(w, in, lanes, static_cast<unsigned>(bytes_of(E)));
  load_part_to_lds<E>(w, in, lanes, 0);
}
template <class U, Atomic Op>
void atomic(Wave& w, const Inst& in) {
  LaneAddresses lanes;
  addresses<false>(w, in, lanes, sizeof(U));
  atomic_lanes<U, Op>(w, in, w.v[in.src[2].reg], in.flags != 0 ? in.dst : -1, lanes);
}

enum class Space : uint8_t { global, flat, scratch };
enum class Form : uint8_t { load, store, atomic, lds };

void build_address(Builder& b, const Parsed& p, Inst& in, const ParsedOperand& vector, const ParsedOperand* scalar,
                   Space space) {
  const bool has_base = scalar != nullptr && scalar->kind != ParsedOperand::Kind::off;
  if (has_base) {
    in.src[1].kind = Operand::Kind::scalar;
    in.src[1].reg = b.scalar_destination(*scalar, space == Space::scratch ? 1 : 2);
  }
  if (vector.kind == ParsedOperand::Kind::off) {
    if (space != Space::scratch) Builder::refuse("no address register");
  } else {
    const int words = space == Space::scratch || has_base ? 1 : 2;
    in.src[0].kind = Operand::Kind::vector;
    in.src[0].reg = b.vector_destination(vector, words);
  }
  in.offset = static_cast<int32_t>(p.value("offset", 0));
}

// Entry: dst or src[2] the data type, value: Space, flags: Form.
void build_global(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  const Space space = static_cast<Space>(e.value);
  const Form form = static_cast<Form>(e.flags);
  b.allow_modifiers(p, {"offset", "sc0", "sc1", "nt"});
  const bool returns = form == Form::load || (form == Form::atomic && p.has("sc0"));
  size_t next = 0;
  auto operand = [&]() -> const ParsedOperand& {
    if (next >= p.operands.size()) Builder::refuse("too few operands");
    return p.operands[next++];
  };
  if (returns) in.dst = b.vector_destination(operand(), words_of(e.dst));
  const ParsedOperand& address = operand();
  if (form == Form::store || form == Form::atomic) {
    in.src[2].kind = Operand::Kind::vector;
    in.src[2].reg = b.vector_destination(operand(), words_of(e.src[2]) * (e.nsrc == 2 ? 2 : 1));
  }
  const ParsedOperand* scalar = space == Space::flat ? nullptr : &operand();
  if (next != p.operands.size()) Builder::refuse("too many operands");
  build_address(b, p, in, address, scalar, space);
  in.flags = returns;
  in.klass = Klass::vmem;
  in.words = static_cast<uint8_t>(words_of(form == Form::load ? e.dst : e.src[2]));
  in.fn = e.fast;
}

Entry entry(Handler handler, Space space, Form form, Ty type) {
  Entry e;
  e.build = build_global;
  e.fast = handler;
  e.dst = e.src[2] = type;
  e.value = static_cast<int32_t>(space);
  e.flags = static_cast<uint16_t>(form);
  return e;
}

template <bool Scratch>
void register_moves(Registry& r, const std::string& prefix, Space space) {
  r[prefix + "load_dword"] = entry(load<1, Scratch>, space, Form::load, Ty::b32);
  r[prefix + "load_dwordx2"] = entry(load<2, Scratch>, space, Form::load, Ty::b64);
  r[prefix + "load_dwordx3"] = entry(load<3, Scratch>, space, Form::load, Ty::b96);
  r[prefix + "load_dwordx4"] = entry(load<4, Scratch>, space, Form::load, Ty::b128);
  r[prefix + "store_dword"] = entry(store<1, Scratch>, space, Form::store, Ty::b32);
  r[prefix + "store_dwordx2"] = entry(store<2, Scratch>, space, Form::store, Ty::b64);
  r[prefix + "store_dwordx3"] = entry(store<3, Scratch>, space, Form::store, Ty::b96);
  r[prefix + "store_dwordx4"] = entry(store<4, Scratch>, space, Form::store, Ty::b128);
  r[prefix + "load_ubyte"] = entry(load_part<Element::u8, Scratch>, space, Form::load, Ty::b32);
  r[prefix + "load_sbyte"] = entry(load_part<Element::i8, Scratch>, space, Form::load, Ty::b32);
  r[prefix + "load_ushort"] = entry(load_part<Element::u16, Scratch>, space, Form::load, Ty::b32);
  r[prefix + "load_sshort"] = entry(load_part<Element::i16, Scratch>, space, Form::load, Ty::b32);
  r[prefix + "load_ubyte_d16"] = entry(load_part<Element::u8_low, Scratch>, space, Form::load, Ty::b32);
  r[prefix + "load_ubyte_d16_hi"] = entry(load_part<Element::u8_high, Scratch>, space, Form::load, Ty::b32);
  r[prefix + "load_sbyte_d16"] = entry(load_part<Element::i8_low, Scratch>, space, Form::load, Ty::b32);
  r[prefix + "load_sbyte_d16_hi"] = entry(load_part<Element::i8_high, Scratch>, space, Form::load, Ty::b32);
  r[prefix + "load_short_d16"] = entry(load_part<Element::u16_low, Scratch>, space, Form::load, Ty::b32);
  r[prefix + "load_short_d16_hi"] = entry(load_part<Element::u16_high, Scratch>, space, Form::load, Ty::b32);
  r[prefix + "store_byte"] = entry(store_part<Element::u8, Scratch>, space, Form::store, Ty::b32);
  r[prefix + "store_byte_d16_hi"] = entry(store_part<Element::u8_high, Scratch>, space, Form::store, Ty::b32);
  r[prefix + "store_short"] = entry(store_part<Element::u16, Scratch>, space, Form::store, Ty::b32);
  r[prefix + "store_short_d16_hi"] = entry(store_part<Element::u16_high, Scratch>, space, Form::store, Ty::b32);
}

struct AddAtomic {
  Registry& registry;
  const std::string& prefix;
  Space space;

  template <class U, Atomic Op>
  void operator()(const char* name) const {
    Entry e = entry(atomic<U, Op>, space, Form::atomic, sizeof(U) == 8 ? Ty::b64 : Ty::b32);
    if (Op == Atomic::cmpswap) e.nsrc = 2;  // data holds the new value and the comparand
    registry[prefix + "atomic_" + name] = e;
  }
};

void register_atomics(Registry& r, const std::string& prefix, Space space) {
  each_memory_atomic(AddAtomic{r, prefix, space});
}

}  // namespace

void register_global(Registry& r) {
  register_moves<false>(r, "global_", Space::global);
  register_moves<false>(r, "flat_", Space::flat);
  register_moves<true>(r, "scratch_", Space::scratch);
  register_atomics(r, "global_", Space::global);
  register_atomics(r, "flat_", Space::flat);
  r["global_load_lds_dword"] = entry(load_lds<1>, Space::global, Form::lds, Ty::b32);
  r["global_load_lds_ubyte"] = entry(load_part_lds<Element::u8>, Space::global, Form::lds, Ty::b32);
  r["global_load_lds_sbyte"] = entry(load_part_lds<Element::i8>, Space::global, Form::lds, Ty::b32);
  r["global_load_lds_ushort"] = entry(load_part_lds<Element::u16>, Space::global, Form::lds, Ty::b32);
  r["global_load_lds_sshort"] = entry(load_part_lds<Element::i16>, Space::global, Form::lds, Ty::b32);
  r["global_load_lds_dwordx3"] = entry(load_lds<3>, Space::global, Form::lds, Ty::b96);
  r["global_load_lds_dwordx4"] = entry(load_lds<4>, Space::global, Form::lds, Ty::b128);
}

}  // namespace gfx950::exec
