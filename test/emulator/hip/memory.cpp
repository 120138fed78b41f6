// Device and registered host memory, copies and fills. Device memory is host memory that the core knows of.
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "gfx950_hip.h"
#include "runtime.h"

namespace gfx950::hip {
namespace {

std::mutex pinned_mutex;
std::unordered_map<void*, size_t> pinned;  // from hipHostMalloc

std::string in_hex(const void* pointer) {
  char text[32];
  std::snprintf(text, sizeof(text), "%p", pointer);
  return text;
}

bool on_device(const void* pointer) {
  const auto range = Memory::instance().find(pointer);
  return range && range->owner != Memory::Owner::host_registered;
}

// Checks that [pointer, pointer + size) ends inside the device range where it begins. Plain host memory passes.
hipError_t check_extent(const char* call, const void* pointer, size_t size) {
  const auto range = Memory::instance().find(pointer);
  if (!range || reinterpret_cast<uintptr_t>(pointer) + size <= range->end) return hipSuccess;
  return fail(hipErrorInvalidValue, std::string(call) + ": " + std::to_string(size) + " bytes at " + in_hex(pointer) +
                                        " run past the end of their allocation, which holds " +
                                        std::to_string(range->end - reinterpret_cast<uintptr_t>(pointer)));
}

// A graph may run when what it names is gone.
bool still_there(const void* pointer, size_t size, bool of_device) {
  return !of_device || gfx950_is_live(pointer, size) != 0;
}

hipError_t copy(const char* call, void* destination, const void* source, size_t size, hipMemcpyKind kind,
                hipStream_t stream) {
  if (size == 0) return hipSuccess;
  if (!destination || !source) return fail(hipErrorInvalidValue, std::string(call) + ": null pointer");
  const bool to_device = on_device(destination), from_device = on_device(source);
  const bool expects_to = kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice;
  const bool expects_from = kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice;
  if (kind < hipMemcpyHostToHost || kind > hipMemcpyDefault) {
    return fail(hipErrorInvalidMemcpyDirection, std::string(call) + ": kind " + std::to_string(kind));
  }
  if (kind != hipMemcpyDefault && (expects_to != to_device || expects_from != from_device)) {
    return fail(hipErrorInvalidMemcpyDirection, std::string(call) + ": kind " + std::to_string(kind) +
                                                    " does not fit: the destination is " +
                                                    (to_device ? "device" : "host") + " memory and the source is " +
                                                    (from_device ? "device" : "host") + " memory");
  }
  if (hipError_t error = check_extent(call, destination, size)) return error;
  if (hipError_t error = check_extent(call, source, size)) return error;
  const auto run = [=]() -> hipError_t {
    if (!still_there(destination, size, to_device) || !still_there(source, size, from_device)) {
      return fail(hipErrorIllegalAddress, std::string(call) + ": device memory that a graph copies was freed");
    }
    std::memmove(destination, source, size);
    advance_clock(copy_nanoseconds(size, to_device && from_device ? Link::device : Link::host));
    return hipSuccess;
  };
  hipError_t code = hipSuccess;
  if (record(stream, &code, [&] { return GraphNode{call, run}; })) return code;
  return run();
}

template <typename Element>
hipError_t fill(const char* call, void* destination, Element value, size_t count, hipStream_t stream) {
  if (!valid_stream(stream)) return fail(hipErrorInvalidHandle, std::string(call) + ": not a stream");
  if (count == 0) return hipSuccess;
  if (!on_device(destination)) {
    return fail(hipErrorInvalidValue, std::string(call) + ": " + in_hex(destination) + " is not device memory");
  }
  if (hipError_t error = check_extent(call, destination, count * sizeof(Element))) return error;
  const auto run = [=]() -> hipError_t {
    if (!still_there(destination, count * sizeof(Element), true)) {
      return fail(hipErrorIllegalAddress, std::string(call) + ": device memory that a graph fills was freed");
    }
    Element* elements = static_cast<Element*>(destination);
    std::fill(elements, elements + count, value);
    advance_clock(fill_nanoseconds(count * sizeof(Element)));
    return hipSuccess;
  };
  hipError_t code = hipSuccess;
  if (record(stream, &code, [&] { return GraphNode{call, run}; })) return code;
  return run();
}

bool poison_new_memory() {
  try {
    return RunOptions::from_environment().check;
  } catch (const Error&) {
    return false;  // the launch that follows reports the bad variable
  }
}

}  // namespace
}  // namespace gfx950::hip

using namespace gfx950;
using namespace gfx950::hip;

extern "C" {

int gfx950_is_live(const void* pointer, size_t size) {
  const auto range = Memory::instance().find(pointer);
  return range && reinterpret_cast<uintptr_t>(pointer) + size <= range->end ? 1 : 0;
}

hipError_t hipMalloc(void** pointer, size_t size) {
  if (!pointer) return fail(hipErrorInvalidValue, "hipMalloc: null pointer");
  *pointer = nullptr;
  if (size == 0) return hipSuccess;
  const int device = current_device();
  const size_t used = Memory::instance().allocated_bytes(device);
  if (size > memory_limit() || used > memory_limit() - size) {
    return fail(hipErrorOutOfMemory, "hipMalloc: " + std::to_string(size) + " bytes asked for, " +
                                         std::to_string(used) + " of " + std::to_string(memory_limit()) +
                                         " in use on device " + std::to_string(device) + " (GFX950_MEMORY_LIMIT)");
  }
  *pointer = Memory::instance().allocate(size, device, poison_new_memory());
  if (!*pointer) {
    return fail(hipErrorOutOfMemory, "hipMalloc: the host has no " + std::to_string(size) + " bytes left");
  }
  return hipSuccess;
}

hipError_t hipFree(void* pointer) {
  if (!pointer || Memory::instance().release(pointer)) return hipSuccess;
  return fail(hipErrorInvalidValue, "hipFree: " + in_hex(pointer) + " does not begin a live allocation of hipMalloc");
}

hipError_t hipHostMalloc(void** pointer, size_t size, unsigned) {
  if (!pointer) return fail(hipErrorInvalidValue, "hipHostMalloc: null pointer");
  *pointer = nullptr;
  if (size == 0) return hipSuccess;
  constexpr size_t kAlignment = 4096;
  *pointer = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  if (!*pointer)
    return fail(hipErrorOutOfMemory, "hipHostMalloc: the host has no " + std::to_string(size) + " bytes left");
  Memory::instance().add(*pointer, size, Memory::Owner::host_registered, current_device());
  std::lock_guard<std::mutex> lock(pinned_mutex);
  pinned[*pointer] = size;
  return hipSuccess;
}

hipError_t hipHostFree(void* pointer) {
  if (!pointer) return hipSuccess;
  std::lock_guard<std::mutex> lock(pinned_mutex);
  if (pinned.erase(pointer) == 0) {
    return fail(hipErrorInvalidValue, "hipHostFree: " + in_hex(pointer) + " is not from hipHostMalloc");
  }
  Memory::instance().remove(pointer);
  std::free(pointer);
  return hipSuccess;
}

hipError_t hipHostRegister(void* pointer, size_t size, unsigned) {
  if (!pointer || size == 0) return fail(hipErrorInvalidValue, "hipHostRegister: null pointer or no bytes");
  if (Memory::instance().find(pointer)) {
    return fail(hipErrorHostMemoryAlreadyRegistered, "hipHostRegister: " + in_hex(pointer) + " is already known");
  }
  try {
    Memory::instance().add(pointer, size, Memory::Owner::host_registered, current_device());
  } catch (const Error& error) {  // it overlaps memory that is known already
    return fail(hipErrorHostMemoryAlreadyRegistered, std::string("hipHostRegister: ") + error.what());
  }
  return hipSuccess;
}

hipError_t hipHostUnregister(void* pointer) {
  const auto range = Memory::instance().find(pointer);
  if (range && range->owner == Memory::Owner::host_registered && Memory::instance().remove(pointer)) return hipSuccess;
  return fail(hipErrorHostMemoryNotRegistered, "hipHostUnregister: " + in_hex(pointer) + " is not registered");
}

hipError_t hipHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned) {
  if (!device_pointer) return fail(hipErrorInvalidValue, "hipHostGetDevicePointer: null pointer");
  const auto range = Memory::instance().find(host_pointer);
  if (!range || range->owner != Memory::Owner::host_registered) {
    return fail(hipErrorInvalidValue, "hipHostGetDevicePointer: " + in_hex(host_pointer) + " is not registered");
  }
  *device_pointer = host_pointer;
  return hipSuccess;
}

hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (!free_bytes || !total_bytes) return fail(hipErrorInvalidValue, "hipMemGetInfo: null pointer");
  const size_t used = Memory::instance().allocated_bytes(current_device());
  *total_bytes = kTotalMemory;
  *free_bytes = used < memory_limit() ? memory_limit() - used : 0;
  return hipSuccess;
}

hipError_t hipMemcpy(void* destination, const void* source, size_t size, hipMemcpyKind kind) {
  if (hipError_t error = check_wait("hipMemcpy", nullptr)) return error;
  if (hipError_t error = deferred_error()) return error;  // it would copy what a failed launch left
  return copy("hipMemcpy", destination, source, size, kind, nullptr);
}

hipError_t hipMemcpyAsync(void* destination, const void* source, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  if (!valid_stream(stream)) return fail(hipErrorInvalidHandle, "hipMemcpyAsync: not a stream");
  return copy("hipMemcpyAsync", destination, source, size, kind, stream);
}

hipError_t hipMemset(void* destination, int value, size_t size) {
  return fill("hipMemset", destination, static_cast<uint8_t>(value), size, nullptr);
}

hipError_t hipMemsetAsync(void* destination, int value, size_t size, hipStream_t stream) {
  return fill("hipMemsetAsync", destination, static_cast<uint8_t>(value), size, stream);
}

hipError_t hipMemsetD16Async(hipDeviceptr_t destination, unsigned short value, size_t count, hipStream_t stream) {
  return fill("hipMemsetD16Async", destination, static_cast<uint16_t>(value), count, stream);
}

hipError_t hipMemsetD32Async(hipDeviceptr_t destination, int value, size_t count, hipStream_t stream) {
  return fill("hipMemsetD32Async", destination, static_cast<uint32_t>(value), count, stream);
}

hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute attribute, hipDeviceptr_t pointer) {
  if (!data) return fail(hipErrorInvalidValue, "hipPointerGetAttribute: null pointer");
  const auto range = Memory::instance().find(pointer);
  if (!range) {
    return fail(hipErrorInvalidValue, "hipPointerGetAttribute: " + in_hex(pointer) + " is in no allocation known here");
  }
  const bool host = range->owner == Memory::Owner::host_registered;
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = host ? hipMemoryTypeHost : hipMemoryTypeDevice;
      return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<void**>(data) = pointer;
      return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host) return fail(hipErrorInvalidValue, "hipPointerGetAttribute: device memory has no host pointer");
      *static_cast<void**>(data) = pointer;
      return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = range->device;
      return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<uintptr_t*>(data) = range->begin;
      return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = range->end - range->begin;
      return hipSuccess;
  }
  return fail(hipErrorNotSupported, "hipPointerGetAttribute: attribute " + std::to_string(attribute) +
                                        " is not modelled; add it in hip/memory.cpp");
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* pointer) {
  if (!attributes) return fail(hipErrorInvalidValue, "hipPointerGetAttributes: null pointer");
  *attributes = hipPointerAttribute_t{};
  const auto range = Memory::instance().find(pointer);
  if (!range) return hipSuccess;  // as HIP does: plain host memory is "unregistered", not an error
  const bool host = range->owner == Memory::Owner::host_registered;
  attributes->type = host ? hipMemoryTypeHost : hipMemoryTypeDevice;
  attributes->device = range->device;
  attributes->devicePointer = const_cast<void*>(pointer);
  attributes->hostPointer = host ? const_cast<void*>(pointer) : nullptr;
  return hipSuccess;
}

}  // extern "C"
