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

std::shared_ptr<const exec::Program> Kernel::shared_program() const {
  program();
  std::lock_guard lock(mutex_);
  return program_;
}

const std::vector<timing::Record>& Kernel::records() const {
  const exec::Program& decoded = program();
  std::lock_guard lock(mutex_);
  if (records_.empty()) records_ = timing::records_of(decoded);
  return records_;
}

std::shared_ptr<const TimingReport> Kernel::remembered(const std::string& signature) const {
  std::lock_guard lock(mutex_);
  const auto found = times_.find(signature);
  return found == times_.end() ? nullptr : found->second;
}

void Kernel::remember(const std::string& signature, std::shared_ptr<const TimingReport> report) const {
  constexpr size_t kMost = 64;  // reports hold statistics of every instruction
  std::lock_guard lock(mutex_);
  if (times_.size() >= kMost) times_.clear();
  times_[signature] = std::move(report);
}

const KernelInfo& info(const Kernel& kernel) { return kernel.info; }

}  // namespace gfx950
