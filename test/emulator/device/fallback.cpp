#include "fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <unordered_map>
#include <unordered_set>

#include "alias.h"
#include "capture.h"
#include "cost.h"
#include "device_memory.h"
#include "generator.h"
#include "hip_functions.h"
#include "streams.h"
#include "sync_debug.h"

namespace gfx950::torch_device {
namespace {

// Operators that take CPU tensors beside device tensors on hardware too.
bool accepts_cpu_tensors(const std::string& name) {
  static const auto* names = new std::unordered_set<std::string>{"aten::copy_",
                                                                 "aten::index",
                                                                 "aten::index_put",
                                                                 "aten::index_put_",
                                                                 "aten::_index_put_impl_",
                                                                 "aten::_unsafe_index",
                                                                 "aten::_unsafe_index_put",
                                                                 "aten::_copy_from",
                                                                 "aten::_foreach_copy_",
                                                                 "aten::set_",
                                                                 "aten::_copy_from_and_resize",
                                                                 "aten::_unsafe_masked_index",
                                                                 "aten::_nested_from_padded",
                                                                 "aten::_nested_view_from_buffer",
                                                                 "aten::_nested_view_from_buffer_copy"};
  return names->count(name) > 0;
}

// Operators that index a tensor with tensors: self, indices, and values if they write.
bool indexes(const std::string& name) {
  static const auto* names =
      new std::unordered_set<std::string>{"aten::index",      "aten::_unsafe_index",    "aten::index_put",
                                          "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index_put"};
  return names->count(name) > 0;
}

// Operators whose kernels on hardware assert that the indices in a tensor are within range.
bool takes_indices(const std::string& name) {
  for (const char* part : {"index", "gather", "scatter", "embedding", "nll_loss", "margin_loss", "take", "put_"}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

// What a kernel says of a value in a tensor, and not what ATen says of a dimension before any kernel runs.
bool is_bad_index(const c10::Error& error) {
  const std::string& text = error.msg();
  if (text.rfind("Dimension out of range", 0) == 0) return false;
  return text.find("out of bounds") != std::string::npos || text.find("out of range") != std::string::npos;
}

// What does not change from call to call of an operator.
struct OperatorTraits {
  explicit OperatorTraits(const c10::OperatorHandle& op)
      : name(op.operator_name()),
        cost(cost_class(op)),
        may_mix(accepts_cpu_tensors(name.name)),
        reads_back(op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape)),
        random(op.hasTag(at::Tag::nondeterministic_seeded)),
        indexed(takes_indices(name.name)),
        indexes_by_tensors(indexes(name.name)) {}
  c10::OperatorName name;
  CostClass cost;
  bool may_mix;
  bool reads_back;  // the host waits for a value or for a shape
  bool random;
  bool indexed;
  bool indexes_by_tensors;
};

const OperatorTraits& traits_of(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<const c10::FunctionSchema*, OperatorTraits> known;
  const auto found = known.find(&op.schema());
  // A library that was unloaded may leave its address to another operator.
  if (found != known.end() && found->second.name == op.operator_name()) return found->second;
  return known.insert_or_assign(&op.schema(), OperatorTraits(op)).first->second;
}

// The device of a call, and a check that its tensors agree on one.
class DeviceOfCall {
 public:
  DeviceOfCall(const c10::OperatorHandle& op, const OperatorTraits& traits) : op_(op), traits_(traits) {}

  void see(const at::Tensor& tensor, size_t argument) {
    if (!tensor.defined()) return;
    const c10::Device device = tensor.device();
    if (device.is_cuda()) {
      if (index_ < 0) index_ = device.index();
      if (!traits_.may_mix && device.index() != index_) refuse(device, argument);
    } else if (device.is_cpu() && tensor.dim() > 0 && cpu_argument_ < 0) {
      cpu_argument_ = static_cast<int64_t>(argument);
    }
  }
  void see(c10::Device device) {
    if (device.is_cuda() && index_ < 0) index_ = device.has_index() ? device.index() : current_device();
  }
  c10::DeviceIndex resolve() const {
    if (!traits_.may_mix && cpu_argument_ >= 0 && index_ >= 0) {
      refuse(c10::Device(c10::DeviceType::CPU), static_cast<size_t>(cpu_argument_));
    }
    return index_ < 0 ? current_device() : index_;
  }

 private:
  // In the words of the checks that PyTorch generates for its CUDA kernels.
  [[noreturn]] void refuse(c10::Device other, size_t argument) const {
    const std::string name = op_.schema().name().substr(op_.schema().name().find("::") + 2);
    const std::string& overload = op_.schema().overload_name();
    const bool structured = op_.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
    const std::string method = structured ? name + (overload.empty() ? "" : "_" + overload) : overload + "_" + name;
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, cuda:",
                static_cast<int>(index_), " and ", other, "! (when checking argument for argument ",
                op_.schema().arguments()[argument].name(), " in method wrapper_CUDA_", method, ")");
  }

  const c10::OperatorHandle& op_;
  const OperatorTraits& traits_;
  int64_t cpu_argument_ = -1;
  c10::DeviceIndex index_ = -1;
};

// Indices may come from the host, values only as a single number; in the words of ATen's kernels.
void check_indexing(const c10::FunctionSchema& schema, const c10::IValue* arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  for (const std::optional<at::Tensor>& index : arguments[1].toOptionalTensorList()) {
    TORCH_CHECK(!index || !index->defined() || index->is_cpu() || index->device() == self.device(),
                "indices should be either on cpu or on the same device as the indexed tensor (", self.device(), ")");
  }
  if (schema.arguments().size() < 3 || !arguments[2].isTensor()) return;
  const at::Tensor& values = arguments[2].toTensor();
  TORCH_CHECK(values.device() == self.device() || values.dim() == 0,
              "Expected all tensors to be on the same device, but found at least two devices, ", self.device(), " and ",
              values.device(), "!");
}

// Applies `function` to every tensor of an argument or result; it may replace the tensor.
template <typename Function>
void for_each_tensor(c10::IValue* value, Function function) {
  if (value->isTensor()) {
    at::Tensor tensor = value->toTensor();
    if (tensor.defined()) *value = function(tensor);
  } else if (value->isTensorList()) {
    const c10::List<at::Tensor> list = value->toTensorList();
    c10::List<at::Tensor> replaced;
    replaced.reserve(list.size());
    for (const at::Tensor& tensor : list) replaced.push_back(tensor.defined() ? function(tensor) : tensor);
    *value = std::move(replaced);
  } else if (value->isOptionalTensorList()) {
    const c10::List<std::optional<at::Tensor>> list = value->toOptionalTensorList();
    c10::List<std::optional<at::Tensor>> replaced;
    replaced.reserve(list.size());
    for (std::optional<at::Tensor> tensor : list) {
      replaced.push_back(tensor && tensor->defined() ? std::optional<at::Tensor>(function(*tensor)) : tensor);
    }
    *value = std::move(replaced);
  }
}

// While it lives, the default CPU generator continues the device's sequence of random numbers; after it, its own.
class BorrowedCpuGenerator {
 public:
  explicit BorrowedCpuGenerator(at::Generator of_device) : cpu_(at::detail::getDefaultCPUGenerator()) {
    std::lock_guard<std::mutex> lock(cpu_.mutex());
    saved_ = cpu_.get_state();
    std::lock_guard<std::mutex> device_lock(of_device.mutex());
    cpu_.set_current_seed(at::check_generator<GeneratorOfDevice>(of_device)->next_host_seed());
  }
  ~BorrowedCpuGenerator() {
    std::lock_guard<std::mutex> lock(cpu_.mutex());
    cpu_.set_state(saved_);
  }
  BorrowedCpuGenerator(const BorrowedCpuGenerator&) = delete;
  BorrowedCpuGenerator& operator=(const BorrowedCpuGenerator&) = delete;

 private:
  at::Generator cpu_;
  at::Tensor saved_;
};

std::optional<at::Generator> generator_argument(c10::IValue* value) {
  if (!value->isGenerator()) return std::nullopt;
  at::Generator generator = value->toGenerator();
  if (generator.defined() && generator.device().is_cuda()) {
    *value = c10::IValue();  // the CPU kernel then takes the default generator, which is borrowed
    return generator;
  }
  TORCH_CHECK(!generator.defined(), "Expected a 'cuda' device type for generator but found '",
              generator.device().type(), "'");
  return std::nullopt;
}

// The CPU's key for a call of the device's.
c10::DispatchKey key_on_cpu(c10::DispatchKeySet keys) {
  switch (keys.highestPriorityTypeId()) {
    case c10::DispatchKey::SparseCUDA:
      return c10::DispatchKey::SparseCPU;
    case c10::DispatchKey::SparseCsrCUDA:
      return c10::DispatchKey::SparseCsrCPU;
    case c10::DispatchKey::NestedTensorCUDA:
      return c10::DispatchKey::NestedTensorCPU;
    default:
      return c10::DispatchKey::CPU;
  }
}

}  // namespace

void cpu_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const OperatorTraits& traits = traits_of(op);
  if (C10_UNLIKELY(anything_captures()) && traits.cost != CostClass::none) {
    const c10::DeviceIndex device = device_of_call(op, *stack);
    if (capturing(device)) {
      record_call(op, keys, stack, &cpu_fallback, device);
      return;
    }
  }
  if (traits.reads_back) warn_or_raise_on_sync();
  raise_pending_error();
  const c10::FunctionSchema& schema = op.schema();
  const c10::DispatchKey key = key_on_cpu(keys);
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.hasComputedKernelForDispatchKey(key), "Could not run '", op.operator_name(),
      "' on the emulated gfx950: ATen has no CPU kernel for it, and no kernel is registered for the 'CUDA' backend.");
  const size_t argument_count = schema.arguments().size();
  const size_t begin = stack->size() - argument_count;

  if (traits.indexes_by_tensors) check_indexing(schema, &(*stack)[begin]);

  DeviceOfCall device(op, traits);
  std::optional<at::Generator> generator;
  for (size_t i = begin; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    for_each_tensor(&value, [&](const at::Tensor& tensor) {
      device.see(tensor, i - begin);
      return tensor;
    });
    if (value.isDevice()) {
      device.see(value.toDevice());
      if (value.toDevice().is_cuda()) value = c10::Device(c10::DeviceType::CPU);
    }
    if (auto found = generator_argument(&value)) generator = found;
  }
  const c10::DeviceIndex index = device.resolve();

  Aliases aliases(index);
  std::vector<at::Tensor> inputs, outputs;
  for (size_t i = begin; i < stack->size(); ++i) {
    for_each_tensor(&(*stack)[i], [&](const at::Tensor& tensor) {
      if (!tensor.device().is_cuda()) return tensor;
      // An out argument is written, not read; it comes back among the outputs.
      if (!schema.arguments()[i - begin].is_out()) inputs.push_back(tensor);
      at::Tensor alias = aliases.to_cpu(tensor);
      // A product of sparse tensors keeps what its gradient needs only where there will be one.
      if (key != c10::DispatchKey::CPU && tensor.requires_grad()) alias.unsafeGetTensorImpl()->set_requires_grad(true);
      return alias;
    });
  }

  std::optional<BorrowedCpuGenerator> borrowed;
  if (generator || traits.random) {
    borrowed.emplace(generator ? *generator : default_generator(index));
  }
  {
    const DeviceMemoryScope scope(index);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    try {
      op.redispatchBoxed(c10::DispatchKeySet(key), stack);
    } catch (const c10::Error& error) {
      if (traits.indexed && is_bad_index(error)) raise_hip_error(hipErrorAssert, error.what_without_backtrace());
      throw;
    }
  }
  aliases.carry_back();
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i) {
    for_each_tensor(&(*stack)[i], [&](const at::Tensor& tensor) {
      at::Tensor result = tensor.device().is_cpu() ? aliases.to_device(tensor) : tensor;
      outputs.push_back(result);
      return result;
    });
  }
  // A nested tensor has no one shape; its bytes alone are charged.
  const bool product = traits.cost == CostClass::gemm && key == c10::DispatchKey::NestedTensorCPU;
  charge(product ? CostClass::memory : traits.cost, inputs, outputs);
}

namespace {

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }
TORCH_LIBRARY_IMPL(_, SparseCUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrCUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }

// Composite operators that look at the device, to choose among others or to find a kernel: they must see the CPU.
bool chooses_by_device(const std::string& name) {
  return name == "aten::convolution" || name == "aten::convolution_backward" || name == "aten::mode";
}

}  // namespace

void register_cpu_kernels() {
  using c10::DispatchKey;
  struct Route {
    DispatchKey on_cpu, on_device;
    torch::Library* library;
  };
  static const auto route = [](DispatchKey on_cpu, DispatchKey on_device) {
    return Route{on_cpu, on_device, new torch::Library(torch::Library::IMPL, "aten", on_device, __FILE__, __LINE__)};
  };
  static const Route routes[] = {route(DispatchKey::CPU, DispatchKey::CUDA),
                                 route(DispatchKey::SparseCPU, DispatchKey::SparseCUDA),
                                 route(DispatchKey::SparseCsrCPU, DispatchKey::SparseCsrCUDA),
                                 route(DispatchKey::NestedTensorCPU, DispatchKey::NestedTensorCUDA)};
  auto& dispatcher = c10::Dispatcher::singleton();
  // One pass for all of them: every `import torch` waits for it.
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema()) continue;
    const bool composite = op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) ||
                           op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
                           op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
    if (!composite) continue;
    for (const Route& to : routes) {
      const bool on_cpu =
          op->hasKernelForDispatchKey(to.on_cpu) || (to.on_device == DispatchKey::CUDA && chooses_by_device(name.name));
      if (!on_cpu || op->hasKernelForDispatchKey(to.on_device)) continue;
      to.library->impl(toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
    }
  }
}

}  // namespace gfx950::torch_device
