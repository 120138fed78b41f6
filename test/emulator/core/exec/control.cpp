// Branches, barriers, waits and the other instructions that move no data.
#include "builder.h"
#include "gfx950/gfx950.h"
#include "index_mode.h"
#include "wave.h"

namespace gfx950::exec {
namespace {

using decode::Parsed;

// The decoder resolves in.offset from a byte offset to an index once all instructions are known.
void build_branch(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 1);
  b.allow_modifiers(p, {});
  in.offset = static_cast<int16_t>(p.words[0] & 0xffff) * 4 + 4;  // from this instruction
  in.klass = Klass::branch;
  in.fn = e.fast;
}

void build_plain(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  if (e.nsrc != 255) b.expect_operands(p, e.nsrc);
  b.allow_modifiers(p, {"sc0", "sc1", "nt"});
  in.offset = static_cast<int32_t>(p.words[0] & 0xffff);
  in.klass = Klass::other;
  in.fn = e.fast;
}

Entry branch(Handler handler) {
  Entry e;
  e.build = build_branch;
  e.fast = handler;
  return e;
}

// operands 255: any number, all of them immediates that change no result.
Entry plain(int operands, Handler handler) {
  Entry e;
  e.build = build_plain;
  e.nsrc = static_cast<uint8_t>(operands);
  e.fast = handler;
  return e;
}

void jump(Wave& w, const Inst& in) { w.pc = static_cast<uint32_t>(in.offset); }
void nothing(Wave&, const Inst&) {}

void build_getpc(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 1);
  in.dst = b.scalar_destination(p.operands[0], 2);
  in.klass = Klass::salu;
  in.fn = e.fast;
}

void build_jump_register(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  const size_t first = e.value != 0 ? 1 : 0;
  b.expect_operands(p, first + 1);
  if (first != 0) in.dst = b.scalar_destination(p.operands[0], 2);
  in.src[0] = b.scalar_source(p.operands[first], Ty::b64);
  in.klass = Klass::branch;
  in.fn = e.fast;
}

void jump_to_address(Wave& w, const Inst& in, uint64_t address) {
  const int64_t index = w.program->index_of(static_cast<int64_t>(address - w.program->base));
  if (index < 0) fail_unsupported(w, in, "jump to an address that is not known before the kernel runs");
  w.pc = static_cast<uint32_t>(index);
}

uint64_t next_address(const Wave& w) {
  return w.program->base + static_cast<uint64_t>(int64_t{w.program->offset[w.pc]});
}

// The die that the workgroup runs on: workgroups go round the eight of them.
void build_getreg(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 2);
  if (p.operands[1].kind != decode::ParsedOperand::Kind::call || p.operands[1].name != "hwreg" ||
      p.operands[1].arguments.empty()) {
    Builder::refuse("hardware register operand");
  }
  const std::string& name = p.operands[1].arguments[0];
  if (name != "HW_REG_XCC_ID" || p.operands[1].arguments.size() != 1) {
    Builder::refuse("hardware register " + name + " is not modelled");
  }
  in.dst = b.scalar_destination(p.operands[0], 1);
  in.klass = Klass::salu;
  in.fn = e.fast;
}

// Of the MODE register only FP16_OVFL can be written.
void build_setreg(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 2);
  const decode::ParsedOperand& target = p.operands[0];
  const std::vector<std::string> fp16_ovfl = {"HW_REG_MODE", "23", "1"};
  if (target.kind != decode::ParsedOperand::Kind::call || target.name != "hwreg" || target.arguments != fp16_ovfl) {
    Builder::refuse("writing any other part of the hardware registers than MODE.FP16_OVFL is not modelled");
  }
  in.src[0] = b.scalar_source(p.operands[1], Ty::u32);
  in.klass = Klass::salu;
  in.fn = e.fast;
}

void build_time(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 1);
  in.dst = b.scalar_destination(p.operands[0], 2);
  in.klass = Klass::smem;
  in.fn = e.fast;
}

// M0 of the index mode: bits 0 to 7 are added to the numbers of the vector registers that bits 12 to 15 name: the first
// source, two others that v_mov_b32 does not have, the destination.
constexpr uint32_t kIndexSource = 1 << 12, kIndexDestination = 1 << 15, kIndexBits = 0xff;

void build_index_on(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 2);
  in.src[0] = b.scalar_source(p.operands[0], Ty::u32);
  in.offset = static_cast<int32_t>(p.words[0] >> 8 & 0xff) & 15;  // SSRC1 of SOPC is the mode itself
  in.klass = Klass::salu;
  in.fn = e.fast;
}

void build_index(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 1);
  in.src[0] = b.scalar_source(p.operands[0], Ty::u32);
  in.klass = Klass::salu;
  in.fn = e.fast;
}

void build_index_mode(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 1);
  in.offset = static_cast<int32_t>(p.words[0] & 15);
  in.klass = Klass::salu;
  in.fn = e.fast;
}

uint16_t indexed(const Wave& w, const Inst& in, uint32_t reg, bool on) {
  const uint32_t result = reg + (on ? w.s[kM0] & kIndexBits : 0);
  if (result > 255) fail_fault(w, in, "M0 chooses v" + std::to_string(result) + "; there are 256");
  return static_cast<uint16_t>(result);
}

void indexed_move(Wave& w, const Inst& in) {
  alignas(64) uint32_t buffer[2 * kLanes];
  const uint32_t m0 = w.s[kM0];
  const uint32_t* from = in.src[0].kind == Operand::Kind::vector
                             ? w.v[indexed(w, in, in.src[0].reg, (m0 & kIndexSource) != 0)]
                             : source(w, in, 0, buffer);
  write_masked(w, w.v[indexed(w, in, in.dst, (m0 & kIndexDestination) != 0)], from, 1);
}

// s_movrels and s_movreld: M0 is added to the number of the source or of the destination.
template <int Words, bool ToIndexed>
void move_relative(Wave& w, const Inst& in) {
  const uint64_t number = uint64_t{ToIndexed ? in.dst : in.src[0].reg} + w.s[kM0];
  if (number + Words > 102) fail_fault(w, in, "M0 chooses s" + std::to_string(number) + "; there are 102");
  const int at = static_cast<int>(number);
  if constexpr (Words == 1) {
    w.write32(ToIndexed ? at : in.dst, ToIndexed ? scalar32(w, in.src[0]) : w.s[at]);
  } else {
    w.write64(ToIndexed ? at : in.dst, ToIndexed ? scalar64(w, in.src[0]) : w.read64(at));
  }
}

void build_move_relative(Builder& b, const Parsed& p, const Entry& e, Inst& in) {
  b.expect_operands(p, 2);
  in.dst = b.scalar_destination(p.operands[0], e.nsrc);
  in.src[0] = b.scalar_source(p.operands[1], e.nsrc == 2 ? Ty::b64 : Ty::b32);
  if (e.value == 0 && in.src[0].kind != Operand::Kind::scalar) Builder::refuse("a source that is no register");
  if ((e.value != 0 ? in.dst : in.src[0].reg) >= 102) Builder::refuse("a register with a name of its own");
  in.klass = Klass::salu;
  in.fn = e.fast;
}

}  // namespace

void index_move(Inst& in) {
  if (in.dpp != nullptr || in.src[0].neg || in.src[0].abs || in.dst >= kAccBase || in.src[0].sel != 6) {
    Builder::refuse("this form of v_mov_b32 in the index mode");
  }
  if (in.src[0].kind == Operand::Kind::vector && in.src[0].reg >= kAccBase) {
    Builder::refuse("accumulation registers in the index mode");
  }
  in.fn = indexed_move;
}

void register_control(Registry& r) {
  r["s_branch"] = branch(jump);
  r["s_cbranch_scc0"] = branch([](Wave& w, const Inst& in) {
    if (w.scc == 0) jump(w, in);
  });
  r["s_cbranch_scc1"] = branch([](Wave& w, const Inst& in) {
    if (w.scc != 0) jump(w, in);
  });
  r["s_cbranch_vccz"] = branch([](Wave& w, const Inst& in) {
    if (w.read64(kVcc) == 0) jump(w, in);
  });
  r["s_cbranch_vccnz"] = branch([](Wave& w, const Inst& in) {
    if (w.read64(kVcc) != 0) jump(w, in);
  });
  r["s_cbranch_execz"] = branch([](Wave& w, const Inst& in) {
    if (w.exec() == 0) jump(w, in);
  });
  r["s_cbranch_execnz"] = branch([](Wave& w, const Inst& in) {
    if (w.exec() != 0) jump(w, in);
  });
  r["s_endpgm"] = plain(0, [](Wave& w, const Inst&) { w.status = Status::ended; });
  r["s_barrier"] = plain(0, [](Wave& w, const Inst&) { w.status = Status::at_barrier; });
  r["s_sleep"] = plain(1, [](Wave& w, const Inst&) { w.status = Status::yielded; });
  // Loads complete when they are issued here and caches are coherent, so waits and write-backs change nothing.
  r["s_waitcnt"] = plain(255, nothing);
  r["s_nop"] = plain(1, nothing);
  r["s_setprio"] = plain(1, nothing);
  r["s_wakeup"] = plain(0, nothing);  // sleeping waves wake by themselves
  r["s_icache_inv"] = plain(0, nothing);
  r["s_dcache_inv"] = plain(0, nothing);
  r["s_dcache_wb"] = plain(0, nothing);
  r["buffer_wbl2"] = plain(0, nothing);
  r["buffer_inv"] = plain(0, nothing);
  r["s_sethalt"] = plain(1, [](Wave& w, const Inst& in) {
    if (in.offset != 0) fail_unsupported(w, in, "the wave halted itself");
  });
  r["s_trap"] = plain(1, [](Wave& w, const Inst& in) {
    fail_trap(w, in, "the kernel ended itself (trap " + std::to_string(in.offset & 0xff) + ", an assertion or abort)");
  });
  // MSG_INTERRUPT: the host's turn. Nobody is there if the core runs without a runtime.
  r["s_sendmsg"] = plain(1, [](Wave& w, const Inst& in) {
    if ((in.offset & 15) != 1) fail_unsupported(w, in, "this message");
    if (w.host == nullptr) return;
    const std::string refused = w.host->serve();
    if (!refused.empty()) fail_unsupported(w, in, refused);
  });
  Entry e;
  e.build = build_getpc;
  e.fast = [](Wave& w, const Inst& in) { w.write64(in.dst, next_address(w)); };
  r["s_getpc_b64"] = e;
  e = Entry{};
  e.build = build_jump_register;
  e.fast = [](Wave& w, const Inst& in) { jump_to_address(w, in, scalar64(w, in.src[0])); };
  r["s_setpc_b64"] = e;
  e.value = 1;
  e.fast = [](Wave& w, const Inst& in) {
    const uint64_t target = scalar64(w, in.src[0]);
    w.write64(in.dst, next_address(w));
    jump_to_address(w, in, target);
  };
  r["s_swappc_b64"] = e;
  e = Entry{};
  e.build = build_index_on;
  e.fast = [](Wave& w, const Inst& in) {
    w.s[kM0] = (w.s[kM0] & ~0xf0ffu) | (scalar32(w, in.src[0]) & kIndexBits) | static_cast<uint32_t>(in.offset) << 12;
  };
  r["s_set_gpr_idx_on"] = e;
  e.build = build_index;
  e.fast = [](Wave& w, const Inst& in) { w.s[kM0] = (w.s[kM0] & ~kIndexBits) | (scalar32(w, in.src[0]) & kIndexBits); };
  r["s_set_gpr_idx_idx"] = e;
  e.build = build_index_mode;
  e.fast = [](Wave& w, const Inst& in) { w.s[kM0] = (w.s[kM0] & ~0xf000u) | static_cast<uint32_t>(in.offset) << 12; };
  r["s_set_gpr_idx_mode"] = e;
  r["s_set_gpr_idx_off"] = plain(0, nothing);
  e = Entry{};
  e.build = build_move_relative;
  e.nsrc = 1;
  e.fast = move_relative<1, false>;
  r["s_movrels_b32"] = e;
  e.value = 1;
  e.fast = move_relative<1, true>;
  r["s_movreld_b32"] = e;
  e.nsrc = 2;
  e.fast = move_relative<2, true>;
  r["s_movreld_b64"] = e;
  e.value = 0;
  e.fast = move_relative<2, false>;
  r["s_movrels_b64"] = e;
  e = Entry{};
  e.build = build_time;
  // The wave's instructions so far, by time slices: never falls, and pretends to be no real clock.
  e.fast = [](Wave& w, const Inst& in) { w.write64(in.dst, w.steps); };
  r["s_memtime"] = r["s_memrealtime"] = e;
  e = Entry{};
  e.build = build_setreg;
  e.fast = [](Wave& w, const Inst& in) { w.saturate = saturate_small_floats = (scalar32(w, in.src[0]) & 1) != 0; };
  r["s_setreg_b32"] = r["s_setreg_imm32_b32"] = e;
  e = Entry{};
  e.build = build_getreg;
  e.fast = [](Wave& w, const Inst& in) { w.write32(in.dst, w.xcc); };
  r["s_getreg_b32"] = e;
}

}  // namespace gfx950::exec
