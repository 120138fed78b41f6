#include "sampling.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace gfx950 {

Sampling::Sampling(const Launch& launch, const exec::Program& program, const std::vector<timing::Record>& records,
                   const timing::MachineParams& params)
    : launch_(launch),
      program_(program),
      records_(records),
      params_(params),
      plan_(timing::plan_of(launch, params)),
      traces_(plan_.samples.size()) {}

int64_t Sampling::find(uint64_t index) const {
  const auto& samples = plan_.samples;
  const auto found = std::lower_bound(samples.begin(), samples.end(), index,
                                      [](const timing::Sample& s, uint64_t i) { return s.index < i; });
  return found == samples.end() || found->index != index ? -1 : found - samples.begin();
}

std::unique_ptr<timing::Recorder> Sampling::recorder() {
  return std::make_unique<timing::Recorder>(program_, records_, params_, allocations_, timing::waves_of(launch_));
}

std::shared_ptr<TimingReport> Sampling::predict(size_t event_limit) const {
  return timing::predict(launch_, plan_, traces_, records_, allocations_, params_, event_limit);
}

bool Sampling::depends_on_data() const {
  return std::any_of(traces_.begin(), traces_.end(),
                     [](const timing::GroupTrace& trace) { return trace.depends_on_data; });
}

void Sampling::clear() {
  for (timing::GroupTrace& trace : traces_) trace = {};
}

std::string signature_of(const Launch& launch, const timing::MachineParams& params) {
  std::string text(reinterpret_cast<const char*>(&params), sizeof params);
  auto put = [&](uint64_t value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (uint32_t value : {launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x, launch.block.y, launch.block.z,
                         launch.dynamic_lds}) {
    put(value);
  }
  std::map<uintptr_t, uint64_t> order;
  const auto* bytes = static_cast<const uint8_t*>(launch.kernarg);
  size_t at = 0;
  while (at < launch.kernarg_size) {
    uint64_t word = 0;
    const size_t size = std::min<size_t>(8, launch.kernarg_size - at);
    std::memcpy(&word, bytes + at, size);
    const auto range = size == 8 ? Memory::instance().find(reinterpret_cast<const void*>(word)) : std::nullopt;
    if (range) {
      const uint64_t number = order.emplace(range->begin, order.size()).first->second;
      text += 'p';
      put(number);
      put(word - range->begin);
      put(range->end - range->begin);
    } else {
      text += 'v';
      put(word);
    }
    at += size;
  }
  return text;
}

}  // namespace gfx950
