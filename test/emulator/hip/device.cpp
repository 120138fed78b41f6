// Devices: how many, which is current, what they say about themselves.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

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

// Which of `count` devices a list such as "0,2" names. As in HIP, a negative number ends the list.
std::vector<int> parse_visible(const char* variable, const char* text, int count) {
  std::vector<int> visible;
  const char* rest = text;
  while (*rest) {
    char* end = nullptr;
    errno = 0;
    const long value = std::strtol(rest, &end, 10);
    if (errno || end == rest || (*end && *end != ',')) {
      std::fprintf(stderr, "gfx950 emulator: %s=%s: expected numbers of devices with commas between, or -1 for none\n",
                   variable, text);
      std::exit(1);
    }
    if (value < 0 || value >= count) break;
    if (std::find(visible.begin(), visible.end(), value) != visible.end()) {
      std::fprintf(stderr, "gfx950 emulator: %s=%s: device %ld is listed twice\n", variable, text, value);
      std::exit(1);
    }
    visible.push_back(static_cast<int>(value));
    rest = *end ? end + 1 : end;
  }
  return visible;
}

// ROCR_VISIBLE_DEVICES hides devices from HIP; of those left, HIP_VISIBLE_DEVICES or else CUDA_VISIBLE_DEVICES selects.
std::vector<int> parse_visible_devices() {
  std::vector<int> devices(static_cast<size_t>(parse_device_count()));
  std::iota(devices.begin(), devices.end(), 0);
  const char* of_hip = std::getenv("HIP_VISIBLE_DEVICES") ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
  for (const char* variable : {"ROCR_VISIBLE_DEVICES", of_hip}) {
    const char* text = std::getenv(variable);
    if (!text) continue;
    std::vector<int> selected;
    for (int index : parse_visible(variable, text, static_cast<int>(devices.size()))) {
      selected.push_back(devices[static_cast<size_t>(index)]);
    }
    devices = std::move(selected);
  }
  return devices;
}

const std::vector<int>& visible_devices() {
  static const std::vector<int> devices = parse_visible_devices();
  return devices;
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
  // The upper bound also keeps the conversion below within range.
  if (errno || *end || !(value >= 1 && value <= static_cast<double>(kTotalMemory))) {
    std::fprintf(
        stderr,
        "gfx950 emulator: GFX950_MEMORY_LIMIT=%s: expected bytes, or a number with K, M, G or T (powers of 1024), "
        "from 1 to 288G\n",
        text);
    std::exit(1);
  }
  return static_cast<uint64_t>(value);
}

hipError_t check_device(int device) {
  if (device >= 0 && device < device_count()) return hipSuccess;
  return fail(hipErrorInvalidDevice, "device " + std::to_string(device) + " does not exist: the emulator has " +
                                         std::to_string(device_count()) +
                                         " (GFX950_DEVICES, HIP_VISIBLE_DEVICES, CUDA_VISIBLE_DEVICES)");
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

int device_count() { return static_cast<int>(visible_devices().size()); }

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
  (void)memory_limit();  // these two end the process, with the reason
  (void)device_count();
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
hipError_t hipDeviceSynchronize() {
  if (hipError_t error = check_wait("hipDeviceSynchronize", nullptr)) return error;
  return deferred_error();
}

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
  const int physical = visible_devices()[static_cast<size_t>(device)];
  std::snprintf(p.uuid, sizeof(p.uuid), "gfx950-emu-%d", physical);
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
  p.pciBusID = physical + 1;
  *properties = p;
  return hipSuccess;
}

}  // extern "C"
