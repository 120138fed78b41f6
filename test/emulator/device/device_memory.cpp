#include "device_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <mutex>
#include <unordered_map>

#include "gfx950_hip.h"
#include "hip_functions.h"

namespace gfx950::torch_device {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;

constexpr int kMaxDevices = 16;

struct Block {
  size_t size;
  c10::DeviceIndex device;
};

struct State {
  std::mutex mutex;
  std::unordered_map<void*, Block> blocks;
  DeviceStats statistics[kMaxDevices];
};

State& state() {
  static State* instance = new State;  // outlives every static tensor
  return *instance;
}

constexpr auto kAggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

void count(DeviceStats* stats, const Block& block, bool allocated) {
  for (auto* counter : {&stats->allocation, &stats->active, &stats->segment}) {
    allocated ? (*counter)[kAggregate].increase(1) : (*counter)[kAggregate].decrease(1);
  }
  for (auto* counter :
       {&stats->allocated_bytes, &stats->active_bytes, &stats->reserved_bytes, &stats->requested_bytes}) {
    allocated ? (*counter)[kAggregate].increase(block.size) : (*counter)[kAggregate].decrease(block.size);
  }
}

void free_block(void* pointer) {
  if (!pointer) return;
  State& s = state();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    const auto found = s.blocks.find(pointer);
    TORCH_INTERNAL_ASSERT(found != s.blocks.end(), "device memory freed twice");
    count(&s.statistics[found->second.device], found->second, false);
    ++s.statistics[found->second.device].num_device_free;
    s.blocks.erase(found);
  }
  TORCH_INTERNAL_ASSERT(hipFree(pointer) == hipSuccess, gfx950_last_error());
}

std::string human(double bytes) {
  char text[32];
  if (bytes >= 1024.0 * 1024 * 1024) {
    std::snprintf(text, sizeof(text), "%.2f GiB", bytes / (1024.0 * 1024 * 1024));
  } else {
    std::snprintf(text, sizeof(text), "%.2f MiB", bytes / (1024.0 * 1024));
  }
  return text;
}

void* allocate_bytes(size_t size, c10::DeviceIndex device_index) {
  int current = 0;
  TORCH_CHECK(hipGetDevice(&current) == hipSuccess && hipSetDevice(device_index) == hipSuccess, gfx950_last_error());
  void* pointer = nullptr;
  const hipError_t code = hipMalloc(&pointer, size);
  TORCH_CHECK(hipSetDevice(current) == hipSuccess, gfx950_last_error());
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  DeviceStats& stats = s.statistics[device_index];
  if (code == hipErrorOutOfMemory) {
    ++stats.num_ooms;
    const double used = static_cast<double>(stats.allocated_bytes[kAggregate].current);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "HIP out of memory. Tried to allocate ", human(size), ". GPU ",
                     static_cast<int>(device_index), " (emulated) may use ", human(gfx950_memory_limit()),
                     ", of which ", human(used),
                     " is allocated by PyTorch. Set GFX950_MEMORY_LIMIT to change the limit.");
  }
  TORCH_CHECK(code == hipSuccess, gfx950_last_error());
  const Block block{size, device_index};
  s.blocks.emplace(pointer, block);
  count(&stats, block, true);
  ++stats.num_device_alloc;
  return pointer;
}

class TorchDeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    int device = 0;
    TORCH_CHECK(hipGetDevice(&device) == hipSuccess, gfx950_last_error());
    const auto index = static_cast<c10::DeviceIndex>(device);
    return torch_device::allocate(size, index, c10::Device(c10::DeviceType::CUDA, index));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* destination, const void* source, size_t size) const override {
    TORCH_CHECK(hipMemcpy(destination, source, size, hipMemcpyDeviceToDevice) == hipSuccess, gfx950_last_error());
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}                    // nothing is cached: freed memory goes back at once
  void recordStream(const c10::DataPtr&, c10::Stream) override {}  // streams are synchronous
  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    std::lock_guard<std::mutex> lock(state().mutex);
    return statistics_of(device);
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    for_each(device, [](c10::CachingAllocator::Stat& stat) { stat.reset_accumulated(); });
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    for_each(device, [](c10::CachingAllocator::Stat& stat) { stat.reset_peak(); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    int current = 0;
    size_t free_bytes = 0, total_bytes = 0;
    const bool ok = hipGetDevice(&current) == hipSuccess && hipSetDevice(device) == hipSuccess &&
                    hipMemGetInfo(&free_bytes, &total_bytes) == hipSuccess && hipSetDevice(current) == hipSuccess;
    TORCH_CHECK(ok, gfx950_last_error());
    return {free_bytes, total_bytes};
  }

 private:
  static DeviceStats& statistics_of(c10::DeviceIndex device) {
    TORCH_CHECK(device >= 0 && device < gfx950_device_count(), "device ", static_cast<int>(device), " does not exist");
    return state().statistics[device];
  }
  template <typename Function>
  void for_each(c10::DeviceIndex device, Function function) {
    std::lock_guard<std::mutex> lock(state().mutex);
    DeviceStats& stats = statistics_of(device);
    for (auto* counter : {&stats.allocation, &stats.active, &stats.segment, &stats.allocated_bytes, &stats.active_bytes,
                          &stats.reserved_bytes, &stats.requested_bytes}) {
      function((*counter)[kAggregate]);
    }
  }
};

thread_local c10::DeviceIndex scope_device = -1;

class ScopedCpuAllocator final : public c10::Allocator {
 public:
  explicit ScopedCpuAllocator(c10::Allocator* plain) : plain_(plain) {}
  c10::DataPtr allocate(size_t size) override {
    if (scope_device < 0) return plain_->allocate(size);
    return torch_device::allocate(size, scope_device, c10::Device(c10::DeviceType::CPU));
  }
  // Frees memory from either side: raw_allocate() may have run in a scope and raw_deallocate() outside, or the reverse.
  c10::DeleterFnPtr raw_deleter() const override { return &free_either; }
  void copy_data(void* destination, const void* source, size_t size) const override {
    std::memcpy(destination, source, size);
  }

 private:
  static void free_either(void* pointer);
  c10::Allocator* plain_;
};

c10::Allocator* plain_cpu_allocator() {
  static c10::Allocator* allocator = c10::GetDefaultCPUAllocator();
  return allocator;
}

void ScopedCpuAllocator::free_either(void* pointer) {
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (state().blocks.count(pointer) == 0) {
      plain_cpu_allocator()->raw_deleter()(pointer);
      return;
    }
  }
  free_block(pointer);
}

struct Registrar {
  Registrar() {
    c10::SetAllocator(c10::DeviceType::CUDA, &device_allocator());
    c10::SetAllocator(c10::DeviceType::CPU, &scoped_cpu_allocator(), 200);
  }
} registrar;

}  // namespace

c10::DataPtr allocate(size_t size, c10::DeviceIndex device_index, c10::Device device) {
  if (size == 0) return {nullptr, device};
  void* pointer = allocate_bytes(size, device_index);
  return {pointer, pointer, &free_block, device};
}

bool is_device_memory(const c10::DataPtr& pointer) { return pointer.get_deleter() == &free_block; }

c10::DataPtr relabel(c10::DataPtr&& pointer, c10::Device device) {
  void* data = pointer.get();
  const c10::DeleterFnPtr deleter = pointer.get_deleter();
  void* context = pointer.release_context();
  return {data, context, deleter, device};
}

c10::DeviceAllocator& device_allocator() {
  static TorchDeviceAllocator* allocator = new TorchDeviceAllocator;
  return *allocator;
}

c10::Allocator& scoped_cpu_allocator() {
  static ScopedCpuAllocator* allocator = new ScopedCpuAllocator(plain_cpu_allocator());
  return *allocator;
}

DeviceMemoryScope::DeviceMemoryScope(c10::DeviceIndex device_index) : previous_(scope_device) {
  scope_device = device_index;
}

DeviceMemoryScope::~DeviceMemoryScope() { scope_device = previous_; }

void raise_pending_error() {
  if (!gfx950_has_pending_error()) return;
  char text[4096] = "";
  const int code = gfx950_take_pending_error(text, sizeof(text));
  if (code == 0) return;
  throw c10::AcceleratorError(
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, code,
      std::string("HIP error: ") + hipGetErrorName(static_cast<hipError_t>(code)) + ": " + text);
}

}  // namespace gfx950::torch_device
