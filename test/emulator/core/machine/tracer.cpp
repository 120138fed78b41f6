#include "tracer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "../exec/program.h"

namespace gfx950 {
namespace {

using exec::Wave;

constexpr int kLanesShown = 4;
constexpr uint32_t kScalarRegisters = 102;

bool names(const std::optional<Watch>& watch, const exec::Program& program) {
  return watch && program.kernel.find(watch->kernel) != std::string::npos;
}

std::string scalar_name(uint32_t number) {
  switch (number) {
    case exec::kVcc:
      return "vcc_lo";
    case exec::kVcc + 1:
      return "vcc_hi";
    case exec::kM0:
      return "m0";
    case exec::kExec:
      return "exec_lo";
    case exec::kExec + 1:
      return "exec_hi";
    default:
      return "s" + std::to_string(number);
  }
}

bool is_scalar(uint32_t number) {
  return number < kScalarRegisters || number == exec::kVcc || number == exec::kVcc + 1 || number == exec::kM0 ||
         number >= exec::kExec;
}

std::string vector_name(uint32_t row) {
  return (row < exec::kAccBase ? "v" : "a") + std::to_string(row < exec::kAccBase ? row : row - exec::kAccBase);
}

}  // namespace

void Tracer::validate(const RunOptions& options, const exec::Program& program, const Dim3& grid) {
  const uint64_t groups = uint64_t{grid.x} * grid.y * grid.z;
  for (const auto& [name, watch] : {std::pair{"GFX950_TRACE", &options.trace}, {"GFX950_BREAK", &options.break_at}}) {
    if (!names(*watch, program) || (*watch)->workgroup < groups) continue;
    throw Error(ErrorKind::invalid_launch, std::string(name) + " names workgroup " +
                                               std::to_string((*watch)->workgroup) + "; kernel '" + program.kernel +
                                               "' is launched with " + std::to_string(groups) + ", counted from 0");
  }
  if (names(options.break_at, program) && program.index_of(static_cast<int64_t>(options.break_at->pc)) < 0) {
    char pc[32];
    std::snprintf(pc, sizeof pc, "0x%llx", static_cast<unsigned long long>(options.break_at->pc));
    throw Error(ErrorKind::invalid_launch, "GFX950_BREAK names pc " + std::string(pc) + "; no instruction of kernel '" +
                                               program.kernel + "' begins there. GFX950_TRACE and disasm show them");
  }
}

bool Tracer::wants(const RunOptions& options, const exec::Program& program, uint64_t workgroup) {
  return (names(options.trace, program) && options.trace->workgroup == workgroup) ||
         (names(options.break_at, program) && options.break_at->workgroup == workgroup);
}

Tracer::Tracer(const RunOptions& options, const exec::Program& program, uint64_t workgroup, uint32_t vgprs,
               uint32_t agprs, const Wave* waves, uint32_t waves_count)
    : program_(program), vgprs_(vgprs), agprs_(agprs), seen_(waves_count) {
  trace_ = names(options.trace, program) && options.trace->workgroup == workgroup;
  break_ = names(options.break_at, program) && options.break_at->workgroup == workgroup;
  if (break_) break_offset_ = static_cast<uint32_t>(options.break_at->pc);
  if (!options.trace_file.empty()) {
    out_ = std::fopen(options.trace_file.c_str(), "a");
    if (out_ == nullptr) {
      throw Error(ErrorKind::invalid_launch,
                  "GFX950_TRACE_FILE: cannot write '" + options.trace_file + "': " + std::strerror(errno));
    }
  }
  for (uint32_t k = 0; k < waves_count; ++k) {
    const Wave& w = waves[k];
    Seen& seen = seen_[k];
    seen.scalars.assign(w.s, w.s + 128);
    for (uint32_t r = 0; r < vgprs_ + agprs_; ++r) {
      const uint32_t* row = w.v[row_of(r)];
      seen.vectors.insert(seen.vectors.end(), row, row + exec::kLanes);
    }
  }
  std::fprintf(out_, "gfx950 %s: kernel '%s', workgroup (%u, %u, %u), %u waves\n", trace_ ? "trace" : "breakpoint",
               program.kernel.c_str(), waves->group_id[0], waves->group_id[1], waves->group_id[2], waves_count);
}

Tracer::~Tracer() {
  if (line_open_) std::fprintf(out_, "  (not completed)\n");
  if (out_ == stderr) {
    std::fflush(out_);
  } else {
    std::fclose(out_);
  }
}

void Tracer::before(const Wave& w, uint32_t index) {
  Seen& seen = seen_[w.id_in_group];
  if (break_ && !seen.at_breakpoint && program_.offset[index] == break_offset_) {
    seen.at_breakpoint = true;
    dump(w, index);
  }
  if (!trace_) return;
  std::fprintf(out_, "wave %u  0x%04x  %s", w.id_in_group, program_.offset[index], program_.text[index].c_str());
  line_open_ = true;
}

void Tracer::after(const Wave& w) {
  if (!trace_) return;
  Seen& seen = seen_[w.id_in_group];
  const char* separator = "  ->  ";
  for (uint32_t k = 0; k < 128; ++k) {
    if (w.s[k] == seen.scalars[k] || !is_scalar(k)) continue;
    std::fprintf(out_, "%s%s=%08x", separator, scalar_name(k).c_str(), w.s[k]);
    seen.scalars[k] = w.s[k];
    separator = ", ";
  }
  if (w.scc != seen.scc) {
    std::fprintf(out_, "%sscc=%u", separator, w.scc);
    seen.scc = w.scc;
    separator = ", ";
  }
  for (uint32_t r = 0; r < vgprs_ + agprs_; ++r) {
    const uint32_t* row = w.v[row_of(r)];
    uint32_t* old = seen.vectors.data() + size_t{r} * exec::kLanes;
    if (std::memcmp(row, old, sizeof(exec::Row)) == 0) continue;
    // The first lanes that changed, so that lanes which are off do not hide the result.
    std::fprintf(out_, "%s%s:", separator, vector_name(static_cast<uint32_t>(row_of(r))).c_str());
    int shown = 0, changed = 0;
    for (int lane = 0; lane < exec::kLanes; ++lane) {
      if (row[lane] == old[lane]) continue;
      ++changed;
      if (shown++ < kLanesShown) std::fprintf(out_, " [%d]=%08x", lane, row[lane]);
    }
    if (changed > kLanesShown) std::fprintf(out_, " +%d", changed - kLanesShown);
    std::memcpy(old, row, sizeof(exec::Row));
    separator = ", ";
  }
  std::fputc('\n', out_);
  line_open_ = false;
}

void Tracer::dump(const Wave& w, uint32_t index) {
  std::fprintf(out_, "breakpoint: wave %u at 0x%x, before '%s'\n", w.id_in_group, program_.offset[index],
               program_.text[index].c_str());
  std::fprintf(out_, "  exec=%016llx vcc=%016llx m0=%08x scc=%u\n", static_cast<unsigned long long>(w.exec()),
               static_cast<unsigned long long>(w.read64(exec::kVcc)), w.s[exec::kM0], w.scc);
  for (uint32_t k = 0; k < kScalarRegisters; k += 8) {
    std::fprintf(out_, "  s%-3u", k);
    for (uint32_t n = k; n < std::min(k + 8, kScalarRegisters); ++n) std::fprintf(out_, " %08x", w.s[n]);
    std::fputc('\n', out_);
  }
  for (uint32_t r = 0; r < vgprs_ + agprs_; ++r) {
    std::fprintf(out_, "  %-4s", vector_name(static_cast<uint32_t>(row_of(r))).c_str());
    for (uint32_t value : w.v[row_of(r)]) std::fprintf(out_, " %08x", value);
    std::fputc('\n', out_);
  }
}

}  // namespace gfx950
