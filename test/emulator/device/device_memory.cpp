#include "device_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <vector>

#include "capture.h"
#include "gfx950_hip.h"
#include "hip_functions.h"
#include "memory_pool.h"
#include "streams.h"

namespace gfx950::torch_device {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;

constexpr int kMaxDevices = 16;
constexpr size_t kGranularity = 512;       // what torch's allocator rounds a request up to, and counts
constexpr size_t kLargestSmall = 1 << 20;  // torch lists larger requests under "large_pool"
constexpr size_t kNoHistory = 0;

size_t rounded(size_t size) { return (size + kGranularity - 1) / kGranularity * kGranularity; }

struct Pool {
  int holders = 0;
  std::multimap<size_t, void*> free;  // by rounded size
  std::set<void*> live;
};

struct Block {
  size_t size;       // what hipMalloc was asked for
  size_t requested;  // what torch asks for now: less, if a pool hands it out again
  c10::DeviceIndex device;
  PoolId pool;  // {0, 0}: none
  int64_t stream;
  bool live;
  uint64_t capture;  // the last one that made or reused the block
};

struct Route {
  PoolId pool;
  PoolRoute when;
};

struct HistoryEntry {
  const char* action;
  uint64_t address;
  size_t size;
  int64_t stream;
  c10::DeviceIndex device;
  uint64_t picoseconds;
};

// What a block held before a capture took it over.
struct Saved {
  void* pointer;
  std::vector<char> bytes;
};

struct State {
  std::mutex mutex;
  std::map<uint64_t, std::vector<Saved>> saved;  // by capture
  std::map<void*, Block> blocks;
  DeviceStats statistics[kMaxDevices];
  std::map<PoolId, Pool> pools[kMaxDevices];
  std::vector<Route> routes[kMaxDevices];
  double fraction[kMaxDevices];
  std::deque<HistoryEntry> history;
  size_t max_history = kNoHistory;
  uint64_t next_pool = 1;
  State() { std::fill(std::begin(fraction), std::end(fraction), 1.0); }
};

State& state() {
  static State* instance = new State;  // outlives every static tensor
  return *instance;
}

std::atomic<int> routes_in_use{0};

constexpr auto kAggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
constexpr auto kSmall = static_cast<size_t>(c10::CachingAllocator::StatType::SMALL_POOL);
constexpr auto kLarge = static_cast<size_t>(c10::CachingAllocator::StatType::LARGE_POOL);

void count(c10::CachingAllocator::StatArray* stats, size_t kind, size_t amount, bool up) {
  for (const size_t index : {kAggregate, kind}) {
    up ? (*stats)[index].increase(amount) : (*stats)[index].decrease(amount);
  }
}

size_t kind_of(const Block& block) { return rounded(block.size) <= kLargestSmall ? kSmall : kLarge; }

// What tensors hold.
void count_use(DeviceStats* stats, const Block& block, bool up) {
  const size_t kind = kind_of(block), bytes = rounded(block.size);
  for (auto* counter : {&stats->allocation, &stats->active}) count(counter, kind, 1, up);
  for (auto* counter : {&stats->allocated_bytes, &stats->active_bytes}) count(counter, kind, bytes, up);
  count(&stats->requested_bytes, kind, block.requested, up);
}

// What is taken from the device.
void count_segment(DeviceStats* stats, const Block& block, bool up) {
  const size_t kind = kind_of(block);
  count(&stats->segment, kind, 1, up);
  count(&stats->reserved_bytes, kind, rounded(block.size), up);
  ++(up ? stats->num_device_alloc : stats->num_device_free);
}

void remember(State* s, const char* action, const void* pointer, const Block& block) {
  if (s->max_history == kNoHistory) return;
  s->history.push_back({action, reinterpret_cast<uint64_t>(pointer), rounded(block.requested), block.stream,
                        block.device, gfx950_clock_now_ps()});
  if (s->history.size() > s->max_history) s->history.pop_front();
}

Pool* find_pool(State* s, c10::DeviceIndex device, PoolId id) {
  if (id == PoolId{0, 0}) return nullptr;
  const auto found = s->pools[device].find(id);
  return found == s->pools[device].end() ? nullptr : &found->second;
}

// Gives a block that nobody uses back to the device. Called with the lock held.
void give_back(State* s, void* pointer) {
  const auto found = s->blocks.find(pointer);
  count_segment(&s->statistics[found->second.device], found->second, false);
  s->blocks.erase(found);
  TORCH_INTERNAL_ASSERT(hipFree(pointer) == hipSuccess, gfx950_last_error());
}

void take_from_pool(State* s, Pool* pool, void* pointer) {
  Block& block = s->blocks.at(pointer);
  auto [begin, end] = pool->free.equal_range(rounded(block.size));
  for (auto it = begin; it != end; ++it) {
    if (it->second == pointer) {
      pool->free.erase(it);
      break;
    }
  }
  block.live = true;
  pool->live.insert(pointer);
  count_use(&s->statistics[block.device], block, true);
  remember(s, "alloc", pointer, block);
}

void free_locked(State* s, void* pointer) {
  const auto found = s->blocks.find(pointer);
  TORCH_INTERNAL_ASSERT(found != s->blocks.end() && found->second.live, "device memory freed twice");
  Block& block = found->second;
  count_use(&s->statistics[block.device], block, false);
  remember(s, "free_completed", pointer, block);
  block.live = false;
  Pool* pool = find_pool(s, block.device, block.pool);
  if (pool) pool->live.erase(pointer);
  if (!pool || pool->holders == 0) {
    give_back(s, pointer);
  } else {
    pool->free.emplace(rounded(block.size), pointer);
  }
}

void free_block(void* pointer) {
  if (!pointer) return;
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  free_locked(&s, pointer);
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

bool takes(const Route& route, int64_t stream) {
  switch (route.when.by) {
    case PoolRoute::By::everything:
      return true;
    case PoolRoute::By::thread:
      return route.when.value == thread_id();
    case PoolRoute::By::stream:
      return route.when.value == static_cast<uint64_t>(stream);
    case PoolRoute::By::capture:
      return capture_id(stream) == route.when.value;
  }
  return false;
}

// The pool that an allocation of this thread goes to.
PoolId route_of(State* s, c10::DeviceIndex device, int64_t stream) {
  if (routes_in_use.load(std::memory_order_relaxed) == 0 || replaying()) return {0, 0};
  const std::vector<Route>& routes = s->routes[device];
  for (auto route = routes.rbegin(); route != routes.rend(); ++route) {
    if (takes(*route, stream)) return route->pool;
  }
  return {0, 0};
}

void* reuse(State* s, Pool* pool, size_t size, int64_t stream) {
  const auto found = pool->free.find(rounded(size));
  if (found == pool->free.end()) return nullptr;
  void* pointer = found->second;
  Block& block = s->blocks.at(pointer);
  if (block.size < size) return nullptr;
  block.requested = size;
  block.stream = stream;
  take_from_pool(s, pool, pointer);
  return pointer;
}

// A capture runs nothing on hardware, so what lies in a block that it takes over is there when it ends: its first
// replay may read it. Here operators run once for their shapes; and from zeros, because what a kernel that only gets
// recorded would have written is an index, perhaps.
void clear_for_capture(State* s, void* pointer, int64_t stream) {
  const uint64_t capture = capture_id(stream);
  if (capture == 0) return;
  Block& block = s->blocks.at(pointer);
  if (block.capture != capture) {
    const auto* bytes = static_cast<const char*>(pointer);
    s->saved[capture].push_back({pointer, std::vector<char>(bytes, bytes + block.size)});
    block.capture = capture;
  }
  std::memset(pointer, 0, block.size);
}

std::atomic<OutOfMemoryObserver> out_of_memory_observer{nullptr};
bool forked_after_use = false;

[[noreturn]] void out_of_memory(std::unique_lock<std::mutex>* lock, size_t size, c10::DeviceIndex device,
                                const DeviceStats& stats, double limit) {
  const auto used = static_cast<double>(stats.allocated_bytes[kAggregate].current);
  const auto reserved = static_cast<double>(stats.reserved_bytes[kAggregate].current);
  lock->unlock();  // an observer may ask for statistics
  if (const OutOfMemoryObserver observe = out_of_memory_observer) {
    observe(device, size, static_cast<uint64_t>(limit), static_cast<uint64_t>(std::max(0.0, limit - reserved)));
  }
  TORCH_CHECK_WITH(OutOfMemoryError, false, "HIP out of memory. Tried to allocate ", human(size), ". GPU ",
                   static_cast<int>(device), " (emulated) may use ", human(limit), ", of which ", human(used),
                   " is allocated by PyTorch, and ", human(reserved - used),
                   " is reserved by PyTorch but unallocated. Set GFX950_MEMORY_LIMIT to change the limit.");
}

void* allocate_bytes(size_t size, c10::DeviceIndex device_index) {
  TORCH_CHECK(
      !forked_after_use,
      "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' "
      "start method");
  State& s = state();
  std::unique_lock<std::mutex> lock(s.mutex);
  DeviceStats& stats = s.statistics[device_index];
  const int64_t stream = routes_in_use.load(std::memory_order_relaxed) ? current_stream(device_index).id() : 0;
  const PoolId pool_id = route_of(&s, device_index, stream);
  Pool* pool = find_pool(&s, device_index, pool_id);
  // A pool asks for whole granules, so that a block serves any request of its size.
  const size_t wanted = pool ? rounded(size) : size;
  if (pool) {
    if (void* pointer = reuse(&s, pool, size, stream)) {
      clear_for_capture(&s, pointer, stream);
      return pointer;
    }
  }
  const double limit = static_cast<double>(gfx950_memory_limit());
  const auto reserved = static_cast<double>(stats.reserved_bytes[kAggregate].current);
  if (s.fraction[device_index] < 1.0 && reserved + static_cast<double>(wanted) > limit * s.fraction[device_index]) {
    ++stats.num_ooms;
    out_of_memory(&lock, size, device_index, stats, limit * s.fraction[device_index]);
  }
  int current = 0;
  TORCH_CHECK(hipGetDevice(&current) == hipSuccess, gfx950_last_error());
  const bool elsewhere = current != device_index;
  if (elsewhere) TORCH_CHECK(hipSetDevice(device_index) == hipSuccess, gfx950_last_error());
  void* pointer = nullptr;
  const hipError_t code = hipMalloc(&pointer, wanted);
  if (elsewhere) TORCH_CHECK(hipSetDevice(current) == hipSuccess, gfx950_last_error());
  if (code == hipErrorOutOfMemory) {
    ++stats.num_ooms;
    out_of_memory(&lock, size, device_index, stats, limit);
  }
  TORCH_CHECK(code == hipSuccess, gfx950_last_error());
  const uint64_t capture = pool ? capture_id(stream) : 0;
  const Block block{wanted, size, device_index, pool ? pool_id : PoolId{0, 0}, stream, true, capture};
  s.blocks.emplace(pointer, block);
  if (pool) {
    pool->live.insert(pointer);
    if (capture) std::memset(pointer, 0, wanted);
  }
  count_segment(&stats, block, true);
  count_use(&stats, block, true);
  remember(&s, "alloc", pointer, block);
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
  void emptyCache(c10::MempoolId_t) override {}  // only pools keep what is freed, and graphs name its addresses
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
      for (c10::CachingAllocator::Stat& stat : *counter) function(stat);
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

void raise_hip_error(int code, const std::string& text) {
  const std::string description = gfx950_error_description(code);
  std::string message = "HIP error: " + description + "\n" + hipGetErrorName(static_cast<hipError_t>(code));
  if (text != description) message += ": " + text;
  throw c10::AcceleratorError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, code, message);
}

void raise_pending_error() {
  if (!gfx950_has_pending_error()) return;
  char text[4096] = "";
  const int code = gfx950_take_pending_error(text, sizeof(text));
  if (code != 0) raise_hip_error(code, text);
}

// ---- pools
// ---------------------------------------------------------------------------------------------------------------------

PoolId new_pool_id(bool of_user) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const uint64_t number = s.next_pool++;
  return of_user ? PoolId{0, number} : PoolId{number, 0};
}

void hold_pool(c10::DeviceIndex device, PoolId pool) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  ++s.pools[device][pool].holders;
}

void release_pool(c10::DeviceIndex device, PoolId id) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Pool* pool = find_pool(&s, device, id);
  TORCH_CHECK(pool && pool->holders > 0, "the memory pool is not in use");
  if (--pool->holders > 0) return;
  for (const auto& [_, pointer] : pool->free) give_back(&s, pointer);
  for (void* pointer : pool->live) s.blocks.at(pointer).pool = {0, 0};  // what tensors still hold goes back as they end
  s.pools[device].erase(id);
}

void put_back_saved(uint64_t capture) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const auto found = s.saved.find(capture);
  if (found == s.saved.end()) return;
  for (const Saved& saved : found->second) {
    if (s.blocks.count(saved.pointer)) std::memcpy(saved.pointer, saved.bytes.data(), saved.bytes.size());
  }
  s.saved.erase(found);
}

int pool_holders(c10::DeviceIndex device, PoolId id) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const Pool* pool = find_pool(&s, device, id);
  return pool ? pool->holders : 0;
}

void begin_pool(c10::DeviceIndex device, PoolId pool, PoolRoute route) {
  hold_pool(device, pool);
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.routes[device].push_back({pool, route});
  ++routes_in_use;
}

void end_pool(c10::DeviceIndex device, PoolId pool) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  std::vector<Route>& routes = s.routes[device];
  for (auto route = routes.rbegin(); route != routes.rend(); ++route) {
    if (route->pool != pool) continue;
    routes.erase(std::next(route).base());
    --routes_in_use;
    return;
  }
  TORCH_CHECK(false, "endAllocatePool: not currently recording to mempool_id");
}

PoolState pool_state(c10::DeviceIndex device, PoolId id) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const Pool* pool = find_pool(&s, device, id);
  TORCH_CHECK(pool, "Could not find pool of id");
  return {id, {pool->live.begin(), pool->live.end()}};
}

void restore_pool_state(c10::DeviceIndex device, const PoolState& wanted, const std::vector<c10::StorageImpl*>& stale,
                        const std::vector<c10::StorageImpl*>& owners) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Pool* pool = find_pool(&s, device, wanted.pool);
  TORCH_CHECK(pool, "Could not find pool of id");
  const std::set<void*> live(wanted.live.begin(), wanted.live.end());
  for (c10::StorageImpl* storage : stale) {
    (void)storage->mutable_data_ptr().compare_exchange_deleter(&free_block, &c10::detail::deleteNothing);
  }
  const std::set<void*> before = pool->live;
  for (void* pointer : before) {
    if (live.count(pointer) == 0) free_locked(&s, pointer);
  }
  for (void* pointer : live) {
    if (before.count(pointer) == 0) take_from_pool(&s, pool, pointer);
  }
  for (c10::StorageImpl* storage : owners) {
    void* pointer = storage->data_ptr().get();
    TORCH_CHECK(live.count(pointer), "a storage that is to own its block has none in the pool's state");
    if (storage->data_ptr().get_deleter() == &free_block) continue;
    const c10::Device where = storage->device();
    c10::DataPtr old = storage->set_data_ptr(c10::DataPtr(pointer, pointer, &free_block, where));
    (void)old.release_context();
  }
}

bool pool_holds_exactly(c10::DeviceIndex device, PoolId id, const std::vector<void*>& live) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const Pool* pool = find_pool(&s, device, id);
  TORCH_CHECK(pool, "Could not find pool of id");
  return pool->live == std::set<void*>(live.begin(), live.end());
}

void* raw_allocate(size_t size, c10::DeviceIndex device) { return size ? allocate_bytes(size, device) : nullptr; }
void raw_free(void* pointer) { free_block(pointer); }

bool owns_block(const c10::StorageImpl& storage) { return storage.data_ptr().get_deleter() == &free_block; }

void free_and_disown(c10::StorageImpl* storage) {
  c10::DataPtr& pointer = storage->mutable_data_ptr();
  const bool owned = pointer.compare_exchange_deleter(&free_block, &c10::detail::deleteNothing);
  TORCH_CHECK(owned, "Expected standard deleter");
  free_block(pointer.get());
}

void set_memory_fraction(c10::DeviceIndex device, double fraction) {
  TORCH_CHECK(fraction > 0 && fraction <= 1, "invalid fraction:", fraction, ". Please set within [0, 1].");
  std::lock_guard<std::mutex> lock(state().mutex);
  state().fraction[device] = fraction;
}

double memory_fraction(c10::DeviceIndex device) {
  std::lock_guard<std::mutex> lock(state().mutex);
  return state().fraction[device];
}

void record_history(bool on, size_t max_entries) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().max_history = on ? std::max<size_t>(max_entries, 1) : kNoHistory;
  state().history.clear();
}

bool history_is_recorded() {
  std::lock_guard<std::mutex> lock(state().mutex);
  return state().max_history != kNoHistory;
}

// Every block is a segment of its own: nothing is split.
std::string memory_snapshot(PoolId only) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  std::ostringstream json;
  json << "{\"segments\": [";
  const char* separator = "";
  for (const auto& [pointer, block] : s.blocks) {
    if (only != PoolId{0, 0} && block.pool != only) continue;
    const size_t size = rounded(block.size), used = block.live ? size : 0;
    const auto address = reinterpret_cast<uint64_t>(pointer);
    json << separator << "{\"device\": " << static_cast<int>(block.device) << ", \"address\": " << address
         << ", \"total_size\": " << size << ", \"allocated_size\": " << used << ", \"active_size\": " << used
         << ", \"requested_size\": " << (block.live ? block.requested : 0) << ", \"stream\": " << block.stream
         << ", \"segment_type\": \"" << (kind_of(block) == kSmall ? "small" : "large") << "\", \"segment_pool_id\": ["
         << block.pool.first << ", " << block.pool.second << "], \"blocks\": [{\"address\": " << address
         << ", \"size\": " << size << ", \"requested_size\": " << block.requested << ", \"state\": \""
         << (block.live ? "active_allocated" : "inactive") << "\"}]}";
    separator = ", ";
  }
  json << "], \"history\": [";
  separator = "";
  for (const HistoryEntry& entry : s.history) {
    json << separator << "{\"action\": \"" << entry.action << "\", \"addr\": " << entry.address
         << ", \"size\": " << entry.size << ", \"stream\": " << entry.stream
         << ", \"device\": " << static_cast<int>(entry.device) << ", \"time_us\": " << entry.picoseconds / 1000000
         << "}";
    separator = ", ";
  }
  json << "]}";
  return json.str();
}

void observe_out_of_memory(OutOfMemoryObserver observer) { out_of_memory_observer = observer; }

void refuse_memory_after_fork() { forked_after_use = true; }

}  // namespace gfx950::torch_device
