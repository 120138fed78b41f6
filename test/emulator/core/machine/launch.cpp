// launch(): checks a launch, runs its workgroups on host threads, adds up what they did.
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "../timing/model.h"
#include "crew.h"
#include "kernarg.h"
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

void count(const exec::Program& program, const WorkerTotals& totals, LaunchCounts& counts, timing::Work& work) {
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
        work.valu_slots += n * in.cost;
        break;
      case exec::Klass::mfma:
        counts.mfma += n;
        work.mfma_passes += n * in.cost;
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
  work.lds_bytes += totals.lds_bytes;
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

  const uint64_t groups = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  const unsigned wanted = options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  // What a kernel prints comes in the order of its workgroups.
  const bool in_order = launch.host != nullptr && state.program->interrupts;
  const unsigned threads = in_order ? 1 : static_cast<unsigned>(std::min<uint64_t>(wanted, groups));
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::mutex mutex;
  std::vector<std::unique_ptr<Workgroup>> workers(threads);
  auto work_on = [&](unsigned k) {
    try {
      FloatMode mode(kernel.descriptor.rsrc1);
      workers[k] = std::make_unique<Workgroup>(state);
      while (!failed.load(std::memory_order_relaxed)) {
        const uint64_t index = next.fetch_add(1);
        if (index >= groups) break;
        workers[k]->run(index);
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      failed = true;
    }
  };
  run_with_helpers(threads - 1, work_on);
  if (error) std::rethrow_exception(error);

  LaunchResult result;
  timing::Work work;
  std::set<std::pair<uintptr_t, uintptr_t>> windows;
  for (const auto& worker : workers) {
    if (!worker) continue;  // a helper that came too late
    count(*state.program, worker->totals(), result.counts, work);
    windows.insert(worker->totals().windows.begin(), worker->totals().windows.end());
  }
  const uint32_t items = launch.block.x * launch.block.y * launch.block.z;
  work.workgroups = result.counts.workgroups = groups;
  work.waves_per_group = (items + exec::kLanes - 1) / exec::kLanes;
  result.counts.waves = groups * work.waves_per_group;
  work.lds_bytes_per_group = state.lds_size;
  work.vgprs = kernel.info.vgpr_count;
  work.salu = result.counts.salu + result.counts.branch;
  work.smem = result.counts.smem;
  work.vmem = result.counts.vmem;
  work.other = result.counts.other;
  work.lds_instructions = result.counts.lds;
  work.global_bytes = result.counts.bytes_loaded + result.counts.bytes_stored;
  for (const auto& [begin, end] : windows) work.footprint_bytes += end - begin;
  result.nanoseconds = timing::nanoseconds(work);
  return result;
}

}  // namespace gfx950
