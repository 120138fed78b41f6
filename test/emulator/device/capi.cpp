// C functions for the Python package: what libtorch_python offers in a ROCm build and a CPU build lacks.
#include "capi.h"

#include <ATen/core/Generator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cstring>
#include <string>

#include "device_memory.h"
#include "fallback.h"
#include "generator.h"
#include "gfx950_hip.h"
#include "pinned.h"
#include "streams.h"

using namespace gfx950::torch_device;

namespace gfx950::torch_device {

LastError& last_error() {
  thread_local LastError error;
  return error;
}

void keep_error() {
  LastError& error = last_error();
  error = {};
  try {
    throw;
  } catch (const c10::AcceleratorError& caught) {
    error = {caught.what_without_backtrace(), 1, caught.get_error_code()};
  } catch (const c10::OutOfMemoryError& caught) {
    error = {caught.what_without_backtrace(), 2, 0};
  } catch (const c10::IndexError& caught) {
    error = {caught.what_without_backtrace(), 3, 0};
  } catch (const c10::ValueError& caught) {
    error = {caught.what_without_backtrace(), 4, 0};
  } catch (const c10::NotImplementedError& caught) {
    error = {caught.what_without_backtrace(), 5, 0};
  } catch (const c10::Error& caught) {
    error.text = caught.what_without_backtrace();
  } catch (const std::exception& caught) {
    error.text = caught.what();
  }
}

}  // namespace gfx950::torch_device

namespace {

void append_one(std::string* json, const std::string& name, const c10::CachingAllocator::Stat& stat) {
  const std::pair<const char*, int64_t> fields[] = {
      {"current", stat.current}, {"peak", stat.peak}, {"allocated", stat.allocated}, {"freed", stat.freed}};
  for (const auto& [field, value] : fields) *json += "\"" + name + "." + field + "\": " + std::to_string(value) + ", ";
}

void append(std::string* json, const std::string& name, const c10::CachingAllocator::StatArray& stats) {
  using c10::CachingAllocator::StatType;
  append_one(json, name + ".all", stats[static_cast<size_t>(StatType::AGGREGATE)]);
  append_one(json, name + ".small_pool", stats[static_cast<size_t>(StatType::SMALL_POOL)]);
  append_one(json, name + ".large_pool", stats[static_cast<size_t>(StatType::LARGE_POOL)]);
}

}  // namespace

extern "C" {

GFX950_EXPORT const char* gfx950_torch_error() { return last_error().text.c_str(); }
GFX950_EXPORT int gfx950_torch_error_kind() { return last_error().kind; }
GFX950_EXPORT int gfx950_torch_error_code() { return last_error().code; }

GFX950_EXPORT int gfx950_torch_current_device() { return current_device(); }
GFX950_EXPORT int gfx950_torch_set_device(int device) {
  return guarded([&] { set_device(static_cast<c10::DeviceIndex>(device)); });
}

GFX950_EXPORT int64_t gfx950_torch_current_stream(int device) {
  int64_t id = -1;
  return guarded([&] { id = current_stream(static_cast<c10::DeviceIndex>(device)).id(); }) == 0 ? id : -1;
}
GFX950_EXPORT int gfx950_torch_set_stream(int device, int64_t id) {
  return guarded([&] {
    exchange_stream(c10::Stream(c10::Stream::UNSAFE,
                                c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device)), id));
  });
}
GFX950_EXPORT int64_t gfx950_torch_new_stream(int device, int priority) {
  int64_t id = -1;
  return guarded([&] { id = new_stream(static_cast<c10::DeviceIndex>(device), priority).id(); }) == 0 ? id : -1;
}

GFX950_EXPORT size_t gfx950_torch_memory_stats(int device, char* buffer, size_t size) {
  std::string json = "{";
  const int status = guarded([&] {
    const auto stats = device_allocator().getDeviceStats(static_cast<c10::DeviceIndex>(device));
    append(&json, "allocation", stats.allocation);
    append(&json, "segment", stats.segment);
    append(&json, "active", stats.active);
    append(&json, "inactive_split", stats.inactive_split);
    append(&json, "allocated_bytes", stats.allocated_bytes);
    append(&json, "reserved_bytes", stats.reserved_bytes);
    append(&json, "active_bytes", stats.active_bytes);
    append(&json, "inactive_split_bytes", stats.inactive_split_bytes);
    append(&json, "requested_bytes", stats.requested_bytes);
    append_one(&json, "oversize_allocations", c10::CachingAllocator::Stat());
    append_one(&json, "oversize_segments", c10::CachingAllocator::Stat());
    json += "\"num_alloc_retries\": 0, \"num_ooms\": " + std::to_string(stats.num_ooms) +
            ", \"num_device_alloc\": " + std::to_string(stats.num_device_alloc) +
            ", \"num_device_free\": " + std::to_string(stats.num_device_free) + "}";
  });
  if (status != 0) return 0;
  if (buffer && size > json.size()) std::memcpy(buffer, json.c_str(), json.size() + 1);
  return json.size() + 1;
}
GFX950_EXPORT int gfx950_torch_reset_peak(int device) {
  return guarded([&] { device_allocator().resetPeakStats(static_cast<c10::DeviceIndex>(device)); });
}
GFX950_EXPORT int gfx950_torch_reset_accumulated(int device) {
  return guarded([&] { device_allocator().resetAccumulatedStats(static_cast<c10::DeviceIndex>(device)); });
}
GFX950_EXPORT int gfx950_torch_memory_info(int device, size_t* free_bytes, size_t* total_bytes) {
  return guarded([&] {
    std::tie(*free_bytes, *total_bytes) = device_allocator().getMemoryInfo(static_cast<c10::DeviceIndex>(device));
  });
}

GFX950_EXPORT void gfx950_torch_offer_default_generator(int device) {
  offer_default_generator(static_cast<c10::DeviceIndex>(device));
}

GFX950_EXPORT size_t gfx950_torch_pinned_stats(char* buffer, size_t size) {
  const at::HostStats stats = pinned_allocator().get_stats();
  std::string json = "{";
  const std::pair<const char*, const at::Stat*> fields[] = {{"active_requests", &stats.active_requests},
                                                            {"active_bytes", &stats.active_bytes},
                                                            {"allocations", &stats.allocations},
                                                            {"allocated_bytes", &stats.allocated_bytes}};
  for (const auto& [name, stat] : fields) append_one(&json, name, *stat);
  json += "\"num_host_alloc\": " + std::to_string(stats.num_host_alloc) +
          ", \"num_host_free\": " + std::to_string(stats.num_host_free) + "}";
  if (buffer && size > json.size()) std::memcpy(buffer, json.c_str(), json.size() + 1);
  return json.size() + 1;
}
GFX950_EXPORT void gfx950_torch_pinned_reset(int peak) {
  peak ? pinned_allocator().reset_peak_stats() : pinned_allocator().reset_accumulated_stats();
}

GFX950_EXPORT int gfx950_torch_register_cpu_kernels() {
  return guarded([] { register_cpu_kernels(); });
}

// The torch that this library was compiled against; the package compares it before it loads the library.
GFX950_EXPORT const char* gfx950_torch_built_for() { return GFX950_TORCH_VERSION; }

}  // extern "C"
