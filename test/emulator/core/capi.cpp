// A C interface to the core for tests: load a code object, register memory, launch, read counts. Errors are texts.
#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "decode/decoder.h"
#include "decode/disassembler.h"
#include "exec/builder.h"
#include "exec/mfma.h"
#include "gfx950/gfx950.h"
#include "machine/kernel.h"

#define GFX950_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

thread_local std::string last_error;
thread_local bool timing_only = false;
thread_local std::shared_ptr<const gfx950::TimingReport> last_report;

struct Object {
  std::shared_ptr<gfx950::CodeObject> code;
};

const char* kind_name(gfx950::ErrorKind kind) {
  switch (kind) {
    case gfx950::ErrorKind::invalid_image:
      return "invalid_image";
    case gfx950::ErrorKind::unsupported_target:
      return "unsupported_target";
    case gfx950::ErrorKind::unsupported_instruction:
      return "unsupported_instruction";
    case gfx950::ErrorKind::invalid_launch:
      return "invalid_launch";
    case gfx950::ErrorKind::memory_fault:
      return "memory_fault";
    case gfx950::ErrorKind::hazard:
      return "hazard";
    case gfx950::ErrorKind::trap:
      return "trap";
    case gfx950::ErrorKind::timeout:
      return "timeout";
  }
  return "unknown";
}

template <class F>
auto guarded(F f, decltype(f()) failure) -> decltype(f()) {
  try {
    last_error.clear();
    return f();
  } catch (const gfx950::Error& error) {
    last_error = std::string(kind_name(error.kind())) + ": " + error.what();
  } catch (const std::exception& error) {
    last_error = std::string("internal: ") + error.what();
  }
  return failure;
}

}  // namespace

GFX950_EXPORT int gfx950_set_timing_only(int on) {
  const int before = timing_only ? 1 : 0;
  timing_only = on != 0;
  return before;
}

// The report of this thread's last launch, as JSON. Returns the bytes needed with the final NUL.
GFX950_EXPORT size_t gfx950_launch_report(char* out, size_t out_size) {
  const std::string text = last_report ? gfx950::to_json(*last_report) : "null";
  if (text.size() < out_size) std::memcpy(out, text.c_str(), text.size() + 1);
  return text.size() + 1;
}

GFX950_EXPORT const char* gfx950_last_error() { return last_error.c_str(); }

GFX950_EXPORT void* gfx950_load(const void* data, size_t size) {
  return guarded([&]() -> void* { return new Object{gfx950::CodeObject::load(data, size)}; }, nullptr);
}

GFX950_EXPORT void gfx950_unload(void* object) { delete static_cast<Object*>(object); }

GFX950_EXPORT size_t gfx950_image_size(const void* data) {
  return guarded([&] { return gfx950::CodeObject::image_size(data); }, size_t{0});
}

GFX950_EXPORT size_t gfx950_kernel_count(void* object) { return static_cast<Object*>(object)->code->kernels().size(); }

GFX950_EXPORT const char* gfx950_kernel_name(void* object, size_t index) {
  return static_cast<Object*>(object)->code->kernels().at(index).name.c_str();
}

GFX950_EXPORT int gfx950_add_memory(void* pointer, size_t size) {
  return guarded(
      [&] {
        gfx950::Memory::instance().add(pointer, size, gfx950::Memory::Owner::host_registered, 0);
        return 0;
      },
      -1);
}

GFX950_EXPORT int gfx950_remove_memory(void* pointer) { return gfx950::Memory::instance().remove(pointer) ? 1 : 0; }

// shape: grid x y z, block x y z, dynamic LDS. counts (14): as in LaunchCounts, in order. Returns modelled nanoseconds,
// or -1 with gfx950_last_error(). Options come from the environment.
GFX950_EXPORT double gfx950_launch(void* object, const char* kernel, const uint32_t* shape, const void* kernarg,
                                   size_t kernarg_size, uint64_t* counts) {
  return guarded(
      [&] {
        gfx950::Launch launch;
        launch.kernel = static_cast<Object*>(object)->code->find(kernel);
        if (launch.kernel == nullptr) {
          throw gfx950::Error(gfx950::ErrorKind::invalid_launch, std::string("no kernel named '") + kernel + "'");
        }
        launch.grid = {shape[0], shape[1], shape[2]};
        launch.block = {shape[3], shape[4], shape[5]};
        launch.dynamic_lds = shape[6];
        launch.kernarg = kernarg;
        launch.kernarg_size = kernarg_size;
        gfx950::RunOptions options = gfx950::RunOptions::from_environment();
        if (timing_only) options.timing = gfx950::RunOptions::Timing::only;
        const gfx950::LaunchResult result = gfx950::launch(launch, options);
        last_report = result.report;
        const gfx950::LaunchCounts& c = result.counts;
        const uint64_t values[] = {c.workgroups,
                                   c.waves,
                                   c.wave_instructions,
                                   c.salu,
                                   c.valu,
                                   c.mfma,
                                   c.lds,
                                   c.vmem,
                                   c.smem,
                                   c.branch,
                                   c.other,
                                   c.bytes_loaded,
                                   c.bytes_stored,
                                   c.uninitialised_lds_reads};
        if (counts != nullptr) std::memcpy(counts, values, sizeof values);
        return result.nanoseconds;
      },
      -1.0);
}

// 1 if an instruction of this name is modelled in some form; as LLVM prints it, without _e32, _e64, _dpp, _sdwa.
GFX950_EXPORT int gfx950_knows(const char* mnemonic) {
  gfx950::exec::MfmaOp op;
  return gfx950::exec::registry().count(mnemonic) != 0 || gfx950::exec::mfma_describe(mnemonic, 0, 0, 0, op) ? 1 : 0;
}

// Disassembles one instruction into `text`; returns its size in bytes, 0 if there is none.
GFX950_EXPORT size_t gfx950_disassemble(const uint8_t* bytes, size_t size, char* text, size_t text_size) {
  return guarded(
      [&]() -> size_t {
        std::string line;
        const size_t used = gfx950::decode::disassemble(bytes, size, 0, line);
        std::strncpy(text, line.c_str(), text_size - 1);
        text[text_size - 1] = 0;
        return used;
      },
      size_t{0});
}

// Decodes a kernel without running it: 0, or -1 with gfx950_last_error().
GFX950_EXPORT int gfx950_decode(void* object, const char* kernel) {
  return guarded(
      [&] {
        const gfx950::Kernel* found = static_cast<Object*>(object)->code->find(kernel);
        if (found == nullptr)
          throw gfx950::Error(gfx950::ErrorKind::invalid_launch, std::string("no kernel '") + kernel + "'");
        found->program();
        return 0;
      },
      -1);
}

// What the core makes of one instruction: "base mnemonic, class, branch target or -1, text, refusal or nothing",
// separated by tabs. Returns the instruction's size in bytes; 0 if the bytes are none, or with gfx950_last_error().
GFX950_EXPORT size_t gfx950_examine(const uint8_t* code, size_t size, size_t at, char* out, size_t out_size) {
  return guarded(
      [&]() -> size_t {
        static const char* const classes[gfx950::exec::kKlasses] = {"salu", "valu", "mfma",   "lds",
                                                                    "vmem", "smem", "branch", "other"};
        const gfx950::decode::Examined e = gfx950::decode::examine(code, size, at);
        const std::string line = e.base + '\t' + classes[static_cast<int>(e.klass)] + '\t' +
                                 std::to_string(e.is_branch ? e.target : -1) + '\t' + e.text + '\t' + e.refusal;
        std::strncpy(out, line.c_str(), out_size - 1);
        out[out_size - 1] = 0;
        return e.size;
      },
      size_t{0});
}

// The mnemonics that the families register, one per line, without the matrix instructions. Returns the bytes needed.
GFX950_EXPORT size_t gfx950_registered(char* out, size_t out_size) {
  std::set<std::string> sorted;
  for (const auto& [name, entry] : gfx950::exec::registry()) sorted.insert(name);
  std::string text;
  for (const std::string& name : sorted) text += name + '\n';
  if (text.size() < out_size) std::memcpy(out, text.c_str(), text.size() + 1);
  return text.size() + 1;
}

// numbers (10): bytes of arguments, LDS, scratch a lane; vector, accumulation, scalar registers; spilled vector and
// scalar registers; largest workgroup; argument dwords preloaded. code: where its instructions begin. Returns their
// bytes, 0 with gfx950_last_error().
GFX950_EXPORT size_t gfx950_kernel_details(void* object, const char* kernel, uint32_t* numbers, const uint8_t** code) {
  return guarded(
      [&]() -> size_t {
        const gfx950::Kernel* found = static_cast<Object*>(object)->code->find(kernel);
        if (found == nullptr)
          throw gfx950::Error(gfx950::ErrorKind::invalid_launch, std::string("no kernel '") + kernel + "'");
        const gfx950::KernelInfo& k = found->info;
        const uint32_t values[] = {k.kernarg_size,
                                   k.group_segment_size,
                                   k.private_segment_size,
                                   k.vgpr_count,
                                   k.agpr_count,
                                   k.sgpr_count,
                                   k.vgpr_spill_count,
                                   k.sgpr_spill_count,
                                   k.max_flat_workgroup_size,
                                   found->descriptor.preload_length};
        std::memcpy(numbers, values, sizeof values);
        *code = found->code;
        return found->code_size;
      },
      size_t{0});
}

// "file:line" of the instruction at `at` bytes from the kernel's first, empty if the code object does not say. Returns
// 0, or -1 with gfx950_last_error().
GFX950_EXPORT int gfx950_source(void* object, const char* kernel, uint64_t at, char* out, size_t out_size) {
  return guarded(
      [&] {
        const gfx950::Kernel* found = static_cast<Object*>(object)->code->find(kernel);
        if (found == nullptr)
          throw gfx950::Error(gfx950::ErrorKind::invalid_launch, std::string("no kernel '") + kernel + "'");
        const std::string line = found->lines->at(found->address + at);
        std::strncpy(out, line.c_str(), out_size - 1);
        out[out_size - 1] = 0;
        return 0;
      },
      -1);
}
