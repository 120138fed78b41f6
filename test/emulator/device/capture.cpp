#include "capture.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/copy_ops.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "alias.h"
#include "device_memory.h"
#include "generator.h"
#include "gfx950_hip.h"
#include "hip_functions.h"
#include "streams.h"

namespace gfx950::torch_device {
namespace {

thread_local bool dry_run = false;
thread_local bool in_replay = false;

class SetFlag {
 public:
  explicit SetFlag(bool* flag) : flag_(flag), before_(*flag) { *flag = true; }
  ~SetFlag() { *flag_ = before_; }
  SetFlag(const SetFlag&) = delete;
  SetFlag& operator=(const SetFlag&) = delete;

 private:
  bool* flag_;
  bool before_;
};

class ClockHeld {
 public:
  ClockHeld() { gfx950_hold_clock(1); }
  ~ClockHeld() { gfx950_hold_clock(0); }
};

template <typename Function>
void each_tensor(const c10::IValue& value, Function function) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) function(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList().vec()) {
      if (tensor.defined()) function(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList().vec()) {
      if (tensor && tensor->defined()) function(*tensor);
    }
  }
}

// Operators that update running statistics which their schema calls inputs.
bool writes_to_inputs(const std::string& name) { return name.find("batch_norm") != std::string::npos; }

// The bytes of what a call writes, to be put back.
class Backup {
 public:
  void keep(const at::Tensor& tensor) {
    if (!tensor.is_cuda() || !tensor.has_storage()) return;
    c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    if (!storage->data() || !known_.insert(storage).second) return;
    const auto* bytes = static_cast<const char*>(storage->data());
    kept_.push_back({tensor.storage(), storage->data(), std::vector<char>(bytes, bytes + storage->nbytes())});
  }
  void put_back() const {
    for (const Kept& kept : kept_) {
      c10::StorageImpl* storage = kept.storage.unsafeGetStorageImpl();
      if (storage->data() != kept.data) continue;  // an out argument that got new memory, which held nothing before
      std::memcpy(storage->mutable_data(), kept.bytes.data(), std::min(kept.bytes.size(), storage->nbytes()));
    }
  }

 private:
  struct Kept {
    c10::Storage storage;
    const void* data;
    std::vector<char> bytes;
  };
  std::vector<Kept> kept_;
  std::unordered_set<c10::StorageImpl*> known_;
};

// Tensors that a graph holds: over the same bytes as those of the call, which they do not keep alive. A graph on
// hardware holds addresses, too.
class Addresses {
 public:
  at::Tensor hold(const at::Tensor& tensor) {
    if (!tensor.is_cuda() || !tensor.has_storage()) return tensor;
    for (const auto& [given, held] : tensors_) {
      if (given.is_same(tensor)) return held;
    }
    c10::DispatchKeySet keys(c10::DispatchKey::CUDA);
    if (tensor._is_zerotensor()) keys = keys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
    auto impl = c10::make_intrusive<c10::TensorImpl>(storage(tensor.storage()), keys, tensor.dtype());
    impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    impl->_set_conj(tensor.is_conj());
    impl->_set_neg(tensor.is_neg());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
    tensors_.emplace_back(tensor, at::Tensor(std::move(impl)));
    return tensors_.back().second;
  }
  c10::IValue hold(const c10::IValue& value) {
    if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(hold(value.toTensor())) : value;
    if (value.isTensorList()) {
      c10::List<at::Tensor> held;
      for (const at::Tensor& tensor : value.toTensorList().vec()) held.push_back(hold(tensor));
      return held;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> held;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList().vec()) {
        held.push_back(tensor && tensor->defined() ? std::optional<at::Tensor>(hold(*tensor)) : tensor);
      }
      return held;
    }
    return value;
  }
  bool holds(const c10::Storage& given) const {
    for (const auto& pair : storages_) {
      if (pair.first.is_alias_of(given)) return true;
    }
    return false;
  }
  std::vector<c10::Storage> held() const {
    std::vector<c10::Storage> result;
    for (const auto& pair : storages_) result.push_back(pair.second);
    return result;
  }

 private:
  c10::Storage storage(const c10::Storage& given) {
    for (const auto& [known, held] : storages_) {
      if (known.is_alias_of(given)) return held;
    }
    c10::StorageImpl* impl = given.unsafeGetStorageImpl();
    c10::Storage held(c10::Storage::use_byte_size_t(), impl->nbytes(),
                      c10::DataPtr(const_cast<void*>(impl->data()), impl->device()), &device_allocator(), false);
    storages_.emplace_back(given, held);
    return held;
  }
  std::vector<std::pair<c10::Storage, c10::Storage>> storages_;
  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;
};

struct RecordedCall {
  RecordedCall(const c10::OperatorHandle& handle, c10::DispatchKeySet key_set, BoxedKernel boxed)
      : op(handle), keys(key_set), kernel(boxed) {}
  c10::OperatorHandle op;
  c10::DispatchKeySet keys;
  BoxedKernel kernel;
  torch::jit::Stack arguments;
  std::vector<at::Tensor> results;  // in the order of the returned tensors; undefined: nothing to bring back
  std::vector<c10::Storage> storages;
};

void bring_back(const at::Tensor& result, const at::Tensor& recorded, const c10::OperatorName& name) {
  TORCH_CHECK(result.sizes() == recorded.sizes(), "graph: ", name, " has a result of ", result.sizes(),
              " in a replay, and had one of ", recorded.sizes(), " when it was captured");
  if (result.numel() == 0) return;
  Aliases aliases(recorded.device().index());
  at::Tensor from = aliases.to_cpu(result), to = aliases.to_cpu(recorded);
  if (from.strides() == to.strides() && from.is_non_overlapping_and_dense()) {
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), static_cast<size_t>(from.numel()) * from.itemsize());
  } else {
    at::_ops::copy_::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), to, from, false);
  }
}

void run_call(const RecordedCall& call) {
  for (const c10::Storage& storage : call.storages) {
    if (storage.nbytes() == 0 || gfx950_is_live(storage.data(), storage.nbytes())) continue;
    raise_hip_error(hipErrorIllegalAddress, "graph: " + toString(call.op.operator_name()) +
                                                " works on memory that was freed after the capture");
  }
  torch::jit::Stack stack = call.arguments;
  call.kernel(call.op, call.keys, &stack);
  size_t index = 0;
  for (const c10::IValue& value : stack) {
    each_tensor(value, [&](const at::Tensor& tensor) {
      const at::Tensor& recorded = call.results.at(index++);
      if (recorded.defined()) bring_back(tensor, recorded, call.op.operator_name());
    });
  }
}

// An exception cannot pass through the HIP runtime, which is C.
thread_local std::exception_ptr replay_exception;

int run_node(void* context) {
  try {
    run_call(*static_cast<RecordedCall*>(context));
    return hipSuccess;
  } catch (...) {
    replay_exception = std::current_exception();
    return hipErrorUnknown;
  }
}

void release_node(void* context) { delete static_cast<RecordedCall*>(context); }

hipStream_t stream_of(c10::DeviceIndex device) { return reinterpret_cast<hipStream_t>(current_stream(device).id()); }

void check(int code) {
  if (code != hipSuccess) raise_hip_error(code, gfx950_last_error());
}

std::mutex allowed_mutex;
std::unordered_map<uint64_t, std::unordered_set<const c10::GeneratorImpl*>> allowed_generators;

// A replay moves the generators on that the graph was told of, and no others.
void check_generators_registered(const torch::jit::Stack& arguments, uint64_t capture) {
  for (const c10::IValue& value : arguments) {
    if (!value.isGenerator() || !value.toGenerator().defined()) continue;
    const at::Generator generator = value.toGenerator();
    if (!generator.device().is_cuda() || generator == default_generator(generator.device().index())) continue;
    std::lock_guard<std::mutex> lock(allowed_mutex);
    TORCH_CHECK(allowed_generators[capture].count(generator.unsafeGetGeneratorImpl()),
                "Attempt to increase offset for a CUDA generator not in capture mode.");
  }
}

// Every generator of the device draws as if nothing had happened after a dry run.
class GeneratorsKept {
 public:
  GeneratorsKept(const torch::jit::Stack& arguments, c10::DeviceIndex device) {
    keep(default_generator(device));
    for (const c10::IValue& value : arguments) {
      if (value.isGenerator() && value.toGenerator().defined()) keep(value.toGenerator());
    }
  }
  ~GeneratorsKept() {
    for (auto& [generator, state] : kept_) generator->restore(state);
  }

 private:
  void keep(const at::Generator& generator) {
    if (!generator.device().is_cuda()) return;
    auto* of_device = at::check_generator<GeneratorOfDevice>(generator);
    kept_.emplace_back(of_device, of_device->snapshot());
  }
  std::vector<std::pair<GeneratorOfDevice*, GeneratorOfDevice::Snapshot>> kept_;
};

}  // namespace

bool anything_captures() { return gfx950_captures_underway() != 0 && !dry_run && !in_replay; }

uint64_t thread_id() {
  thread_local const char mark = 0;
  return reinterpret_cast<uint64_t>(&mark);
}

uint64_t capture_id(int64_t stream) {
  if (gfx950_captures_underway() == 0) return 0;
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  unsigned long long id = 0;
  check(hipStreamGetCaptureInfo(reinterpret_cast<hipStream_t>(stream), &status, &id));
  return status == hipStreamCaptureStatusNone ? 0 : id;
}

bool capturing(c10::DeviceIndex device) { return anything_captures() && capture_id(current_stream(device).id()) != 0; }
bool replaying() { return in_replay; }
bool recording_shapes(int64_t stream) { return dry_run || (!in_replay && capture_id(stream) != 0); }

c10::DeviceIndex device_of_call(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  c10::DeviceIndex device = -1;
  for (size_t i = stack.size() - op.schema().arguments().size(); i < stack.size() && device < 0; ++i) {
    each_tensor(stack[i], [&](const at::Tensor& tensor) {
      if (device < 0 && tensor.is_cuda()) device = tensor.device().index();
    });
  }
  return device < 0 ? current_device() : device;
}

void refuse_in_capture(c10::DeviceIndex device, const char* what) {
  if (capturing(device)) check(gfx950_refuse_in_capture(stream_of(device), what));
}

void record_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack, BoxedKernel kernel,
                 c10::DeviceIndex device) {
  const c10::FunctionSchema& schema = op.schema();
  // These read the device from the host, for a value or for a shape.
  if (op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape)) {
    refuse_in_capture(device, schema.name().c_str());
  }
  const size_t count = schema.arguments().size(), begin = stack->size() - count;
  const torch::jit::Stack given(stack->begin() + static_cast<std::ptrdiff_t>(begin), stack->end());
  check_generators_registered(given, capture_id(current_stream(device).id()));

  Backup backup;
  const bool all = writes_to_inputs(schema.name());
  for (size_t i = 0; i < count; ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (all || (alias && alias->isWrite())) {
      each_tensor(given[i], [&](const at::Tensor& tensor) { backup.keep(tensor); });
    }
  }
  {
    const GeneratorsKept generators(given, device);
    const SetFlag flag(&dry_run);
    const ClockHeld held;
    kernel(op, keys, stack);
  }
  backup.put_back();

  auto call = std::make_unique<RecordedCall>(op, keys, kernel);
  Addresses addresses;
  for (const c10::IValue& value : given) call->arguments.push_back(addresses.hold(value));
  std::vector<at::Tensor> results;
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i) {
    each_tensor((*stack)[i], [&](const at::Tensor& tensor) {
      const bool fresh = tensor.has_storage() && !addresses.holds(tensor.storage());
      results.push_back(fresh ? tensor : at::Tensor());
    });
  }
  // After all are looked at: two results may share a storage.
  for (const at::Tensor& tensor : results) {
    call->results.push_back(tensor.defined() ? addresses.hold(tensor) : tensor);
  }
  call->storages = addresses.held();
  check(gfx950_capture_host_node(stream_of(device), schema.name().c_str(), &run_node, &release_node, call.release()));
}

void replay_executable(void* executable, c10::DeviceIndex device) {
  raise_pending_error();
  const hipStream_t stream = stream_of(device);
  replay_exception = nullptr;
  hipError_t code = hipSuccess;
  {
    const SetFlag flag(&in_replay);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    code = hipGraphLaunch(static_cast<hipGraphExec_t>(executable), stream);
  }
  if (replay_exception) std::rethrow_exception(std::exchange(replay_exception, nullptr));
  check(code);
}

void allow_generator(uint64_t capture, const at::Generator& generator) {
  std::lock_guard<std::mutex> lock(allowed_mutex);
  allowed_generators[capture].insert(generator.unsafeGetGeneratorImpl());
}

void forget_generators(uint64_t capture) {
  std::lock_guard<std::mutex> lock(allowed_mutex);
  allowed_generators.erase(capture);
}

}  // namespace gfx950::torch_device
