#include "workgroup.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace gfx950 {
namespace {

using exec::Status;
using exec::Wave;

constexpr uint32_t kRegisterRows = 512;
constexpr uint32_t kPoisonWord = 0xFFA5FFA5u;  // a NaN as f32, and in both halves as f16 and bf16
constexpr uint64_t kSlice = 1 << 16;           // instructions between looks at the clock
// A wave that runs this long without a barrier may wait for a sibling: let the others run.
constexpr uint64_t kPatience = 1 << 20;

// Bits of the descriptor's kernel code properties, in the order in which their registers are laid out.
enum Property : uint16_t {
  kPrivateSegmentBuffer = 1 << 0,
  kDispatchPtr = 1 << 1,
  kQueuePtr = 1 << 2,
  kKernargPtr = 1 << 3,
  kDispatchId = 1 << 4,
  kFlatScratchInit = 1 << 5,
  kPrivateSegmentSize = 1 << 6,
};

}  // namespace

void* Workgroup::aligned(size_t bytes) {
  void* p = std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

Workgroup::Workgroup(const LaunchState& state) : state_(state) {
  const Dim3& block = state.launch.block;
  waves_count_ = (block.x * block.y * block.z + exec::kLanes - 1) / exec::kLanes;
  const KernelInfo& info = state.kernel->info;
  vgprs_ = std::min(256u, std::max(info.vgpr_count, 1u));
  agprs_ = std::min(256u, info.agpr_count);
  registers_.reset(static_cast<exec::Row*>(aligned(sizeof(exec::Row) * kRegisterRows * waves_count_)));
  lds_.reset(static_cast<uint8_t*>(aligned(state.lds_size)));
  scratch_.reset(static_cast<uint8_t*>(aligned(size_t{info.private_segment_size} * exec::kLanes * waves_count_)));
  waves_.reset(static_cast<Wave*>(aligned(sizeof(Wave) * waves_count_)));
  totals_.hits.resize(state.program->code.size());
  Tracer::validate(state.options, *state.program, state.launch.grid);
  if (state.options.check) {
    checker_ = std::make_unique<hazards::Checker>(*state.program, waves_count_, state.lds_size,
                                                  state.options.check_uninitialised);
  }
}

void Workgroup::start_wave(uint32_t number, uint64_t index) {
  Wave& w = *new (waves_.get() + number) Wave;
  const Kernel& kernel = *state_.kernel;
  const Descriptor& d = kernel.descriptor;
  const Dim3& grid = state_.launch.grid;
  const Dim3& block = state_.launch.block;
  w.v = registers_.get() + size_t{kRegisterRows} * number;
  auto poison = [](uint32_t* begin, size_t words) { std::fill(begin, begin + words, kPoisonWord); };
  poison(w.v[0], size_t{vgprs_} * exec::kLanes);
  poison(w.v[exec::kAccBase], size_t{agprs_} * exec::kLanes);
  poison(w.s, sizeof w.s / 4);
  w.program = state_.program;
  w.host = state_.launch.host;
  w.pc = state_.program->entry;
  w.lds = lds_.get();
  w.lds_size = state_.lds_size;
  w.scratch_size = kernel.info.private_segment_size;
  w.scratch = scratch_.get() + size_t{w.scratch_size} * exec::kLanes * number;
  std::memset(w.scratch, 0xA5, size_t{w.scratch_size} * exec::kLanes);
  w.id_in_group = number;
  w.group_id[0] = static_cast<uint32_t>(index % grid.x);
  w.group_id[1] = static_cast<uint32_t>(index / grid.x % grid.y);
  w.group_id[2] = static_cast<uint32_t>(index / grid.x / grid.y);
  w.xcc = static_cast<uint32_t>(index % 8);
  w.saturate = (d.rsrc1 >> 26 & 1) != 0;
  w.probe = recording_ ? recorder_.get() : nullptr;
  w.windows[0] = {state_.kernarg, state_.kernarg_end};
  w.windows[1] = {reinterpret_cast<uintptr_t>(state_.packet), reinterpret_cast<uintptr_t>(state_.packet) + 64};
  w.next_window = 2;

  // User registers by the descriptor's bits, then the workgroup's position.
  int next = 0;
  auto push = [&](uint32_t value) { w.s[next++] = value; };
  auto push64 = [&](uint64_t value) {
    push(static_cast<uint32_t>(value));
    push(static_cast<uint32_t>(value >> 32));
  };
  if ((d.properties & kDispatchPtr) != 0) push64(reinterpret_cast<uint64_t>(state_.packet));
  // There is no queue: a kernel that reads it faults. LLVM asks for it wherever it cannot tell that a kernel does not,
  // as in one that calls an intrinsic it knows little of.
  if ((d.properties & kQueuePtr) != 0) push64(0);
  if ((d.properties & kKernargPtr) != 0) push64(state_.kernarg);
  if ((d.properties & kDispatchId) != 0) push64(0);
  if ((d.properties & kFlatScratchInit) != 0) push64(0);  // scratch is architected on gfx950: nothing reads it
  if ((d.properties & kPrivateSegmentSize) != 0) push(kernel.info.private_segment_size);
  for (int k = 0; k < d.preload_length; ++k) {
    uint32_t word;
    std::memcpy(&word, reinterpret_cast<const uint8_t*>(state_.kernarg) + 4 * (d.preload_offset + k), 4);
    push(word);
  }
  for (int axis = 0; axis < 3; ++axis) {
    if ((d.rsrc2 >> (7 + axis) & 1) != 0) push(w.group_id[axis]);
  }

  // Work-items: packed into v0, as many axes as asked for.
  const uint32_t axes = d.rsrc2 >> 11 & 3;
  const uint32_t items = block.x * block.y * block.z;
  uint64_t exec = 0;
  for (uint32_t lane = 0; lane < exec::kLanes; ++lane) {
    const uint32_t item = number * exec::kLanes + lane;
    if (item >= items) break;
    exec |= uint64_t{1} << lane;
    const uint32_t x = item % block.x, y = item / block.x % block.y, z = item / block.x / block.y;
    w.v[0][lane] = x | (axes >= 1 ? y << 10 : 0) | (axes >= 2 ? z << 20 : 0);
  }
  w.write64(exec::kExec, exec);
}

void Workgroup::finish_wave(const Wave& w) {
  totals_.bytes_loaded += w.counts.bytes_loaded;
  totals_.bytes_stored += w.counts.bytes_stored;
}

template <bool Check, bool Trace, bool Sample>
uint64_t Workgroup::step_loop(Wave& w, uint64_t budget) {
  const exec::Inst* code = state_.program->code.data();
  uint64_t* hits = totals_.hits.data();
  uint64_t left = budget;
  while (left != 0) {
    --left;
    const uint32_t pc = w.pc++;
    ++hits[pc];
    if constexpr (Trace) tracer_->before(w, pc);
    if constexpr (Check) checker_->before(w, pc);
    if constexpr (Sample) {
      if (recorder_->before(w, pc)) code[pc].fn(w, code[pc]);
      if (recorder_->done(w)) w.status = Status::ended;
    } else {
      code[pc].fn(w, code[pc]);
    }
    if constexpr (Trace) tracer_->after(w);
    if (w.status != Status::running) break;
  }
  return budget - left;
}

uint64_t Workgroup::step(Wave& w, uint64_t budget) {
  exec::saturate_small_floats = w.saturate;
  uint64_t done;
  if (recording_) {
    done = checker_ ? (tracer_ ? step_loop<true, true, true>(w, budget) : step_loop<true, false, true>(w, budget))
                    : (tracer_ ? step_loop<false, true, true>(w, budget) : step_loop<false, false, true>(w, budget));
  } else if (tracer_) {
    done = checker_ ? step_loop<true, true, false>(w, budget) : step_loop<false, true, false>(w, budget);
  } else {
    done = checker_ ? step_loop<true, false, false>(w, budget) : step_loop<false, false, false>(w, budget);
  }
  w.steps += done;
  return done;
}

void Workgroup::check_deadline() {
  if (std::chrono::steady_clock::now() < state_.deadline) return;
  const Wave& first = *waves_;
  std::string text = "kernel '" + state_.kernel->info.name + "', workgroup (" + std::to_string(first.group_id[0]) +
                     ", " + std::to_string(first.group_id[1]) + ", " + std::to_string(first.group_id[2]) +
                     "): still running after " + std::to_string(state_.options.timeout_seconds) + " s; waves at";
  for (uint32_t k = 0; k < waves_count_; ++k) {
    const Wave& w = waves_.get()[k];
    const size_t pc = std::min<size_t>(w.pc, state_.program->offset.size() - 1);
    text += std::string(k == 0 ? " " : ", ") + std::to_string(k) + ": " + state_.program->place(pc);
    text += w.status == Status::at_barrier ? " (barrier)" : w.status == Status::ended ? " (ended)" : "";
  }
  throw Error(ErrorKind::timeout,
              text + ". A workgroup that waits for a later one never ends here; GFX950_TIMEOUT raises the limit.");
}

// Lets the waves at a barrier go if every wave that has not ended is there. False: all have ended.
bool Workgroup::release_barrier() {
  bool any = false;
  for (uint32_t k = 0; k < waves_count_; ++k) {
    Wave& w = waves_.get()[k];
    if (w.status == Status::running) return true;
    any = any || w.status == Status::at_barrier;
  }
  for (uint32_t k = 0; k < waves_count_; ++k) {
    Wave& w = waves_.get()[k];
    if (w.status == Status::at_barrier) w.status = Status::running;
  }
  if (checker_) checker_->barrier();
  return any;
}

void Workgroup::run_to_barrier() {
  do {
    for (uint32_t k = 0; k < waves_count_; ++k) {
      Wave& w = waves_.get()[k];
      uint64_t used = 0;
      while (w.status == Status::running && used < kPatience) {
        used += step(w, kSlice);
        check_deadline();
      }
      if (w.status == Status::yielded) w.status = Status::running;
    }
  } while (release_barrier());
}

void Workgroup::round_robin() {
  uint64_t since_check = 0;
  do {
    for (uint32_t k = 0; k < waves_count_; ++k) {
      Wave& w = waves_.get()[k];
      if (w.status != Status::running) continue;
      since_check += step(w, 1);
      if (w.status == Status::yielded) w.status = Status::running;
    }
    if (since_check >= kSlice) {
      check_deadline();
      since_check = 0;
    }
  } while (release_barrier());
}

// Time slices of random waves and random lengths. Depends on the seed and the workgroup alone, not on host threads.
void Workgroup::random_order(uint64_t index) {
  constexpr uint64_t kLongest = 64;  // instructions of one slice: several LDS accesses, seldom a whole phase
  uint64_t state = state_.options.seed * 0x9E3779B97F4A7C15u + index;
  auto next = [&state] {  // splitmix64
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  };
  uint64_t since_check = 0;
  std::vector<Wave*> running;
  do {
    for (;;) {
      running.clear();
      for (uint32_t k = 0; k < waves_count_; ++k) {
        if (waves_.get()[k].status == Status::running) running.push_back(waves_.get() + k);
      }
      if (running.empty()) break;
      Wave& w = *running[next() % running.size()];
      since_check += step(w, 1 + next() % kLongest);
      if (w.status == Status::yielded) w.status = Status::running;
      if (since_check >= kSlice) {
        check_deadline();
        since_check = 0;
      }
    }
  } while (release_barrier());
}

void Workgroup::run(uint64_t index) {
  std::memset(lds_.get(), 0xA5, state_.lds_size);
  const int64_t sample = state_.sampling == nullptr ? -1 : state_.sampling->find(index);
  recording_ = sample >= 0;
  if (recording_) {
    if (!recorder_) recorder_ = state_.sampling->recorder();
    const size_t k = static_cast<size_t>(sample);
    recorder_->start(state_.sampling->sample(k), state_.skip, &state_.sampling->trace(k));
  }
  for (uint32_t k = 0; k < waves_count_; ++k) start_wave(k, index);
  if (checker_) checker_->start();
  if (Tracer::wants(state_.options, *state_.program, index)) {
    tracer_ =
        std::make_unique<Tracer>(state_.options, *state_.program, index, vgprs_, agprs_, waves_.get(), waves_count_);
  }
  if (state_.options.schedule == Schedule::round_robin) {
    round_robin();
  } else if (state_.options.schedule == Schedule::random) {
    random_order(index);
  } else {
    run_to_barrier();
  }
  tracer_.reset();
  for (uint32_t k = 0; k < waves_count_; ++k) finish_wave(waves_.get()[k]);
  if (checker_) totals_.uninitialised_lds_reads = checker_->uninitialised_reads();
}

}  // namespace gfx950
