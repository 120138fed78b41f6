#include "decoder.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include "../exec/builder.h"
#include "../exec/index_mode.h"
#include "../hazards/usage.h"
#include "disassembler.h"
#include "gfx950/gfx950.h"
#include "parsed.h"

namespace gfx950::decode {
namespace {

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

bool is_relative_branch(const Parsed& parsed, const exec::Inst& inst) {
  return inst.klass == exec::Klass::branch && parsed.base.compare(0, 2, "s_") == 0 &&
         parsed.base.find("pc") == std::string::npos;
}

class Decoder {
 public:
  Decoder(const std::string& name, const uint8_t* code, uint64_t size) : name_(name), code_(code), size_(size) {}

  std::unique_ptr<exec::Program> run(uint64_t entry) {
    auto program = std::make_unique<exec::Program>();
    program->kernel = name_;
    program->base = reinterpret_cast<uint64_t>(code_);
    exec::Builder builder(*program);
    std::vector<uint64_t> todo = {entry};
    while (!todo.empty()) {
      uint64_t at = todo.back();
      todo.pop_back();
      bool indexing = false;  // between s_set_gpr_idx_on and _off
      for (;;) {
        if (auto known = found_.find(at); known != found_.end()) {
          if (indexing != known->second.indexing) refuse(at, known->second.text, "in and out of the index mode");
          break;
        }
        const Parsed parsed = read(at);
        exec::Inst inst = build(builder, parsed, at);
        if (indexing) index(parsed, inst, at);
        const bool was_indexing = indexing;
        if (parsed.base == "s_set_gpr_idx_on") indexing = true;
        if (parsed.base == "s_set_gpr_idx_off") indexing = false;
        const bool relative = is_relative_branch(parsed, inst);
        if (relative) {
          inst.offset += static_cast<int32_t>(at);  // bytes from the start; an index in the end
          todo.push_back(static_cast<uint64_t>(inst.offset));
        }
        const bool ends = parsed.base == "s_endpgm" || parsed.base == "s_branch" || parsed.base == "s_setpc_b64";
        found_[at] = {inst,     parsed.text,  hazards::usage_of(parsed, inst),
                      relative, was_indexing, ends ? 0 : at + parsed.size};
        if (ends) break;
        at += parsed.size;
      }
    }
    finish(*program, entry);
    return program;
  }

  // Throws std::invalid_argument that says what is not modelled.
  static exec::Inst build(exec::Builder& builder, const Parsed& parsed) {
    exec::Inst inst;
    if (exec::build_matrix(builder, parsed, inst)) return inst;
    const exec::Registry& table = exec::registry();
    auto entry = table.find(parsed.base);
    if (entry == table.end()) exec::Builder::refuse("this instruction is not modelled");
    entry->second.build(builder, parsed, entry->second, inst);
    if (inst.fn == nullptr) exec::Builder::refuse("this form is not modelled");
    return inst;
  }

 private:
  struct Found {
    exec::Inst inst;
    std::string text;
    hazards::Usage usage;
    bool branch;
    bool indexing;  // its vector registers are chosen by M0
    uint64_t next;  // where control falls through to; 0: nowhere
  };

  Parsed read(uint64_t at) const {
    if (at >= size_ || at % 4 != 0) {
      throw Error(ErrorKind::unsupported_instruction, "kernel '" + name_ + "': control reaches " + hex(at) +
                                                          ", outside its " + std::to_string(size_) + " bytes of code");
    }
    std::string line;
    const uint64_t left = std::min<uint64_t>(size_ - at, 20);
    const size_t used = disassemble(code_ + at, left, at, line);
    uint32_t words[5] = {};
    std::memcpy(words, code_ + at, left);
    if (used == 0) refuse(at, "no instruction", "encoding " + hex(words[0]) + " " + hex(words[1]));
    try {
      Parsed parsed = parse(line);
      std::memcpy(parsed.words, words, sizeof words);
      parsed.size = static_cast<uint32_t>(used);
      return parsed;
    } catch (const std::invalid_argument& error) {
      refuse(at, line, error.what());
    }
  }

  exec::Inst build(exec::Builder& builder, const Parsed& parsed, uint64_t at) const {
    try {
      return build(builder, parsed);
    } catch (const std::invalid_argument& error) {
      refuse(at, parsed.text, error.what());
    }
  }

  void index(const Parsed& parsed, exec::Inst& inst, uint64_t at) const {
    if (parsed.base.compare(0, 14, "s_set_gpr_idx_") == 0 || parsed.base == "s_nop") return;
    try {
      if (parsed.base != "v_mov_b32") exec::Builder::refuse("another instruction than v_mov_b32 in the index mode");
      exec::index_move(inst);
    } catch (const std::invalid_argument& error) {
      refuse(at, parsed.text, error.what());
    }
  }

  [[noreturn]] void refuse(uint64_t at, const std::string& text, const std::string& why) const {
    throw Error(ErrorKind::unsupported_instruction,
                "kernel '" + name_ + "', pc " + hex(at) + ": '" + text + "': " + why);
  }

  // Lays the instructions out in address order and turns branch offsets into indices.
  void finish(exec::Program& program, uint64_t entry) {
    std::map<uint64_t, uint32_t> index;
    for (const auto& [at, found] : found_) {
      index[at] = static_cast<uint32_t>(program.code.size());
      program.code.push_back(found.inst);
      program.offset.push_back(static_cast<uint32_t>(at));
      program.text.push_back(found.text);
      program.usage.push_back(found.usage);
      program.interrupts = program.interrupts || found.text.compare(0, 9, "s_sendmsg") == 0;
    }
    for (auto here = found_.begin(); here != found_.end(); ++here) {
      auto after = std::next(here);
      const uint64_t next = here->second.next;
      if (next != 0 && (after == found_.end() || after->first != next)) {
        refuse(here->first, here->second.text, "control enters the middle of an instruction");
      }
    }
    size_t k = 0;
    for (auto& [at, found] : found_) {
      if (found.branch)
        program.code[k].offset = static_cast<int32_t>(index.at(static_cast<uint64_t>(found.inst.offset)));
      ++k;
    }
    program.entry = index.at(entry);
  }

  const std::string& name_;
  const uint8_t* code_;
  uint64_t size_;
  std::map<uint64_t, Found> found_;
};

}  // namespace

Examined examine(const uint8_t* code, uint64_t size, uint64_t at) {
  Examined out;
  const uint64_t left = std::min<uint64_t>(size - at, 20);
  out.size = static_cast<uint32_t>(disassemble(code + at, left, at, out.text));
  if (out.size == 0) {
    out.refusal = "no instruction";
    return out;
  }
  std::replace(out.text.begin(), out.text.end(), '\t', ' ');  // the parser may not get as far as to do it
  out.text.erase(0, out.text.find_first_not_of(' '));
  try {
    Parsed parsed = parse(out.text);
    std::memcpy(parsed.words, code + at, left);
    parsed.size = out.size;
    out.text = parsed.text;
    out.base = parsed.base;
    exec::Program program;
    exec::Builder builder(program);
    const exec::Inst inst = Decoder::build(builder, parsed);
    out.klass = inst.klass;
    out.is_branch = is_relative_branch(parsed, inst);
    out.target = static_cast<int64_t>(at) + inst.offset;
  } catch (const std::invalid_argument& error) {
    out.refusal = error.what();
  }
  return out;
}

std::unique_ptr<exec::Program> decode_kernel(const std::string& name, const uint8_t* code, uint64_t size,
                                             uint64_t entry) {
  return Decoder(name, code, size).run(entry);
}

}  // namespace gfx950::decode
