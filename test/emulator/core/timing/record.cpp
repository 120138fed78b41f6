#include "record.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace gfx950::timing {

using hazards::Memory;

const char* name_of(Unit unit) {
  static const char* const names[kUnits] = {"valu", "mfma", "salu", "smem", "vmem", "lds", "branch", "internal"};
  return names[static_cast<int>(unit)];
}

namespace {

bool begins(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

Internal internal_of(const std::string& text) {
  if (begins(text, "s_waitcnt")) return Internal::waitcnt;
  if (begins(text, "s_nop")) return Internal::nop;
  if (begins(text, "s_sleep")) return Internal::sleep;
  if (begins(text, "s_setprio")) return Internal::setprio;
  if (begins(text, "s_barrier")) return Internal::barrier;
  if (begins(text, "s_endpgm")) return Internal::end;
  return Internal::other;
}

bool keeps_old(const std::string& text) {
  static const char* const parts[] = {"_dpp", "_sdwa", "mac_", "dot2c_", "dot4c_", "dot8c_", "v_writelane", "_d16"};
  const std::string mnemonic = text.substr(0, text.find(' '));
  return std::any_of(std::begin(parts), std::end(parts),
                     [&](const char* part) { return mnemonic.find(part) != std::string::npos; });
}

// "v_mfma_f32_32x32x4_2b_f16": rows, columns and depth of each of two blocks.
double flops_of(const std::string& text) {
  unsigned m = 0, n = 0, k = 0, blocks = 1;
  for (size_t at = text.find('_'); at != std::string::npos && at < text.find(' '); at = text.find('_', at + 1)) {
    if (std::sscanf(text.c_str() + at, "_%ux%ux%u", &m, &n, &k) != 3) continue;
    const size_t next = text.find('_', at + 1);
    char b = 0;
    unsigned count = 0;
    if (std::sscanf(text.c_str() + next, "_%u%c_", &count, &b) == 2 && b == 'b') blocks = count;
    return 2.0 * m * n * k * blocks;
  }
  return 0;
}

Record record_of(const exec::Inst& in, const hazards::Usage& u, const std::string& text) {
  Record r;
  r.usage = &u;
  r.keeps_old = keeps_old(text);
  switch (in.klass) {
    case exec::Klass::valu:
      r.unit = Unit::valu;
      r.slots = std::max<uint8_t>(1, in.cost);
      break;
    case exec::Klass::mfma: {
      r.unit = Unit::mfma;
      r.passes = in.cost;
      r.flops = flops_of(text);
      unsigned bytes = 0;
      for (int k = 0; k < 2 && k < u.nreads; ++k) bytes += 4u * u.reads[k].count;
      r.valu_wait = static_cast<uint8_t>(1 + bytes / 16);
      break;
    }
    case exec::Klass::salu:
      r.unit = u.unit == hazards::Unit::valu ? Unit::valu : Unit::salu;
      break;
    case exec::Klass::smem:
      r.unit = Unit::smem;
      r.counts_lgkm = true;
      break;
    case exec::Klass::vmem:
      r.unit = Unit::vmem;
      r.store = u.memory == Memory::store;
      r.dma = u.memory == Memory::dma;
      r.scratch = begins(text, "scratch_");
      r.counts_vm = true;
      r.counts_lgkm = u.flat;
      break;
    case exec::Klass::lds:
      r.unit = Unit::lds;
      r.counts_lgkm = true;
      break;
    case exec::Klass::branch:
      r.unit = Unit::branch;
      break;
    case exec::Klass::other:
      r.internal = internal_of(text);
      r.argument = static_cast<uint16_t>(in.offset & (r.internal == Internal::sleep ? 0x7f : 15));
      break;
  }
  return r;
}

}  // namespace

std::vector<Record> records_of(const exec::Program& program) {
  std::vector<Record> records;
  records.reserve(program.code.size());
  for (size_t k = 0; k < program.code.size(); ++k) {
    records.push_back(record_of(program.code[k], program.usage[k], program.text[k]));
  }
  return records;
}

}  // namespace gfx950::timing
