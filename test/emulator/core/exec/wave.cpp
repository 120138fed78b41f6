#include "wave.h"

#include <algorithm>
#include <cstdio>

#include "gfx950/gfx950.h"
#include "program.h"

namespace gfx950::exec {
namespace {

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string where(const Wave& w, const Inst& in) {
  const size_t index = static_cast<size_t>(&in - w.program->code.data());
  return "kernel '" + w.program->kernel + "', pc " + w.program->place(index) + ", workgroup (" +
         std::to_string(w.group_id[0]) + ", " + std::to_string(w.group_id[1]) + ", " + std::to_string(w.group_id[2]) +
         ") wave " + std::to_string(w.id_in_group) + ": '" + w.program->text[index] + "': ";
}

}  // namespace

std::string Program::place(size_t index) const {
  const int64_t at = offset[index];
  const std::string pc = at < 0 ? "-" + hex(static_cast<uint64_t>(-at)) : hex(static_cast<uint64_t>(at));
  const std::string line = lines == nullptr ? "" : lines->at(address + static_cast<uint64_t>(at));
  return line.empty() ? pc : pc + " at " + line;
}

int64_t Program::index_of(int64_t bytes) const {
  auto found = std::lower_bound(offset.begin(), offset.end(), bytes);
  if (found == offset.end() || *found != bytes) return -1;
  return found - offset.begin();
}

void fail_unsupported(const Wave& w, const Inst& in, const std::string& why) {
  throw Error(ErrorKind::unsupported_instruction, where(w, in) + why + " is not modelled");
}

void fail_trap(const Wave& w, const Inst& in, const std::string& why) {
  throw Error(ErrorKind::trap, where(w, in) + why);
}

void fail_fault(const Wave& w, const Inst& in, const std::string& why) {
  throw Error(ErrorKind::memory_fault, where(w, in) + why);
}

void fail_address(const Wave& w, const Inst& in, int lane, uint64_t address, unsigned bytes) {
  std::string text = lane < 0 ? "" : "lane " + std::to_string(lane) + " ";
  text += "accesses " + std::to_string(bytes) + " bytes at " + hex(address) + ", outside every allocation";
  if (auto range = Memory::instance().nearest(reinterpret_cast<const void*>(address))) {
    const bool before = address < range->begin;
    const bool across = !before && address < range->end;
    text += "; the nearest is [" + hex(range->begin) + ", " + hex(range->end) + ") of " +
            std::to_string(range->end - range->begin) + " bytes, ";
    text += across ? "whose end the access crosses"
                   : std::to_string(before ? range->begin - address : address - range->end) + " bytes " +
                         (before ? "above" : "below");
  }
  throw Error(ErrorKind::memory_fault, where(w, in) + text);
}

bool find_window(Wave& w, uintptr_t first, uintptr_t last) {
  if (last < first) return false;
  const auto range = Memory::instance().find(reinterpret_cast<const void*>(first));
  if (!range || last >= range->end) return false;
  w.windows[w.next_window] = {range->begin, range->end};
  w.next_window = (w.next_window + 1) % Wave::kWindows;
  return true;
}

}  // namespace gfx950::exec
