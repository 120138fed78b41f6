// One compute unit: the waves of its resident workgroups in event order on four SIMDs, from recorded traces.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "caches.h"
#include "occupancy.h"
#include "params.h"
#include "trace.h"

namespace gfx950::timing {

// Why a wave whose turn it could be does not issue.
enum class Stall : uint8_t {
  wait_vm,      // s_waitcnt vmcnt
  wait_lgkm,    // s_waitcnt lgkmcnt
  barrier,      // the other waves are not there
  matrix_data,  // the result of a matrix instruction is not ready
  matrix_pipe,  // the matrix unit is busy
  valu_pipe,    // the vector ALU is busy, or reads operands of a matrix instruction
  lds_pipe,     // the LDS unit has enough to do
  memory_pipe,  // the address unit, or the memory behind it
  issue,        // another wave issued an instruction of the class
  branch,       // fetch after a branch
  idle,         // s_nop, s_sleep
};
constexpr int kStalls = 11;
const char* name_of(Stall stall);

struct PcStatistics {
  uint64_t issues = 0;
  double stalls = 0;  // clocks, summed over waves
  std::array<float, kStalls> by_reason{};
  double lds_clocks = 0, lds_conflicts = 0;
};

// A range of instructions that a backward branch repeats.
struct Loop {
  uint32_t first = 0, last = 0;
  uint64_t trips = 0;  // of the traced workgroup's waves
  bool found = false;
};
// The loop in which most matrix passes are issued (or instructions, without any); of nested ones the innermost.
Loop hottest_loop(const GroupTrace& trace, const std::vector<Record>& records);

struct Event {
  uint32_t group = 0, wave = 0, simd = 0, pc = 0;
  Unit unit = Unit::internal;
  bool barrier = false;
  double start = 0, clocks = 0;
};

struct UnitResult {
  std::vector<double> completions;    // clocks at which workgroups ended, in that order
  double clocks = 0;                  // the last of them
  std::array<double, kUnits> busy{};  // clocks: vector and matrix units and issue summed over SIMDs
  double l2_busy = 0, mall_busy = 0, hbm_busy = 0;
  double l1_bytes = 0, l2_bytes = 0, fabric_bytes = 0, hbm_bytes = 0;  // moved to and from each level
  uint64_t waves = 0, instructions = 0;
  double wave_clocks = 0;  // resident, summed over waves
  std::array<double, kStalls> stalls{};
  std::vector<PcStatistics> pcs;
  double loop_simd_clocks = 0;  // clocks in which a SIMD had a wave in the hottest loop, summed over SIMDs
  double loop_matrix_clocks = 0;
  std::vector<Event> events;
};

struct UnitJob {
  const std::vector<Record>* records = nullptr;
  const MachineParams* params = nullptr;
  const CacheResult* caches = nullptr;
  std::vector<const GroupTrace*> groups;  // in the order of dispatch
  unsigned resident = 1;
  double active_units = 256;  // that share the memory of the chip
  Loop loop;
  size_t event_limit = 0;  // of the timeline
};

UnitResult simulate(const UnitJob& job);

}  // namespace gfx950::timing
