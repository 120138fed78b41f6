// The state of one wave, and the accesses to it that every family shares.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "inst.h"
#include "probe.h"

namespace gfx950 {
struct HostService;
}

namespace gfx950::exec {

constexpr int kLanes = 64;
using Row = uint32_t[kLanes];

enum class Status : uint8_t { running, yielded, at_barrier, ended };  // yielded: waits for another wave (s_sleep)

struct MemoryWindow {
  uintptr_t begin = 1, end = 0;  // empty
};

struct WaveCounts {
  uint64_t bytes_loaded = 0, bytes_stored = 0;
};

struct Program;

// MODE.FP16_OVFL of the wave that this thread executes: overflow in f16, fp8 and bf8 gives the largest number.
inline thread_local bool saturate_small_floats = false;

struct alignas(64) Wave {
  uint32_t mask_rows[kLanes];  // EXEC as all-ones or zero per lane; valid when mask_valid
  uint32_t s[128];             // scalar registers by hardware number, vcc, m0 and exec included
  Row* v = nullptr;            // vector registers: 0-255 architectural, 256-511 accumulation
  uint32_t scc = 0;
  bool exec_full = true;
  bool mask_valid = false;
  Status status = Status::running;
  uint32_t pc = 0;  // index into the program, of the next instruction
  uint8_t* lds = nullptr;
  uint32_t lds_size = 0;
  uint8_t* scratch = nullptr;  // lane-major: scratch_size bytes for each lane
  uint32_t scratch_size = 0;
  const Program* program = nullptr;
  const HostService* host = nullptr;  // whom an interrupt reaches
  uint32_t id_in_group = 0;
  uint32_t group_id[3] = {};
  uint64_t steps = 0;  // instructions before the present time slice
  uint32_t xcc = 0;
  bool saturate = false;  // MODE.FP16_OVFL
  static constexpr int kWindows = 8;
  MemoryWindow windows[kWindows];
  int next_window = 0;
  WaveCounts counts;
  Probe* probe = nullptr;     // of a workgroup that is sampled for its time
  bool address_only = false;  // memory instructions find and check their addresses and move nothing

  uint64_t read64(int reg) const { return s[reg] | static_cast<uint64_t>(s[reg + 1]) << 32; }
  void write64(int reg, uint64_t value) {
    s[reg] = static_cast<uint32_t>(value);
    s[reg + 1] = static_cast<uint32_t>(value >> 32);
    if (reg >= kExec) exec_changed();
  }
  void write32(int reg, uint32_t value) {
    s[reg] = value;
    if (reg >= kExec) exec_changed();
  }
  uint64_t exec() const { return read64(kExec); }
  void exec_changed() {
    exec_full = exec() == ~uint64_t{0};
    mask_valid = false;
  }
  const uint32_t* mask() {
    if (!mask_valid) {
      expand_mask(exec(), mask_rows);
      mask_valid = true;
    }
    return mask_rows;
  }

  static void expand_mask(uint64_t bits, uint32_t* rows) {
    const __m256i select = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    for (int i = 0; i < 8; ++i) {
      const __m256i byte = _mm256_set1_epi32(static_cast<int>(bits >> (8 * i) & 0xff));
      const __m256i hit = _mm256_cmpeq_epi32(_mm256_and_si256(byte, select), select);
      _mm256_store_si256(reinterpret_cast<__m256i*>(rows + 8 * i), hit);
    }
  }
};

inline void broadcast(uint32_t value, uint32_t* row) {
  const __m256i x = _mm256_set1_epi32(static_cast<int>(value));
  for (int i = 0; i < 8; ++i) _mm256_store_si256(reinterpret_cast<__m256i*>(row + 8 * i), x);
}

inline uint64_t scalar64(const Wave& w, const Operand& o) {
  switch (o.kind) {
    case Operand::Kind::scalar:
      return w.read64(o.reg);
    case Operand::Kind::scc:
      return w.scc;
    case Operand::Kind::vccz:
      return w.read64(kVcc) == 0;
    case Operand::Kind::execz:
      return w.exec() == 0;
    default:
      return o.value;
  }
}

inline uint32_t scalar32(const Wave& w, const Operand& o) {
  if (o.kind == Operand::Kind::scalar) return w.s[o.reg];
  if (o.kind == Operand::Kind::constant) return static_cast<uint32_t>(o.value);
  return static_cast<uint32_t>(scalar64(w, o));
}

// The rows of source `k`: registers and constants in place, scalars broadcast into `scratch` (128 words).
inline const uint32_t* source(Wave& w, const Inst& in, int k, uint32_t* scratch) {
  const Operand& o = in.src[k];
  if (o.kind == Operand::Kind::vector) return w.v[o.reg];
  if (o.kind == Operand::Kind::constant) return in.rows[k];
  if (o.type == Ty::mask) {
    Wave::expand_mask(scalar64(w, o), scratch);
    return scratch;
  }
  if (words_of(o.type) == 2) {
    const uint64_t value = scalar64(w, o);
    broadcast(static_cast<uint32_t>(value), scratch);
    broadcast(static_cast<uint32_t>(value >> 32), scratch + kLanes);
  } else {
    broadcast(scalar32(w, o), scratch);
  }
  return scratch;
}

// d = EXEC ? x : d, for `words` rows.
inline void write_masked(Wave& w, uint32_t* d, const uint32_t* x, int words) {
  const uint32_t* m = w.mask();
  for (int k = 0; k < words; ++k, d += kLanes, x += kLanes) {
    for (int i = 0; i < kLanes; i += 8) {
      const __m256i mask = _mm256_load_si256(reinterpret_cast<const __m256i*>(m + i));
      const __m256i value = _mm256_load_si256(reinterpret_cast<const __m256i*>(x + i));
      _mm256_maskstore_epi32(reinterpret_cast<int*>(d + i), mask, value);
    }
  }
}

inline void write_rows(Wave& w, uint32_t* d, const uint32_t* x, int words) {
  if (w.exec_full) {
    std::memcpy(d, x, sizeof(Row) * words);
  } else {
    write_masked(w, d, x, words);
  }
}

// Bit l of the result is the sign bit of lane l: turns a row of all-ones or zero into a mask.
inline uint64_t collect_mask(const uint32_t* row) {
  uint64_t result = 0;
  for (int i = 0; i < 8; ++i) {
    const __m256 x = _mm256_load_ps(reinterpret_cast<const float*>(row + 8 * i));
    result |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_ps(x))) << (8 * i);
  }
  return result;
}

// Throws Error(unsupported_instruction | memory_fault) that names the kernel, the pc and the text of the instruction
// being executed.
[[noreturn]] void fail_unsupported(const Wave& w, const Inst& in, const std::string& why);
[[noreturn]] void fail_trap(const Wave& w, const Inst& in, const std::string& why);
[[noreturn]] void fail_fault(const Wave& w, const Inst& in, const std::string& why);
[[noreturn]] void fail_address(const Wave& w, const Inst& in, int lane, uint64_t address, unsigned bytes);

// The window of registered memory that holds [first, last]; false if there is none.
bool find_window(Wave& w, uintptr_t first, uintptr_t last);

inline bool in_window(Wave& w, uintptr_t first, uintptr_t last) {
  for (const MemoryWindow& window : w.windows) {
    if (first >= window.begin && last < window.end) return true;
  }
  return find_window(w, first, last);
}

// Whether aligned dwords leave their range by the rest of its last dword only.
inline bool reaches_last_dword(Wave& w, uintptr_t at, unsigned bytes) {
  return at % 4 == 0 && bytes % 4 == 0 && in_window(w, at, at + bytes - 4);
}

}  // namespace gfx950::exec
