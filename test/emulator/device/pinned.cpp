#include "pinned.h"

#include <cstring>
#include <mutex>
#include <unordered_map>

#include "gfx950_hip.h"
#include "hip_functions.h"

namespace gfx950::torch_device {
namespace {

struct State {
  std::mutex mutex;
  std::unordered_map<void*, size_t> sizes;
  at::HostStats stats;
};

State& state() {
  static State* instance = new State;  // outlives every static tensor
  return *instance;
}

template <typename Function>
void each_stat(at::HostStats* stats, Function function) {
  for (auto* count : {&stats->active_requests, &stats->allocations}) function(count, false);
  for (auto* bytes : {&stats->active_bytes, &stats->allocated_bytes}) function(bytes, true);
}

void release(void* pointer) {
  if (!pointer) return;
  State& s = state();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    const size_t size = s.sizes.at(pointer);
    s.sizes.erase(pointer);
    each_stat(&s.stats, [&](at::Stat* stat, bool bytes) { stat->decrease(bytes ? size : 1); });
    ++s.stats.num_host_free;
  }
  TORCH_INTERNAL_ASSERT(hipHostFree(pointer) == hipSuccess, gfx950_last_error());
}

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    void* pointer = nullptr;
    TORCH_CHECK(hipHostMalloc(&pointer, size, 0) == hipSuccess, gfx950_last_error());
    if (pointer) {
      State& s = state();
      std::lock_guard<std::mutex> lock(s.mutex);
      s.sizes[pointer] = size;
      each_stat(&s.stats, [&](at::Stat* stat, bool bytes) { stat->increase(bytes ? size : 1); });
      ++s.stats.num_host_alloc;
    }
    return {pointer, pointer, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, size_t size) const override {
    std::memcpy(destination, source, size);
  }
  bool record_event(void* pointer, void*, c10::Stream) override {  // a copy has ended when its call returns
    std::lock_guard<std::mutex> lock(state().mutex);
    return state().sizes.count(pointer) > 0;
  }
  void empty_cache() override {}
  at::HostStats get_stats() override {
    std::lock_guard<std::mutex> lock(state().mutex);
    return state().stats;
  }
  void reset_accumulated_stats() override {
    std::lock_guard<std::mutex> lock(state().mutex);
    each_stat(&state().stats, [](at::Stat* stat, bool) { stat->reset_accumulated(); });
    state().stats.num_host_alloc = state().stats.num_host_free = 0;
  }
  void reset_peak_stats() override {
    std::lock_guard<std::mutex> lock(state().mutex);
    each_stat(&state().stats, [](at::Stat* stat, bool) { stat->reset_peak(); });
  }
};

struct Registrar {
  Registrar() { at::setHostAllocator(c10::DeviceType::CUDA, &pinned_allocator()); }
} registrar;

}  // namespace

at::HostAllocator& pinned_allocator() {
  static auto* allocator = new PinnedAllocator;
  return *allocator;
}

}  // namespace gfx950::torch_device
