// Where allocations go while somebody captures a graph or uses a torch.cuda.MemPool: pools that keep what is freed.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gfx950::torch_device {

using PoolId = std::pair<uint64_t, uint64_t>;  // c10::MempoolId_t

// A pool of one device. It lives while somebody holds it: each graph, MemPool and use of begin_pool().
void hold_pool(c10::DeviceIndex device, PoolId pool);
void release_pool(c10::DeviceIndex device, PoolId pool);
int pool_holders(c10::DeviceIndex device, PoolId pool);
PoolId new_pool_id(bool of_user);

// Sends allocations to the pool: those of one thread, of one stream, of a stream that captures (by the capture's id),
// or all of the device.
struct PoolRoute {
  enum class By { everything, thread, stream, capture } by = By::everything;
  uint64_t value = 0;
};
void begin_pool(c10::DeviceIndex device, PoolId pool, PoolRoute route);  // holds the pool
void end_pool(c10::DeviceIndex device, PoolId pool);                     // still held

// At the end of a capture: puts back what blocks held that it took over.
void put_back_saved(uint64_t capture);

// Which blocks of a pool are allocated, to be restored later: blocks that were allocated since are then free, and those
// that were free are allocated again.
struct PoolState {
  PoolId pool;
  std::vector<void*> live;
};
PoolState pool_state(c10::DeviceIndex device, PoolId pool);
// `stale`: storages whose blocks the restored state frees, and which must not free them again. `owners`: storages over
// blocks that it allocates, and which shall free them.
void restore_pool_state(c10::DeviceIndex device, const PoolState& state, const std::vector<c10::StorageImpl*>& stale,
                        const std::vector<c10::StorageImpl*>& owners);
bool pool_holds_exactly(c10::DeviceIndex device, PoolId pool, const std::vector<void*>& live);

// JSON for torch.cuda.memory_snapshot(); `only` limits it to one pool unless it is {0, 0}.
std::string memory_snapshot(PoolId only);
void record_history(bool on, size_t max_entries);
bool history_is_recorded();

// Takes allocations and frees them by address, as torch.cuda.caching_allocator_alloc does.
void* raw_allocate(size_t size, c10::DeviceIndex device);
void raw_free(void* pointer);

// A storage's hold on its block: whether it frees it at its end; and freeing it now, so that it does not later.
bool owns_block(const c10::StorageImpl& storage);
void free_and_disown(c10::StorageImpl* storage);

void set_memory_fraction(c10::DeviceIndex device, double fraction);
double memory_fraction(c10::DeviceIndex device);

}  // namespace gfx950::torch_device
