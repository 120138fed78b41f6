// Capture of operators into a graph. Kernels of compiled code are recorded by the HIP runtime; operators run on the
// host, so each is recorded as a call that is made again at every replay.
//
// While it is recorded an operator runs once, for the shapes and the memory of its results: what it writes is put back,
// it draws no random numbers that count, and the clock stands still.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

namespace gfx950::torch_device {

using BoxedKernel = void (*)(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*);

// Whether the current stream of a device records. Cheap while nothing does.
bool capturing(c10::DeviceIndex device);
bool anything_captures();
// The id of the capture that a stream records for, 0 if it does not.
uint64_t capture_id(int64_t stream);
// Whether this thread replays a graph: what it allocates is not part of the graph.
bool replaying();
// Whether what this thread allocates is for a capture.
bool recording_shapes(int64_t stream);
uint64_t thread_id();

// Makes a call that the current stream of `device` records.
void record_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack, BoxedKernel kernel,
                 c10::DeviceIndex device);

// The device of the first device tensor among a call's arguments, the current device if there is none.
c10::DeviceIndex device_of_call(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

// Raises the error of a call that is not permitted while the current stream records, and breaks the capture.
void refuse_in_capture(c10::DeviceIndex device, const char* what);

// A kernel with ordinary arguments, registered so that a capture records its calls.
template <auto* function>
void call_or_record(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (anything_captures()) {
    const c10::DeviceIndex device = device_of_call(op, *stack);
    if (capturing(device)) {
      record_call(op, keys, stack, &call_or_record<function>, device);
      return;
    }
  }
  using Functor = typename c10::impl::WrapFunctionIntoFunctor<
      c10::CompileTimeFunctionPointer<std::remove_pointer_t<decltype(function)>, function>>::type;
  Functor functor;
  c10::impl::make_boxed_from_unboxed_functor<Functor, true>::call(&functor, op, keys, stack);
}

template <auto* function>
torch::CppFunction recorded() {
  return torch::CppFunction::makeFromBoxedFunction<&call_or_record<function>>();
}

// For Graph: runs an executable graph in the current stream of `device`, and which generators of their own the calls of
// a capture may draw from.
void replay_executable(void* executable, c10::DeviceIndex device);
void allow_generator(uint64_t capture, const at::Generator& generator);
void forget_generators(uint64_t capture);

}  // namespace gfx950::torch_device
