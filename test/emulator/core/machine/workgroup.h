// One workgroup at a time on one host thread: its waves, LDS and registers, and the order in which waves run.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "../exec/wave.h"
#include "../hazards/checker.h"
#include "gfx950/gfx950.h"
#include "kernel.h"
#include "sampling.h"
#include "tracer.h"

namespace gfx950 {

// What every workgroup of a launch shares.
struct LaunchState {
  const Kernel* kernel = nullptr;
  const exec::Program* program = nullptr;
  Launch launch;
  RunOptions options;
  uintptr_t kernarg = 0, kernarg_end = 0;
  const uint8_t* packet = nullptr;
  uint32_t lds_size = 0;
  Sampling* sampling = nullptr;  // null: the time is known already
  timing::Skip skip = timing::Skip::none;
  std::chrono::steady_clock::time_point deadline;
};

struct WorkerTotals {
  std::vector<uint64_t> hits;  // executions of each instruction
  uint64_t bytes_loaded = 0, bytes_stored = 0;
  uint64_t uninitialised_lds_reads = 0;  // counted by the checker
};

class Workgroup {
 public:
  explicit Workgroup(const LaunchState& state);
  void run(uint64_t index);
  const WorkerTotals& totals() const { return totals_; }

 private:
  void start_wave(uint32_t wave, uint64_t index);
  void finish_wave(const exec::Wave& wave);
  // Runs until the wave stops, yields or has used up `budget`. Returns the instructions executed.
  uint64_t step(exec::Wave& wave, uint64_t budget);
  template <bool Check, bool Trace, bool Sample>
  uint64_t step_loop(exec::Wave& wave, uint64_t budget);
  void run_to_barrier();
  void round_robin();
  void random_order(uint64_t index);
  bool release_barrier();
  void check_deadline();

  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  template <class T>
  using Buffer = std::unique_ptr<T, Free>;
  static void* aligned(size_t bytes);

  const LaunchState& state_;
  uint32_t waves_count_ = 0;
  uint32_t vgprs_ = 0, agprs_ = 0;
  Buffer<exec::Row> registers_;
  Buffer<uint8_t> lds_;
  Buffer<uint8_t> scratch_;
  Buffer<exec::Wave> waves_;
  std::unique_ptr<hazards::Checker> checker_;   // with RunOptions::check
  std::unique_ptr<timing::Recorder> recorder_;  // of a worker that has met a sampled workgroup
  bool recording_ = false;                      // this workgroup
  std::unique_ptr<Tracer> tracer_;              // while a workgroup runs that is watched
  WorkerTotals totals_;
};

}  // namespace gfx950
