// C functions for the Python package: torch.cuda.CUDAGraph, memory pools and snapshots. Handles are addresses.
#include <ATen/core/Generator.h>

#include <cstring>
#include <memory>

#include "capi.h"
#include "capture.h"
#include "device_memory.h"
#include "graph.h"
#include "memory_pool.h"
#include "streams.h"

using namespace gfx950::torch_device;

namespace {

std::vector<c10::StorageImpl*> storages(const uint64_t* addresses, size_t count) {
  std::vector<c10::StorageImpl*> result;
  for (size_t i = 0; i < count; ++i) result.push_back(reinterpret_cast<c10::StorageImpl*>(addresses[i]));
  return result;
}

c10::DeviceIndex narrow(int device) { return static_cast<c10::DeviceIndex>(device); }

}  // namespace

extern "C" {

GFX950_EXPORT void* gfx950_torch_graph_new(int keep_graph) { return new Graph(keep_graph != 0); }
GFX950_EXPORT void gfx950_torch_graph_delete(void* graph) { delete static_cast<Graph*>(graph); }
GFX950_EXPORT int gfx950_torch_graph_begin(void* graph, uint64_t pool_a, uint64_t pool_b, int mode) {
  return guarded(
      [&] { static_cast<Graph*>(graph)->begin_capture({pool_a, pool_b}, static_cast<hipStreamCaptureMode>(mode)); });
}
GFX950_EXPORT int gfx950_torch_graph_end(void* graph, uint64_t* nodes) {
  return guarded([&] { *nodes = static_cast<Graph*>(graph)->end_capture(); });
}
GFX950_EXPORT int gfx950_torch_graph_instantiate(void* graph) {
  return guarded([&] { static_cast<Graph*>(graph)->instantiate(); });
}
GFX950_EXPORT int gfx950_torch_graph_replay(void* graph) {
  return guarded([&] { static_cast<Graph*>(graph)->replay(); });
}
GFX950_EXPORT int gfx950_torch_graph_reset(void* graph) {
  return guarded([&] { static_cast<Graph*>(graph)->reset(); });
}
GFX950_EXPORT int gfx950_torch_graph_pool(void* graph, uint64_t* pool) {
  return guarded([&] { std::tie(pool[0], pool[1]) = static_cast<Graph*>(graph)->pool(); });
}
// `generator`: the _cdata of a torch.Generator.
GFX950_EXPORT int gfx950_torch_graph_register_generator(void* graph, void* generator) {
  return guarded([&] {
    auto implementation =
        c10::intrusive_ptr<c10::GeneratorImpl>::reclaim_copy(static_cast<c10::GeneratorImpl*>(generator));
    static_cast<Graph*>(graph)->register_generator(at::Generator(std::move(implementation)));
  });
}
GFX950_EXPORT void gfx950_torch_graph_enable_debug(void* graph) { static_cast<Graph*>(graph)->enable_debug(); }
GFX950_EXPORT int gfx950_torch_graph_debug_dump(void* graph, const char* path) {
  return guarded([&] { static_cast<Graph*>(graph)->debug_dump(path); });
}
GFX950_EXPORT int gfx950_torch_graph_raw(void* graph, int executable, uint64_t* handle) {
  return guarded([&] {
    const auto* g = static_cast<Graph*>(graph);
    *handle = executable ? reinterpret_cast<uint64_t>(g->raw_executable()) : reinterpret_cast<uint64_t>(g->raw_graph());
  });
}
GFX950_EXPORT int gfx950_torch_is_capturing() { return capturing(current_device()) ? 1 : 0; }

GFX950_EXPORT void gfx950_torch_new_pool(int of_user, uint64_t* pool) {
  std::tie(pool[0], pool[1]) = new_pool_id(of_user != 0);
}
// `by`: 0 everything on the device, 1 this thread, 2 the current stream.
GFX950_EXPORT int gfx950_torch_begin_pool(int device, uint64_t pool_a, uint64_t pool_b, int by) {
  return guarded([&] {
    PoolRoute route;
    if (by == 1) route = {PoolRoute::By::thread, thread_id()};
    if (by == 2) route = {PoolRoute::By::stream, static_cast<uint64_t>(current_stream(narrow(device)).id())};
    begin_pool(narrow(device), {pool_a, pool_b}, route);
  });
}
GFX950_EXPORT int gfx950_torch_end_pool(int device, uint64_t pool_a, uint64_t pool_b) {
  return guarded([&] { end_pool(narrow(device), {pool_a, pool_b}); });
}
GFX950_EXPORT int gfx950_torch_hold_pool(int device, uint64_t pool_a, uint64_t pool_b) {
  return guarded([&] { hold_pool(narrow(device), {pool_a, pool_b}); });
}
GFX950_EXPORT int gfx950_torch_release_pool(int device, uint64_t pool_a, uint64_t pool_b) {
  return guarded([&] { release_pool(narrow(device), {pool_a, pool_b}); });
}
GFX950_EXPORT int gfx950_torch_pool_holders(int device, uint64_t pool_a, uint64_t pool_b) {
  return pool_holders(narrow(device), {pool_a, pool_b});
}
GFX950_EXPORT int gfx950_torch_pool_state(int device, uint64_t pool_a, uint64_t pool_b, void** state) {
  return guarded([&] { *state = new PoolState(pool_state(narrow(device), {pool_a, pool_b})); });
}
GFX950_EXPORT void gfx950_torch_delete_pool_state(void* state) { delete static_cast<PoolState*>(state); }
GFX950_EXPORT int gfx950_torch_restore_pool_state(int device, void* state, const uint64_t* stale, size_t stale_count,
                                                  const uint64_t* owners, size_t owner_count) {
  return guarded([&] {
    restore_pool_state(narrow(device), *static_cast<PoolState*>(state), storages(stale, stale_count),
                       storages(owners, owner_count));
  });
}
// 1 or 0, or -1 for an error.
GFX950_EXPORT int gfx950_torch_pool_holds_exactly(int device, uint64_t pool_a, uint64_t pool_b, const uint64_t* live,
                                                  size_t count) {
  bool exactly = false;
  const int status = guarded([&] {
    std::vector<void*> pointers;
    for (size_t i = 0; i < count; ++i) pointers.push_back(reinterpret_cast<void*>(live[i]));
    exactly = pool_holds_exactly(narrow(device), {pool_a, pool_b}, pointers);
  });
  return status < 0 ? status : exactly ? 1 : 0;
}

GFX950_EXPORT int gfx950_torch_raw_allocate(uint64_t size, int device, uint64_t* address) {
  return guarded([&] { *address = reinterpret_cast<uint64_t>(raw_allocate(size, narrow(device))); });
}
GFX950_EXPORT int gfx950_torch_raw_free(uint64_t address) {
  return guarded([&] { raw_free(reinterpret_cast<void*>(address)); });
}
GFX950_EXPORT int gfx950_torch_owns_block(uint64_t storage) {
  return owns_block(*reinterpret_cast<c10::StorageImpl*>(storage)) ? 1 : 0;
}
GFX950_EXPORT int gfx950_torch_free_and_disown(uint64_t storage) {
  return guarded([&] { free_and_disown(reinterpret_cast<c10::StorageImpl*>(storage)); });
}
// From here on, an access to the bytes raises `message`. A tensor also loses its storage.
GFX950_EXPORT int gfx950_torch_poison_tensor(uint64_t tensor, const char* message) {
  return guarded([&] {
    reinterpret_cast<c10::TensorImpl*>(tensor)->release_storage_and_set_meta_custom_data_ptr_error_msg_(
        std::string(message));
  });
}
GFX950_EXPORT int gfx950_torch_poison_storage(uint64_t storage, const char* message) {
  return guarded([&] {
    reinterpret_cast<c10::StorageImpl*>(storage)->release_data_and_set_meta_custom_data_ptr_error_msg_(
        std::string(message));
  });
}

GFX950_EXPORT size_t gfx950_torch_memory_snapshot(uint64_t pool_a, uint64_t pool_b, char* buffer, size_t size) {
  const std::string json = memory_snapshot({pool_a, pool_b});
  if (buffer && size > json.size()) std::memcpy(buffer, json.c_str(), json.size() + 1);
  return json.size() + 1;
}
GFX950_EXPORT void gfx950_torch_record_history(int on, uint64_t max_entries) { record_history(on != 0, max_entries); }
GFX950_EXPORT int gfx950_torch_history_is_recorded() { return history_is_recorded() ? 1 : 0; }
GFX950_EXPORT int gfx950_torch_set_memory_fraction(double fraction, int device) {
  return guarded([&] { set_memory_fraction(narrow(device), fraction); });
}
GFX950_EXPORT void gfx950_torch_observe_out_of_memory(void (*observer)(int, uint64_t, uint64_t, uint64_t)) {
  observe_out_of_memory(observer);
}
GFX950_EXPORT void gfx950_torch_refuse_memory_after_fork() { refuse_memory_after_fork(); }
GFX950_EXPORT double gfx950_torch_memory_fraction(int device) { return memory_fraction(narrow(device)); }

}  // extern "C"
