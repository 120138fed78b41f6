// Public interface of the gfx950 core: load a code object, launch one of its kernels on host memory.
//
// The core knows nothing of HIP and nothing of PyTorch. Device memory is host memory: a device pointer is a host
// pointer that lies in a range registered with Memory. Nothing here is thread-safe unless it says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gfx950 {

// What went wrong, in classes that a runtime on top can turn into its own error codes.
enum class ErrorKind {
  invalid_image,            // not an AMDGPU code object, truncated, corrupted
  unsupported_target,       // a code object for another architecture
  unsupported_instruction,  // the text names the mnemonic or the operand form
  invalid_launch,           // grid, block, LDS or kernel arguments outside the limits
  memory_fault,             // an access outside every registered range, or outside LDS or scratch
  hazard,                   // found by the checker
  trap,                     // the kernel ended itself: an assertion
  timeout,                  // waves made no progress; the text lists their program counters
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// ---- code objects
// -----------------------------------------------------------------------------------------------------

struct KernelArgument {
  std::string name;        // may be empty
  std::string value_kind;  // as in the metadata: "by_value", "global_buffer", "hidden_block_count_x", ...
  uint32_t offset = 0;     // bytes from the start of the kernarg segment
  uint32_t size = 0;       // bytes
};

struct KernelInfo {
  std::string name;
  uint32_t kernarg_size = 0;          // bytes, explicit and hidden
  uint32_t group_segment_size = 0;    // static LDS, bytes
  uint32_t private_segment_size = 0;  // scratch per lane, bytes
  uint32_t vgpr_count = 0;            // as the metadata counts them
  uint32_t agpr_count = 0;
  uint32_t sgpr_count = 0;
  uint32_t vgpr_spill_count = 0;
  uint32_t sgpr_spill_count = 0;
  uint32_t max_flat_workgroup_size = 0;
  std::vector<KernelArgument> arguments;
};

struct GlobalSymbol {
  void* address = nullptr;
  size_t size = 0;
};

class Kernel;  // decoded program plus KernelInfo; owned by its CodeObject

class CodeObject {
 public:
  virtual ~CodeObject() = default;
  // `data` is an ELF code object or a clang offload bundle that holds one for gfx950. The bytes are copied.
  // Decoding is lazy, at the first launch of a kernel. Throws Error(invalid_image | unsupported_target).
  static std::shared_ptr<CodeObject> load(const void* data, size_t size);
  // Size in bytes of the code object that starts at `data` (from its ELF or bundle headers): hipModuleLoadData gets no
  // size. Throws Error(invalid_image).
  static size_t image_size(const void* data);

  virtual const std::vector<KernelInfo>& kernels() const = 0;
  virtual const Kernel* find(std::string_view name) const = 0;  // nullptr if there is none of that name
  virtual std::optional<GlobalSymbol> global(std::string_view name) const = 0;
};

const KernelInfo& info(const Kernel& kernel);

// ---- launches
// ---------------------------------------------------------------------------------------------------------

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

enum class Schedule { run_to_barrier, round_robin, random };  // order in which the waves of a workgroup run

// Which workgroup of which kernels to look at: machine/tracer.h.
struct Watch {
  std::string kernel;  // part of its name
  uint64_t workgroup = 0;
  uint64_t pc = 0;  // bytes from the kernel's first instruction; a breakpoint's
};

struct RunOptions {
  Schedule schedule = Schedule::run_to_barrier;
  uint64_t seed = 0;                 // of Schedule::random: the same seed gives the same order
  bool check = false;                // hazard checker: hazards/README.md
  bool check_uninitialised = false;  // with check: a read of LDS that nobody wrote is an error, not just counted
  unsigned threads = 0;              // host threads that run workgroups; 0: one per core
  double timeout_seconds = 300;      // of host time
  std::optional<Watch> trace;        // every instruction that this workgroup executes, as text
  std::optional<Watch> break_at;     // its registers when a wave first gets there
  std::string trace_file;            // where both are appended; empty: standard error
  // Timing::only executes no more than the modelled time asks for: a few workgroups, without their stores and without
  // arithmetic on which neither control flow nor addresses depend. Memory stays as it is; nothing is counted. A kernel
  // that cannot be timed in this way is refused; with Timing::preferred it runs as usual.
  enum class Timing : uint8_t { also, preferred, only };
  Timing timing = Timing::also;
  std::string profile_file;    // where a report of each launch is appended as a line of JSON; empty: nowhere
  size_t timeline_events = 0;  // of one compute unit, in the report
  // GFX950_PROFILE and GFX950_PROFILE_TIMELINE set the last two.
  // From GFX950_SCHEDULE, GFX950_CHECK, GFX950_THREADS, GFX950_TIMEOUT, GFX950_TRACE, GFX950_TRACE_FILE, GFX950_BREAK;
  // throws Error(invalid_launch) that names a bad value.
  static RunOptions from_environment();
};

// Whom a kernel calls while it runs: printf, assertions.
struct HostService {
  void* buffer = nullptr;  // where the two meet; the kernel gets it as its hidden_hostcall_buffer
  // Called when a wave sends an interrupt. Returns what is not modelled in what it asks for, or nothing.
  std::function<std::string()> serve;
};

struct Launch {
  const Kernel* kernel = nullptr;
  Dim3 grid;                 // workgroups
  Dim3 block;                // work-items per workgroup
  uint32_t dynamic_lds = 0;  // bytes beyond the static LDS
  const void* kernarg =
      nullptr;              // explicit arguments laid out as the metadata says; hidden ones are filled in by the core
  size_t kernarg_size = 0;  // bytes at `kernarg`
  // A kernel that can send interrupts runs its workgroups in order, on one host thread, if this is given.
  const HostService* host = nullptr;
};

struct LaunchCounts {
  uint64_t workgroups = 0, waves = 0, wave_instructions = 0;
  uint64_t salu = 0, valu = 0, mfma = 0, lds = 0, vmem = 0, smem = 0, branch = 0, other = 0;
  uint64_t bytes_loaded = 0, bytes_stored = 0;  // global memory, as requested by the lanes
  uint64_t uninitialised_lds_reads = 0;         // with RunOptions::check: 1, 2 or 4 bytes each
};

struct TimingReport;  // timing/report.h
std::string to_json(const TimingReport& report);
// The model's numbers with their sources, as JSON. Throws Error(invalid_launch) if GFX950_TIMING_PARAMS is wrong.
std::string timing_parameters_json();

struct LaunchResult {
  LaunchCounts counts;
  double nanoseconds = 0;  // modelled; test/emulator/core/timing/README.md says how
  std::shared_ptr<const TimingReport> report;
  bool executed = true;  // false: only timed
};

// Runs the whole grid to its end. Throws Error; memory may then be partly written, as on hardware.
LaunchResult launch(const Launch& launch, const RunOptions& options);

// ---- memory
// -----------------------------------------------------------------------------------------------------------

// The ranges that kernels may touch. Thread-safe.
class Memory {
 public:
  enum class Owner { device, host_registered, code_object };
  struct Range {
    uintptr_t begin = 0, end = 0;
    Owner owner = Owner::device;
    int device = 0;
  };
  static Memory& instance();

  // 256-byte aligned, poisoned (0xA5...) when `poison`. Returns nullptr when the host has none left.
  void* allocate(size_t size, int device, bool poison);
  bool release(void* pointer);  // false if `pointer` does not begin an allocation made by allocate()
  void add(void* pointer, size_t size, Owner owner, int device);  // throws Error(memory_fault) if it overlaps another
  bool remove(void* pointer);
  std::optional<Range> find(const void* pointer) const;  // the range that holds it
  std::optional<Range> nearest(
      const void* pointer) const;  // for messages: the range that holds an address, or the closest
  size_t allocated_bytes(int device) const;
};

}  // namespace gfx950
