// Devices: how many, which is current, what they say about themselves.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "gfx950_hip.h"
#include "runtime.h"

namespace gfx950::hip {
namespace {

thread_local int thread_device = 0;

constexpr int kMaxDevices = 16;

int parse_device_count() {
  const char* text = std::getenv("GFX950_DEVICES");
  if (!text || !*text) return 1;
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text, &end, 10);
  if (errno || *end || value < 0 || value > kMaxDevices) {
    std::fprintf(stderr, "gfx950 emulator: GFX950_DEVICES=%s: expected a number from 0 to %d\n", text, kMaxDevices);
    std::exit(1);
  }
  return static_cast<int>(value);
}

uint64_t parse_memory_limit() {
  const char* text = std::getenv("GFX950_MEMORY_LIMIT");
  if (!text || !*text) {
    const uint64_t host = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return std::min(host, kTotalMemory);
  }
  char* end = nullptr;
  errno = 0;
  double value = std::strtod(text, &end);
  const char* suffixes = "KMGT";
  if (*end) {
    const char* suffix = std::strchr(suffixes, *end);
    if (suffix && *suffix) {
      value *= static_cast<double>(1ull << (10 * (suffix - suffixes + 1)));
      ++end;
    }
  }
  if (errno || *end || !(value > 0)) {
    std::fprintf(
        stderr,
        "gfx950 emulator: GFX950_MEMORY_LIMIT=%s: expected bytes, or a number with K, M, G or T (powers of 1024)\n",
        text);
    std::exit(1);
  }
  return std::min(static_cast<uint64_t>(value), kTotalMemory);
}

hipError_t check_device(int device) {
  if (device >= 0 && device < device_count()) return hipSuccess;
  return fail(hipErrorInvalidDevice, "device " + std::to_string(device) + " does not exist: the emulator has " +
                                         std::to_string(device_count()) + " (GFX950_DEVICES)");
}

// hipDeviceAttribute_t values that callers ask for, with HIP's numbering.
struct Attribute {
  int id;
  int value;
};
constexpr Attribute kAttributes[] = {
    {5, kClockKhz},                   // ClockRate
    {10, 1},                          // CooperativeLaunch
    {19, kL2Bytes},                   // L2CacheSize
    {23, 9},                          // ComputeCapabilityMajor
    {61, 5},                          // ComputeCapabilityMinor
    {56, kMaxThreadsPerBlock},        // MaxThreadsPerBlock
    {57, kMaxThreadsPerComputeUnit},  // MaxThreadsPerMultiProcessor
    {59, kMemoryBusBits},             // MemoryBusWidth
    {60, kMemoryClockKhz},            // MemoryClockRate
    {63, kComputeUnits},              // MultiprocessorCount
    {74, kLdsBytes},                  // MaxSharedMemoryPerBlock
    {87, kWaveSize},                  // WarpSize
};

}  // namespace

int device_count() {
  static const int count = parse_device_count();
  return count;
}

int current_device() { return thread_device; }
void set_current_device(int device) { thread_device = device; }

uint64_t memory_limit() {
  static const uint64_t limit = parse_memory_limit();
  return limit;
}

}  // namespace gfx950::hip

using namespace gfx950::hip;

extern "C" {

uint64_t gfx950_memory_limit() { return memory_limit(); }
int gfx950_device_count() { return device_count(); }

const char* gfx950_check_environment() {
  try {
    (void)gfx950::RunOptions::from_environment();
    return nullptr;
  } catch (const gfx950::Error& error) {
    fail(hipErrorInvalidValue, error.what());
    return gfx950_last_error();
  }
}

hipError_t hipInit(unsigned flags) {
  if (flags != 0) return fail(hipErrorInvalidValue, "hipInit: flags must be 0");
  return gfx950_check_environment() == nullptr ? hipSuccess : hipErrorInvalidValue;
}

hipError_t hipDriverGetVersion(int* version) {
  if (!version) return fail(hipErrorInvalidValue, "hipDriverGetVersion: null pointer");
  *version = kHipVersion;
  return hipSuccess;
}

hipError_t hipRuntimeGetVersion(int* version) { return hipDriverGetVersion(version); }

hipError_t hipGetDeviceCount(int* count) {
  if (!count) return fail(hipErrorInvalidValue, "hipGetDeviceCount: null pointer");
  *count = device_count();
  return hipSuccess;
}

hipError_t hipGetDevice(int* device) {
  if (!device) return fail(hipErrorInvalidValue, "hipGetDevice: null pointer");
  *device = current_device();
  return hipSuccess;
}

hipError_t hipSetDevice(int device) {
  if (hipError_t error = check_device(device)) return error;
  set_current_device(device);
  return hipSuccess;
}

// Every call has finished when it returns, so there is nothing to wait for.
hipError_t hipDeviceSynchronize() { return deferred_error(); }

hipError_t hipDeviceGetName(char* name, int length, hipDevice_t device) {
  if (!name || length <= 0) return fail(hipErrorInvalidValue, "hipDeviceGetName: no room for the name");
  if (hipError_t error = check_device(device)) return error;
  std::strncpy(name, kDeviceName, static_cast<size_t>(length) - 1);
  name[length - 1] = 0;
  return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int* value, int attribute, int device) {
  if (!value) return fail(hipErrorInvalidValue, "hipDeviceGetAttribute: null pointer");
  if (hipError_t error = check_device(device)) return error;
  for (const Attribute& entry : kAttributes) {
    if (entry.id == attribute) {
      *value = entry.value;
      return hipSuccess;
    }
  }
  return fail(hipErrorNotSupported, "hipDeviceGetAttribute: attribute " + std::to_string(attribute) +
                                        " is not modelled; add it to the table in hip/device.cpp");
}

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* properties, int device) {
  if (!properties) return fail(hipErrorInvalidValue, "hipGetDeviceProperties: null pointer");
  if (hipError_t error = check_device(device)) return error;
  hipDeviceProp_tR0600 p;
  std::memset(&p, 0, sizeof(p));
  std::strncpy(p.name, kDeviceName, sizeof(p.name) - 1);
  std::strncpy(p.gcnArchName, kArchName, sizeof(p.gcnArchName) - 1);
  std::snprintf(p.uuid, sizeof(p.uuid), "gfx950-emu-%d", device);
  p.totalGlobalMem = kTotalMemory;
  p.sharedMemPerBlock = p.sharedMemPerMultiprocessor = p.maxSharedMemoryPerMultiProcessor = kLdsBytes;
  p.sharedMemPerBlockOptin = kLdsBytes;
  p.regsPerBlock = p.regsPerMultiprocessor = kRegistersPerBlock;
  p.warpSize = kWaveSize;
  p.maxThreadsPerBlock = kMaxThreadsPerBlock;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = p.maxThreadsDim[2] = kMaxThreadsPerBlock;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.clockRate = kClockKhz;
  p.clockInstructionRate = 100000;
  p.memoryClockRate = kMemoryClockKhz;
  p.memoryBusWidth = kMemoryBusBits;
  p.major = 9;
  p.minor = 5;
  p.multiProcessorCount = kComputeUnits;
  p.maxThreadsPerMultiProcessor = kMaxThreadsPerComputeUnit;
  p.maxBlocksPerMultiProcessor = 2;
  p.l2CacheSize = kL2Bytes;
  p.concurrentKernels = 1;
  p.ECCEnabled = 1;
  p.canMapHostMemory = p.unifiedAddressing = p.hostRegisterSupported = p.canUseHostPointerForRegisteredMem = 1;
  p.cooperativeLaunch = 1;
  p.pciBusID = device + 1;
  *properties = p;
  return hipSuccess;
}

}  // extern "C"
