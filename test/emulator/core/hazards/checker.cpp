#include "checker.h"

#include <algorithm>
#include <cstdlib>

#include "../exec/rows.h"
#include "gfx950/gfx950.h"

namespace gfx950::hazards {
namespace {

using exec::for_each_lane;
using exec::kLanes;
using exec::Operand;

// The narrowest store decides how finely LDS is tracked: two waves may write the two halves of a dword.
unsigned shift_for(const exec::Program& program) {
  unsigned shift = 2;
  for (const Usage& u : program.usage) {
    if (u.memory == Memory::lds_write) shift = std::min(shift, u.bytes == 1 ? 0u : u.bytes == 2 ? 1u : 2u);
  }
  return shift;
}

bool has_dma(const exec::Program& program) {
  return std::any_of(program.usage.begin(), program.usage.end(),
                     [](const Usage& u) { return u.memory == Memory::dma; });
}

std::string register_name(uint16_t reg) {
  if (reg < exec::kAccBase) return "v" + std::to_string(reg);
  if (reg < kScalarBase) return "a" + std::to_string(reg - exec::kAccBase);
  const int scalar = reg - kScalarBase;
  if (scalar == exec::kVcc) return "vcc_lo";
  if (scalar == exec::kVcc + 1) return "vcc_hi";
  if (scalar == exec::kM0) return "m0";
  return "s" + std::to_string(scalar);
}

}  // namespace

Checker::Checker(const exec::Program& program, uint32_t waves, uint32_t lds_size, bool strict)
    : program_(program),
      shadow_(lds_size, shift_for(program), waves, has_dma(program)),
      boards_(waves),
      wait_states_(waves),
      ways_(program.code.size()),
      notes_(waves),
      notes_end_(waves) {
  shadow_.tracks_uninitialised = strict;
}

void Checker::start() {
  for (Scoreboard& board : boards_) board.clear();
  for (WaitStates& states : wait_states_) states.clear();
  shadow_.start();
}

void Checker::barrier() { shadow_.barrier(boards_); }

void Checker::before(const exec::Wave& w, uint32_t pc) {
  const Usage& u = program_.usage[pc];
  Scoreboard& board = boards_[w.id_in_group];
  TooSoon soon;
  if (wait_states_[w.id_in_group].too_soon(program_.usage, pc, ways_, soon)) report_wait_states(w, pc, soon);
  if (u.waits) {
    board.wait(u.wait_vm, u.wait_lgkm);
  } else {
    Conflict conflict;
    if (board.conflicts(u, conflict)) report_register(w, pc, conflict);
    if (u.memory != Memory::none) board.issue(u, pc, lds_access(w, pc, u));
  }
}

// The stamp of the access, 0 if none of its lanes touches LDS. Accesses that leave LDS are the handler's to refuse.
uint32_t Checker::lds_access(const exec::Wave& w, uint32_t pc, const Usage& u) {
  const exec::Inst& in = program_.code[pc];
  const Scoreboard& board = boards_[w.id_in_group];
  Access kind = Access::read;
  switch (u.memory) {
    case Memory::lds_read:
      break;
    case Memory::lds_write:
      kind = Access::write;
      break;
    case Memory::lds_atomic:
      kind = Access::atomic;
      break;
    case Memory::dma:
      kind = Access::dma;
      break;
    default:
      return 0;
  }
  Places places;
  uint32_t stamp = 0;
  for (int k = 0; k < u.accesses; ++k) {
    if (!(kind == Access::dma ? dma_places(w, in, places) : lds_places(w, in, u, k, places))) continue;
    if (stamp == 0) {
      stamp = shadow_.next_stamp(w.id_in_group, kind);
      size_t& end = notes_end_[w.id_in_group];
      notes_[w.id_in_group][end++ % kNotes] = {stamp, pc};
    }
    Collision collision;
    if (kind == Access::read) {
      if (shadow_.read(places, stamp, board, collision)) report_lds(w, pc, collision, stamp);
    } else {
      const uint32_t* rows = kind == Access::write ? w.v[in.src[1 + k].reg] : nullptr;
      if (shadow_.write(places, stamp, board, w.lds, rows, collision)) report_lds(w, pc, collision, stamp);
    }
  }
  return stamp;
}

bool Checker::lds_places(const exec::Wave& w, const exec::Inst& in, const Usage& u, int access, Places& out) const {
  const uint32_t* address = w.v[in.src[0].reg];
  const uint32_t offset = static_cast<uint32_t>(access == 0 ? in.offset : in.offset2);
  out.exec = w.exec();
  out.bytes = u.bytes;
  out.high_half = u.high_half;
  uint32_t top = 0;  // of addresses that wrap around at 32 bits, as in exec/lds.cpp
  if (w.exec_full) {
    for (int i = 0; i < kLanes; ++i) {
      out.at[i] = address[i] + offset;
      top = std::max(top, out.at[i]);
    }
  } else {
    for_each_lane(out.exec, [&](int i) {
      out.at[i] = address[i] + offset;
      top = std::max(top, out.at[i]);
    });
  }
  return out.exec != 0 && uint64_t{top} + u.bytes <= shadow_.size();
}

bool Checker::dma_places(const exec::Wave& w, const exec::Inst& in, Places& out) const {
  const uint32_t bytes = 4u * in.words;
  const uint64_t base = uint64_t{w.s[exec::kM0]} + static_cast<uint32_t>(in.offset);
  out.exec = w.exec();
  out.bytes = bytes;
  out.contiguous = true;
  if (out.exec == 0 || base + uint64_t{kLanes} * bytes > shadow_.size() + uint64_t{kLanes} * bytes) return false;
  const uint64_t lanes = 64u - static_cast<unsigned>(__builtin_clzll(out.exec));
  if (base + lanes * bytes > shadow_.size()) return false;
  for (uint32_t i = 0; i < kLanes; ++i) out.at[i] = static_cast<uint32_t>(base) + i * bytes;
  return true;
}

// ---- messages

std::string Checker::instruction(uint32_t pc) const {
  return "'" + program_.text[pc] + "' (pc " + program_.place(pc) + ")";
}

// The instruction of an LDS access, if it is recent enough to be known.
std::string Checker::noted(uint32_t stamp) const {
  const uint32_t wave = wave_of(stamp);
  for (const Noted& note : notes_[wave]) {
    if (note.stamp == stamp) return instruction(note.pc) + " of wave " + std::to_string(wave);
  }
  return "an earlier instruction of wave " + std::to_string(wave);
}

void Checker::report(const exec::Wave& w, uint32_t pc, const std::string& what) const {
  throw Error(ErrorKind::hazard, "kernel '" + program_.kernel + "', workgroup (" + std::to_string(w.group_id[0]) +
                                     ", " + std::to_string(w.group_id[1]) + ", " + std::to_string(w.group_id[2]) +
                                     "), wave " + std::to_string(w.id_in_group) + ", " + instruction(pc) + ": " + what);
}

void Checker::report_register(const exec::Wave& w, uint32_t pc, const Conflict& c) const {
  std::string wait = "s_waitcnt";
  if (c.vm >= 0) wait += " vmcnt(" + std::to_string(c.vm) + ")";
  if (c.lgkm >= 0) wait += " lgkmcnt(" + std::to_string(c.lgkm) + ")";
  report(w, pc,
         "[missing wait] uses " + register_name(c.reg) + ", the outstanding result of " + instruction(c.pc) +
             "; needs " + wait);
}

void Checker::report_wait_states(const exec::Wave& w, uint32_t pc, const TooSoon& t) const {
  const std::string nop = "; needs s_nop " + std::to_string(t.missing - 1) + " or " + std::to_string(t.missing) +
                          " other instruction" + (t.missing == 1 ? "" : "s") + " before it";
  switch (t.kind) {
    case TooSoon::Kind::m0:
      report(w, pc, "[m0 wait state] reads m0 right behind " + instruction(t.pc) + nop);
    case TooSoon::Kind::matrix:
      report(
          w, pc,
          "[matrix wait state] uses " + register_name(t.reg) + ", the unfinished result of " + instruction(t.pc) + nop);
    case TooSoon::Kind::matrix_input:
      report(w, pc,
             "[matrix wait state] overwrites " + register_name(t.reg) + ", which " + instruction(t.pc) +
                 " may still read as C" + nop);
    case TooSoon::Kind::vector:
      report(w, pc, "[vector wait state] uses " + register_name(t.reg) + " too soon behind " + instruction(t.pc) + nop);
    case TooSoon::Kind::exec:
      report(w, pc, "[exec wait state] depends on exec too soon behind " + instruction(t.pc) + nop);
    case TooSoon::Kind::store_data:
      report(w, pc,
             "[store wait state] overwrites " + register_name(t.reg) + ", which " + instruction(t.pc) +
                 " may still read" + nop);
    case TooSoon::Kind::mode:
      report(w, pc, "[mode wait state] touches a hardware register too soon behind " + instruction(t.pc) + nop);
  }
  std::abort();
}

void Checker::report_lds(const exec::Wave& w, uint32_t pc, const Collision& c, uint32_t stamp) const {
  const std::string place = " LDS byte " + std::to_string(c.byte) + " (lane " + std::to_string(c.lane) + ")";
  if (c.kind == Collision::Kind::uninitialised) {
    report(w, pc, "[uninitialised lds] reads" + place + ", which nothing in this workgroup wrote");
  }
  const bool reads = access_of(stamp) == Access::read;
  const bool dma = access_of(c.earlier) == Access::dma;
  const uint32_t other = wave_of(c.earlier);
  const int left = boards_[other].wait_for(c.earlier);
  const std::string wait = std::string("s_waitcnt ") + (dma ? "vmcnt(" : "lgkmcnt(") + std::to_string(left) + ")";
  if (c.kind == Collision::Kind::own_dma) {
    report(w, pc,
           std::string("[lds dma not waited] ") + (reads ? "reads" : "overwrites") + place + ", to which the LDS DMA " +
               noted(c.earlier) + " is outstanding; needs " + wait);
  }
  if (c.kind == Collision::Kind::own_read) {
    report(
        w, pc,
        "[lds dma over a read] overwrites" + place + ", which " + noted(c.earlier) + " may still read; needs " + wait);
  }
  std::string fix = "s_barrier between the two waves";
  if (left >= 0) fix = wait + " in wave " + std::to_string(other) + ", then s_barrier";
  std::string kind, verb;
  switch (c.kind) {
    case Collision::Kind::write_write:
      kind = dma ? "lds dma race" : "lds write/write race";
      verb = dma ? "that the LDS DMA writes, " : "that is also written by ";
      break;
    case Collision::Kind::read_after_write:
      kind = dma ? "lds dma race" : "lds read/write race";
      verb = dma ? "that the LDS DMA writes, " : "that is written by ";
      break;
    default:
      kind = "lds write/read race";
      verb = "that is read by ";
      break;
  }
  report(w, pc,
         "[" + kind + "] " + (reads ? "reads" : "writes") + place + ", " + verb + noted(c.earlier) + "; needs " + fix);
}

}  // namespace gfx950::hazards
