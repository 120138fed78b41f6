// What a sampled workgroup executed: for each wave its instructions in order, and what each of them did to memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "../exec/wave.h"
#include "allocations.h"
#include "lds_banks.h"
#include "record.h"

namespace gfx950::timing {

// One memory instruction that was executed.
struct Access {
  uint32_t pc = 0;
  uint32_t bytes = 0;     // as the lanes asked for
  uint16_t lines = 0;     // 128-byte lines touched
  float clocks = 0;       // of the address unit, or of the LDS unit
  float conflicts = 0;    // LDS: clocks that bank conflicts add
  uint32_t lines_at = 0;  // index of its lines, if they were kept
};

struct WaveTrace {
  std::vector<uint32_t> pcs;  // empty if only lines were asked for
  std::vector<Access> accesses;
  std::vector<uint64_t> lines;  // Allocations::Range::line, sorted within an access
  uint64_t instructions = 0;
};

struct GroupTrace {
  uint64_t index = 0;
  std::vector<WaveTrace> waves;
  bool depends_on_data = false;  // a loaded value decided a branch or an address
  uint64_t instructions() const {
    uint64_t sum = 0;
    for (const WaveTrace& wave : waves) sum += wave.instructions;
    return sum;
  }
};

// What to record of a workgroup.
struct Sample {
  uint64_t index = 0;
  bool whole = false;  // all instructions; else lines alone, of the first `limit` instructions of each wave
  bool lines = false;  // keep lines, of the first `limit` instructions
  uint64_t limit = 0;
};

// How much a timing-only launch executes. Each step executes more; the cycles are the same, as a test shows.
enum class Skip : uint8_t {
  data,    // loads, stores, LDS and all arithmetic on what they would have loaded
  matrix,  // stores, and arithmetic on the results of matrix instructions
  stores,  // stores alone
  none,    // nothing: an ordinary launch
};

// Thrown when what was skipped would decide a branch or an address: the next Skip has to do.
struct SkippedTooMuch {};

constexpr uint64_t kLineBytes = uint64_t{1} << kLineShift;

class Recorder : public exec::Probe {
 public:
  Recorder(const exec::Program& program, const std::vector<Record>& records, const MachineParams& params,
           Allocations& allocations, uint32_t waves);

  void start(const Sample& sample, Skip skip, GroupTrace* out);
  // Before each instruction. False: skip it.
  bool before(exec::Wave& wave, uint32_t pc);
  // Whether the wave has executed all that is asked for; a timing-only launch then ends it.
  bool done(const exec::Wave& wave) const {
    return skip_ != Skip::none && !sample_.whole && out_->waves[wave.id_in_group].instructions >= sample_.limit;
  }

  void global(const exec::Inst& in, const int64_t* at, uint64_t on, unsigned bytes) override;
  void scratch(const exec::Inst& in, const int64_t* offset, uint64_t on, unsigned bytes) override;
  void lds(const exec::Inst& in, const uint32_t* address, uint32_t offset, uint64_t on, unsigned bytes) override;

 private:
  // Registers whose value was skipped, or comes from loads: vector rows, then scalars.
  using Taint = std::array<uint64_t, (hazards::kRegisters + 63) / 64>;

  bool tainted(const Taint& taint, hazards::Registers r) const;
  void set(Taint& taint, hazards::Registers r, bool value) const;
  bool follow(exec::Wave& wave, uint32_t pc);  // taint; whether to execute
  bool follow_memory(exec::Wave& wave, uint32_t pc, Taint& taint);
  bool follow_scratch(exec::Wave& wave, uint32_t pc, bool data);  // whether a load gives what was skipped
  uint64_t line_of(uint64_t address);
  void decided();  // what was skipped, or loaded, decides
  void add_lines(const uint64_t* lines, unsigned count, unsigned bytes, float clocks);

  const exec::Program& program_;
  const std::vector<Record>& records_;
  const MachineParams& params_;
  Allocations& allocations_;
  Allocations::Range range_;  // that an access was last in
  const exec::Wave* executing_ = nullptr;
  LdsBanks banks_;
  std::vector<Taint> taints_;
  std::vector<std::set<int64_t>> scratch_taints_;  // dwords of each wave's private memory; kAnywhere: at any of them
  bool lds_tainted_ = false;
  bool following_ = true;
  bool indexed_ = false;
  Sample sample_;
  Skip skip_ = Skip::none;
  GroupTrace* out_ = nullptr;
  WaveTrace* wave_ = nullptr;  // that executes now
  bool open_ = false;          // its last access belongs to the present instruction
};

}  // namespace gfx950::timing
