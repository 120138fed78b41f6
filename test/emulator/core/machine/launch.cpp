// launch(): checks a launch, runs its workgroups on host threads, adds up what they did.
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "../timing/report.h"
#include "crew.h"
#include "kernarg.h"
#include "sampling.h"
#include "workgroup.h"

namespace gfx950 {
namespace {

constexpr uint32_t kMaxLds = 160 * 1024;
constexpr uint64_t kMaxItems = 1024;
constexpr uint32_t kMaxScratch = 128 * 1024;  // bytes a lane
constexpr uint32_t kMaxPreload = 16;          // user scalar registers

[[noreturn]] void invalid(const KernelInfo& info, const std::string& what) {
  throw Error(ErrorKind::invalid_launch, "kernel '" + info.name + "': " + what);
}

void check_launch(const Launch& launch, const Kernel& kernel) {
  const KernelInfo& info = kernel.info;
  const Dim3& block = launch.block;
  const Dim3& grid = launch.grid;
  const uint64_t items = uint64_t{block.x} * block.y * block.z;
  const std::string shape = std::to_string(block.x) + " x " + std::to_string(block.y) + " x " + std::to_string(block.z);
  if (items == 0) invalid(info, "empty block " + shape);
  if (block.x > kMaxItems || block.y > kMaxItems || block.z > kMaxItems || items > kMaxItems) {
    invalid(info, "block " + shape + " has " + std::to_string(items) + " work-items; the limit is 1024");
  }
  if (info.max_flat_workgroup_size != 0 && items > info.max_flat_workgroup_size) {
    invalid(info, "block " + shape + " has " + std::to_string(items) + " work-items; it was compiled for at most " +
                      std::to_string(info.max_flat_workgroup_size));
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) invalid(info, "empty grid");
  const uint64_t lds = uint64_t{info.group_segment_size} + launch.dynamic_lds;
  if (lds > kMaxLds) {
    invalid(info, "needs " + std::to_string(lds) + " bytes of LDS (" + std::to_string(info.group_segment_size) +
                      " static, " + std::to_string(launch.dynamic_lds) + " dynamic); gfx950 has " +
                      std::to_string(kMaxLds));
  }
  const Descriptor& d = kernel.descriptor;
  if (info.private_segment_size > kMaxScratch) {
    invalid(info, "needs " + std::to_string(info.private_segment_size) + " bytes of scratch a lane; the limit is " +
                      std::to_string(kMaxScratch));
  }
  if (d.preload_length > kMaxPreload) {
    invalid(info, "preloads " + std::to_string(d.preload_length) + " argument registers; there are " +
                      std::to_string(kMaxPreload));
  }
  // Private segment buffer: registers for something that does not exist here.
  if ((d.properties & 1 << 0) != 0) invalid(info, "asks for a scratch descriptor");
  if ((d.rsrc2 >> 10 & 1) != 0) invalid(info, "asks for workgroup info in a register");
  const uint32_t round = d.rsrc1 >> 12 & 15;
  if ((d.rsrc1 >> 21 & 1) == 0 || (d.rsrc1 >> 23 & 1) == 0) {
    invalid(info, "turns off DX10_CLAMP or IEEE mode, which is not modelled");
  }
  const uint32_t denormal16 = d.rsrc1 >> 18 & 3;
  if (round != 0) invalid(info, "rounding mode " + std::to_string(round) + "; only nearest even is modelled");
  if (denormal16 != 3) invalid(info, "flushes f16 and f64 denormals, which is not modelled");
}

// The MODE register's f32 denormal bits, on the host's control register while workgroups run.
class FloatMode {
 public:
  explicit FloatMode(uint32_t rsrc1) : before_(_mm_getcsr()) {
    const uint32_t denormal32 = rsrc1 >> 16 & 3;
    uint32_t mode = 0x1f80;                     // all exceptions masked, nearest even
    if ((denormal32 & 1) == 0) mode |= 0x0040;  // denormal inputs are zero
    if ((denormal32 & 2) == 0) mode |= 0x8000;  // denormal results are zero
    _mm_setcsr(mode);
  }
  ~FloatMode() { _mm_setcsr(before_); }

 private:
  uint32_t before_;
};

void count(const exec::Program& program, const WorkerTotals& totals, LaunchCounts& counts) {
  for (size_t k = 0; k < program.code.size(); ++k) {
    const uint64_t n = totals.hits[k];
    if (n == 0) continue;
    const exec::Inst& in = program.code[k];
    counts.wave_instructions += n;
    switch (in.klass) {
      case exec::Klass::salu:
        counts.salu += n;
        break;
      case exec::Klass::valu:
        counts.valu += n;
        break;
      case exec::Klass::mfma:
        counts.mfma += n;
        break;
      case exec::Klass::lds:
        counts.lds += n;
        break;
      case exec::Klass::vmem:
        counts.vmem += n;
        break;
      case exec::Klass::smem:
        counts.smem += n;
        break;
      case exec::Klass::branch:
        counts.branch += n;
        break;
      case exec::Klass::other:
        counts.other += n;
        break;
    }
  }
  counts.bytes_loaded += totals.bytes_loaded;
  counts.bytes_stored += totals.bytes_stored;
  counts.uninitialised_lds_reads += totals.uninitialised_lds_reads;
}

// Calls run(worker, index) for every index below `count`, on host threads.
void run_on_threads(const LaunchState& state, uint64_t count, std::vector<std::unique_ptr<Workgroup>>& workers,
                    const std::function<uint64_t(uint64_t)>& index_of) {
  const unsigned wanted =
      state.options.threads != 0 ? state.options.threads : std::max(1u, std::thread::hardware_concurrency());
  // What a kernel prints comes in the order of its workgroups.
  const bool in_order = state.launch.host != nullptr && state.program->interrupts;
  const unsigned threads = in_order ? 1 : static_cast<unsigned>(std::min<uint64_t>(wanted, count));
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::mutex mutex;
  workers.resize(threads);
  auto work_on = [&](unsigned k) {
    try {
      FloatMode mode(state.kernel->descriptor.rsrc1);
      workers[k] = std::make_unique<Workgroup>(state);
      while (!failed.load(std::memory_order_relaxed)) {
        const uint64_t position = next.fetch_add(1);
        if (position >= count) break;
        workers[k]->run(index_of(position));
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      failed = true;
    }
  };
  run_with_helpers(threads - 1, work_on);
  if (error) std::rethrow_exception(error);
}

void run_all(const LaunchState& state, LaunchCounts& counts) {
  const Launch& launch = state.launch;
  counts.workgroups = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  counts.waves = counts.workgroups * timing::waves_of(launch);
  std::vector<std::unique_ptr<Workgroup>> workers;
  run_on_threads(state, counts.workgroups, workers, [](uint64_t position) { return position; });
  for (const auto& worker : workers) {
    if (worker) count(*state.program, worker->totals(), counts);  // else a helper that came too late
  }
}

// A timing-only launch: the sampled workgroups, with as much skipped as their control flow and addresses allow. Returns
// why that cannot be, or nothing.
std::string run_samples(LaunchState& state, Sampling& sampling) {
  if (state.launch.host != nullptr && state.program->interrupts) return "it may call the host";
  const auto& samples = sampling.plan().samples;
  for (timing::Skip skip : {timing::Skip::data, timing::Skip::matrix, timing::Skip::stores}) {
    state.skip = skip;
    sampling.clear();
    try {
      std::vector<std::unique_ptr<Workgroup>> workers;
      run_on_threads(state, samples.size(), workers, [&](uint64_t position) { return samples[position].index; });
      if (skip != timing::Skip::data) sampling.mark_depends_on_data();
      return "";
    } catch (const timing::SkippedTooMuch&) {
    }
  }
  return "an atomic operation's result decides what it does";
}

void append_profile(const std::string& path, const TimingReport& report) {
  std::FILE* file = std::fopen(path.c_str(), "a");
  if (file == nullptr) throw Error(ErrorKind::invalid_launch, "GFX950_PROFILE: cannot append to '" + path + "'");
  const std::string line = to_json(report) + "\n";
  std::fwrite(line.data(), 1, line.size(), file);
  std::fclose(file);
}

}  // namespace

LaunchResult launch(const Launch& launch, const RunOptions& options) {
  const Kernel& kernel = *launch.kernel;
  check_launch(launch, kernel);
  LaunchState state;
  state.kernel = &kernel;
  state.program = &kernel.program();
  state.launch = launch;
  state.options = options;
  std::vector<uint8_t> kernarg = build_kernarg(launch, kernel);
  state.kernarg = reinterpret_cast<uintptr_t>(kernarg.data());
  state.kernarg_end = state.kernarg + kernarg.size();
  alignas(64) uint8_t packet[64];
  build_dispatch_packet(launch, kernel.info, kernarg.data(), packet);
  state.packet = packet;
  state.lds_size = kernel.info.group_segment_size + launch.dynamic_lds;
  state.deadline = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                          std::chrono::duration<double>(options.timeout_seconds));

  // What the launch would take: remembered, or from workgroups that are recorded while they run.
  const timing::MachineParams params = timing::MachineParams::from_environment();
  const std::string signature = signature_of(launch, params);
  std::shared_ptr<const TimingReport> report;
  if (options.timeline_events == 0) report = kernel.remembered(signature);
  std::unique_ptr<Sampling> sampling;
  if (!report) {
    sampling = std::make_unique<Sampling>(launch, *state.program, kernel.records(), params);
    state.sampling = sampling.get();
  }

  LaunchResult result;
  if (options.timing != RunOptions::Timing::also) {
    result.executed = false;
    if (!report) {
      // The checker and the tracer look at values, which are not computed.
      state.options.check = false;
      state.options.trace.reset();
      state.options.break_at.reset();
      const std::string refusal = run_samples(state, *sampling);
      if (!refusal.empty()) {
        if (options.timing == RunOptions::Timing::only) {
          invalid(kernel.info, "cannot be timed without running it: " + refusal);
        }
        sampling->clear();
        state.skip = timing::Skip::none;
        state.options = options;
        result.executed = true;
      }
    }
  }
  if (result.executed) run_all(state, result.counts);
  if (!report) {
    const auto fresh = sampling->predict(options.timeline_events);
    fresh->timing_only = !result.executed;
    report = fresh;
    if (!sampling->depends_on_data() && options.timeline_events == 0) kernel.remember(signature, report);
  }
  result.nanoseconds = report->nanoseconds;
  result.report = report;
  if (!options.profile_file.empty()) append_profile(options.profile_file, *report);
  return result;
}

}  // namespace gfx950
