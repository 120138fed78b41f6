#include "kernel.h"

#include "../decode/decoder.h"

namespace gfx950 {

const exec::Program& Kernel::program() const {
  std::lock_guard lock(mutex_);
  // Firmware that preloads kernel arguments enters 256 bytes later: what lies before loads them for firmware that
  // cannot.
  const uint64_t entry = descriptor.preload_length != 0 ? 256 : 0;
  if (!program_) {
    std::unique_ptr<exec::Program> decoded = decode::decode_kernel(info.name, code, code_size, entry, around);
    decoded->lines = lines;
    decoded->address = address;
    program_ = std::move(decoded);
  }
  return *program_;
}

const KernelInfo& info(const Kernel& kernel) { return kernel.info; }

}  // namespace gfx950
