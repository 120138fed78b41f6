// hipGetProcAddress over the one list of implemented entry points.
#include <cstring>

#include "runtime.h"

namespace {

struct EntryPoint {
  const char* name;
  void* function;
};

const EntryPoint kEntryPoints[] = {
#define GFX950_HIP_ENTRY(function) {#function, reinterpret_cast<void*>(&function)},
#include "entry_points.inc"
#undef GFX950_HIP_ENTRY
    // HIP's header renames this one, so callers ask for it under the old name.
    {"hipGetDeviceProperties", reinterpret_cast<void*>(&hipGetDevicePropertiesR0600)},
};

}  // namespace

extern "C" hipError_t hipGetProcAddress(const char* symbol, void** pfn, int, uint64_t,
                                        hipDriverProcAddressQueryResult* status) {
  using gfx950::hip::fail;
  if (!symbol || !pfn) return fail(hipErrorInvalidValue, "hipGetProcAddress: null pointer");
  for (const EntryPoint& entry : kEntryPoints) {
    if (std::strcmp(entry.name, symbol) == 0) {
      *pfn = entry.function;
      if (status) *status = HIP_GET_PROC_ADDRESS_SUCCESS;
      return hipSuccess;
    }
  }
  *pfn = nullptr;
  if (status) *status = HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return fail(hipErrorNotFound,
              std::string("hipGetProcAddress: ") + symbol +
                  " is not implemented by the emulated HIP runtime; hip/entry_points.inc lists what is");
}
