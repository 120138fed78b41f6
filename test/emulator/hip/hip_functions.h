// Declarations of the implemented entry points, with HIP's signatures. entry_points.inc is the list of their names.
#pragma once

#include "hip_abi.h"

extern "C" {

hipError_t hipInit(unsigned flags);
hipError_t hipDriverGetVersion(int* version);
hipError_t hipRuntimeGetVersion(int* version);
hipError_t hipGetProcAddress(const char* symbol, void** pfn, int hip_version, uint64_t flags,
                             hipDriverProcAddressQueryResult* status);

const char* hipGetErrorName(hipError_t error);
const char* hipGetErrorString(hipError_t error);
hipError_t hipGetLastError();
hipError_t hipPeekAtLastError();

hipError_t hipGetDeviceCount(int* count);
hipError_t hipGetDevice(int* device);
hipError_t hipSetDevice(int device);
hipError_t hipDeviceSynchronize();
hipError_t hipDeviceGetName(char* name, int length, hipDevice_t device);
hipError_t hipDeviceGetAttribute(int* value, int attribute, int device);
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* properties, int device);

hipError_t hipMalloc(void** pointer, size_t size);
hipError_t hipFree(void* pointer);
hipError_t hipHostMalloc(void** pointer, size_t size, unsigned flags);
hipError_t hipHostFree(void* pointer);
hipError_t hipHostRegister(void* pointer, size_t size, unsigned flags);
hipError_t hipHostUnregister(void* pointer);
hipError_t hipHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned flags);
hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total_bytes);
hipError_t hipMemcpy(void* destination, const void* source, size_t size, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void* destination, const void* source, size_t size, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemset(void* destination, int value, size_t size);
hipError_t hipMemsetAsync(void* destination, int value, size_t size, hipStream_t stream);
hipError_t hipMemsetD16Async(hipDeviceptr_t destination, unsigned short value, size_t count, hipStream_t stream);
hipError_t hipMemsetD32Async(hipDeviceptr_t destination, int value, size_t count, hipStream_t stream);
hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute attribute, hipDeviceptr_t pointer);
hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* pointer);

hipError_t hipModuleLoadData(hipModule_t* module, const void* image);
hipError_t hipModuleLoadDataEx(hipModule_t* module, const void* image, unsigned option_count, hipJitOption* options,
                               void** values);
hipError_t hipModuleUnload(hipModule_t module);
hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name);
hipError_t hipModuleGetGlobal(hipDeviceptr_t* pointer, size_t* size, hipModule_t module, const char* name);
hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute attribute, hipFunction_t function);
hipError_t hipFuncSetAttribute(const void* function, hipFunction_attribute attribute, int value);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_lds,
                                 hipStream_t stream, void** parameters, void** extra);
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_lds,
                                            hipStream_t stream, void** parameters, void** extra);
hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG* config, hipFunction_t function, void** parameters,
                                void** extra);

hipError_t hipStreamCreate(hipStream_t* stream);
hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags);
hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int priority);
hipError_t hipStreamGetPriority(hipStream_t stream, int* priority);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags);
hipError_t hipEventCreate(hipEvent_t* event);
hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop);

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph);
hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status);
hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus* status, unsigned long long* id);
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode);
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* count);
hipError_t hipGraphDebugDotPrint(hipGraph_t graph, const char* path, unsigned flags);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t* error_node, char* log,
                               size_t log_size);
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t graph, unsigned long long flags);
hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream);
hipError_t hipGraphExecDestroy(hipGraphExec_t exec);

}  // extern "C"
