// Modules, their kernels, and launches.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "gfx950_hip.h"
#include "hostcall.h"
#include "runtime.h"

struct ihipModuleSymbol_t {
  ihipModule_t* module;
  const gfx950::Kernel* kernel;
  std::string name;
};

struct ihipModule_t {
  std::shared_ptr<gfx950::CodeObject> object;
  std::map<std::string, std::unique_ptr<ihipModuleSymbol_t>> functions;
};

namespace gfx950::hip {
namespace {

LiveHandles modules, functions;
std::mutex core_mutex;  // the core is not thread-safe
RunOptions::Timing timing = RunOptions::Timing::also;

bool hidden(const KernelArgument& argument) { return argument.value_kind.rfind("hidden_", 0) == 0; }
bool asks_for_host(const KernelArgument& argument) { return argument.value_kind == "hidden_hostcall_buffer"; }

// Lays the caller's arguments out as the kernel's metadata says. Hidden ones stay zero: the core fills them in.
hipError_t pack_arguments(const ihipModuleSymbol_t& function, void** parameters, void** extra,
                          std::vector<uint8_t>* kernarg) {
  const KernelInfo& info = gfx950::info(*function.kernel);
  if (parameters && extra) {
    return fail_pending(hipErrorInvalidValue, function.name + ": both kernelParams and extra are given");
  }
  if (extra) {
    const void* buffer = nullptr;
    const size_t* size = nullptr;
    for (size_t i = 0; extra[i] != HIP_LAUNCH_PARAM_END; i += 2) {
      if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_POINTER) {
        buffer = extra[i + 1];
      } else if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_SIZE) {
        size = static_cast<const size_t*>(extra[i + 1]);
      } else {
        return fail_pending(hipErrorInvalidValue, function.name + ": unknown key in extra");
      }
    }
    if (!buffer || !size) return fail_pending(hipErrorInvalidValue, function.name + ": extra has no buffer or no size");
    const auto* bytes = static_cast<const uint8_t*>(buffer);
    kernarg->assign(bytes, bytes + *size);
    return hipSuccess;
  }
  kernarg->assign(info.kernarg_size, 0);
  size_t index = 0;
  for (const KernelArgument& argument : info.arguments) {
    if (hidden(argument)) continue;
    if (!parameters || !parameters[index]) {
      return fail_pending(hipErrorInvalidValue, function.name + ": argument " + std::to_string(index) + " is missing");
    }
    if (static_cast<size_t>(argument.offset) + argument.size > kernarg->size()) {
      return fail_pending(hipErrorInvalidImage,
                          function.name + ": argument " + std::to_string(index) + " lies outside the kernarg segment");
    }
    std::memcpy(kernarg->data() + argument.offset, parameters[index], argument.size);
    ++index;
  }
  return hipSuccess;
}

std::atomic<void* (*)(const char*)> range_begin{nullptr};
std::atomic<void (*)(void*)> range_end{nullptr};

class ObservedKernel {
 public:
  explicit ObservedKernel(const std::string& name) {
    if (const auto begin = range_begin.load()) range_ = begin(name.c_str());
  }
  ~ObservedKernel() {
    const auto end = range_end.load();
    if (range_ && end) end(range_);
  }
  ObservedKernel(const ObservedKernel&) = delete;
  ObservedKernel& operator=(const ObservedKernel&) = delete;

 private:
  void* range_ = nullptr;
};

// Runs a kernel to its end. `function` may come from a graph, which holds no module alive.
hipError_t run_kernel(hipFunction_t function, Dim3 grid, Dim3 block, unsigned dynamic_lds,
                      const std::vector<uint8_t>& kernarg) {
  if (!functions.contains(function)) {
    return fail_pending(hipErrorInvalidHandle, "graph: the module of a kernel that it launches was unloaded");
  }
  Launch request;
  request.kernel = function->kernel;
  request.grid = grid;
  request.block = block;
  request.dynamic_lds = dynamic_lds;
  request.kernarg = kernarg.data();
  request.kernarg_size = kernarg.size();
  std::lock_guard<std::mutex> lock(core_mutex);
  try {
    std::optional<Hostcall> hostcall;
    const auto& arguments = gfx950::info(*function->kernel).arguments;
    if (std::any_of(arguments.begin(), arguments.end(), asks_for_host)) request.host = &hostcall.emplace().service();
    const ObservedKernel observed(function->name);
    RunOptions options = RunOptions::from_environment();
    options.timing = timing;
    const LaunchResult result = gfx950::launch(request, options);
    advance_clock(result.nanoseconds);
    count_launch(function->name, result);
    return hipSuccess;
  } catch (const Error& error) {
    // As on hardware: a launch that cannot be enqueued says so at once, one that fails while it runs says so later.
    const bool later = error.kind() != ErrorKind::invalid_launch;
    const hipError_t code =
        fail_pending(code_of(error.kind()), "kernel " + function->name + ": " + error.what(), later);
    return later ? hipSuccess : code;
  } catch (const std::bad_alloc&) {
    return fail_pending(hipErrorOutOfMemory, "kernel " + function->name + ": the host has no memory left");
  }
}

hipError_t launch_function(hipFunction_t function, Dim3 grid, Dim3 block, unsigned dynamic_lds, hipStream_t stream,
                           void** parameters, void** extra) {
  if (!functions.contains(function)) return fail_pending(hipErrorInvalidHandle, "launch: not a live kernel function");
  if (!valid_stream(stream)) return fail_pending(hipErrorInvalidHandle, function->name + ": not a live stream");
  std::vector<uint8_t> kernarg;
  if (hipError_t error = pack_arguments(*function, parameters, extra, &kernarg)) return error;
  hipError_t code = hipSuccess;
  const auto make_node = [&] {
    return GraphNode{function->name, [=] { return run_kernel(function, grid, block, dynamic_lds, kernarg); }};
  };
  if (record(stream, &code, make_node)) return code;
  return run_kernel(function, grid, block, dynamic_lds, kernarg);
}

}  // namespace
}  // namespace gfx950::hip

using namespace gfx950;
using namespace gfx950::hip;

extern "C" {

int gfx950_set_timing(int mode) {
  if (mode < 0 || mode > 2) return -1;
  std::lock_guard<std::mutex> lock(core_mutex);
  const int before = static_cast<int>(timing);
  timing = static_cast<RunOptions::Timing>(mode);
  return before;
}

size_t gfx950_timing_parameters(char* buffer, size_t size) {
  try {
    const std::string text = timing_parameters_json();
    if (buffer && size > text.size()) std::memcpy(buffer, text.c_str(), text.size() + 1);
    return text.size() + 1;
  } catch (const Error& error) {
    fail(hipErrorInvalidValue, error.what());
    return 0;
  }
}

void gfx950_observe_kernels(void* (*begin)(const char*), void (*end)(void*)) {
  range_begin = begin;
  range_end = end;
}

hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  if (!module || !image) return fail_pending(hipErrorInvalidValue, "hipModuleLoadData: null pointer");
  *module = nullptr;
  std::lock_guard<std::mutex> lock(core_mutex);
  try {
    auto loaded = std::make_unique<ihipModule_t>();
    loaded->object = CodeObject::load(image, CodeObject::image_size(image));
    *module = loaded.release();
    modules.add(*module);
    return hipSuccess;
  } catch (const Error& error) {
    return fail_pending(code_of(error.kind()), std::string("hipModuleLoadData: ") + error.what());
  } catch (const std::bad_alloc&) {
    return fail_pending(hipErrorOutOfMemory,
                        "hipModuleLoadData: the host has no memory for what the image asks to load");
  }
}

// The options of the JIT concern compilation from source; a code object needs none.
hipError_t hipModuleLoadDataEx(hipModule_t* module, const void* image, unsigned, hipJitOption*, void**) {
  return hipModuleLoadData(module, image);
}

hipError_t hipModuleUnload(hipModule_t module) {
  if (!modules.remove(module)) return fail(hipErrorInvalidHandle, "hipModuleUnload: not a live module");
  for (const auto& entry : module->functions) functions.remove(entry.second.get());
  std::lock_guard<std::mutex> lock(core_mutex);
  delete module;
  return hipSuccess;
}

hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  if (!function || !name) return fail_pending(hipErrorInvalidValue, "hipModuleGetFunction: null pointer");
  *function = nullptr;
  if (!modules.contains(module)) return fail_pending(hipErrorInvalidHandle, "hipModuleGetFunction: not a live module");
  std::lock_guard<std::mutex> lock(core_mutex);
  const auto known = module->functions.find(name);
  if (known != module->functions.end()) {
    *function = known->second.get();
    return hipSuccess;
  }
  const Kernel* kernel = module->object->find(name);
  if (!kernel) {
    std::string present;
    for (const KernelInfo& info : module->object->kernels()) present += (present.empty() ? "" : ", ") + info.name;
    return fail_pending(hipErrorNotFound, std::string("hipModuleGetFunction: no kernel ") + name +
                                              " in the module, which has: " + (present.empty() ? "none" : present));
  }
  auto symbol = std::make_unique<ihipModuleSymbol_t>(ihipModuleSymbol_t{module, kernel, name});
  *function = symbol.get();
  functions.add(symbol.get());
  module->functions.emplace(name, std::move(symbol));
  return hipSuccess;
}

hipError_t hipModuleGetGlobal(hipDeviceptr_t* pointer, size_t* size, hipModule_t module, const char* name) {
  if (!name) return fail(hipErrorInvalidValue, "hipModuleGetGlobal: null pointer");
  if (!modules.contains(module)) return fail(hipErrorInvalidHandle, "hipModuleGetGlobal: not a live module");
  const auto symbol = module->object->global(name);
  if (!symbol) return fail(hipErrorNotFound, std::string("hipModuleGetGlobal: no symbol ") + name);
  if (pointer) *pointer = symbol->address;
  if (size) *size = symbol->size;
  return hipSuccess;
}

hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute attribute, hipFunction_t function) {
  if (!value) return fail(hipErrorInvalidValue, "hipFuncGetAttribute: null pointer");
  if (!functions.contains(function)) return fail(hipErrorInvalidHandle, "hipFuncGetAttribute: not a live function");
  const KernelInfo& info = gfx950::info(*function->kernel);
  switch (attribute) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = info.max_flat_workgroup_size ? static_cast<int>(info.max_flat_workgroup_size) : kMaxThreadsPerBlock;
      return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(info.group_segment_size);
      return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = 0;
      return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(info.private_segment_size);
      return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS:
      *value = static_cast<int>(info.vgpr_count);
      return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = kLdsBytes - static_cast<int>(info.group_segment_size);
      return hipSuccess;
  }
  return fail(hipErrorNotSupported, "hipFuncGetAttribute: attribute " + std::to_string(attribute) +
                                        " is not modelled; add it in hip/module.cpp");
}

hipError_t hipFuncSetAttribute(const void* function, hipFunction_attribute attribute, int value) {
  if (!functions.contains(function)) return fail(hipErrorInvalidHandle, "hipFuncSetAttribute: not a live function");
  if (attribute != HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    return fail(hipErrorNotSupported,
                "hipFuncSetAttribute: attribute " + std::to_string(attribute) + " is not modelled");
  }
  if (value >= 0 && value <= kLdsBytes) return hipSuccess;  // every launch may use the whole LDS already
  return fail(hipErrorInvalidValue, "hipFuncSetAttribute: " + std::to_string(value) + " bytes of LDS asked for, " +
                                        std::to_string(kLdsBytes) + " exist");
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_lds,
                                 hipStream_t stream, void** parameters, void** extra) {
  return launch_function(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_lds, stream,
                         parameters, extra);
}

// A grid barrier either works under the core's schedule or runs into its time-out, which says so.
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_lds,
                                            hipStream_t stream, void** parameters, void** extra) {
  return launch_function(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_lds, stream,
                         parameters, extra);
}

hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG* config, hipFunction_t function, void** parameters,
                                void** extra) {
  if (!config) return fail_pending(hipErrorInvalidValue, "hipDrvLaunchKernelEx: null pointer");
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != hipLaunchAttributeCooperative) {
      return fail_pending(hipErrorNotSupported, "hipDrvLaunchKernelEx: launch attribute " +
                                                    std::to_string(config->attrs[i].id) +
                                                    " (4 is a cluster, which gfx950 does not have)");
    }
  }
  return launch_function(function, {config->gridDimX, config->gridDimY, config->gridDimZ},
                         {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes,
                         config->hStream, parameters, extra);
}

}  // extern "C"
