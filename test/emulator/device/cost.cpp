#include "cost.h"

#include <algorithm>
#include <unordered_set>

#include "cost_models.h"
#include "gfx950_hip.h"

namespace gfx950::torch_device {
namespace {

const std::unordered_set<std::string>& gemm_names() {
  static const auto* names = new std::unordered_set<std::string>{
      "aten::mm",      "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_addmm_activation",
      "aten::_int_mm", "aten::addmv", "aten::mv",  "aten::dot",     "aten::linear",
      "aten::addbmm"};
  return *names;
}

const std::unordered_set<std::string>& metadata_names() {
  static const auto* names = new std::unordered_set<std::string>{
      "aten::empty",    "aten::empty_strided", "aten::resize_", "aten::set_",       "aten::resize_as_",
      "aten::squeeze_", "aten::unsqueeze_",    "aten::t_",      "aten::transpose_", "aten::as_strided_"};
  return *names;
}

double bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return 0;
  const double dense = static_cast<double>(tensor.numel()) * static_cast<double>(tensor.itemsize());
  // An expanded tensor reads its storage, not its size.
  return tensor.has_storage() ? std::min(dense, static_cast<double>(tensor.storage().nbytes())) : dense;
}

double bytes_of(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const at::Tensor& tensor : tensors) sum += bytes_of(tensor);
  return sum;
}

// The first pair of inputs that multiplies, A [.., M, K] and B [.., K, N]; a bias comes before them.
double product_nanoseconds(const std::vector<at::Tensor>& inputs, double bytes) {
  std::vector<const at::Tensor*> matrices;
  for (const at::Tensor& tensor : inputs) {
    if (tensor.defined() && tensor.dim() >= 1 && tensor.numel() > 0) matrices.push_back(&tensor);
  }
  for (size_t i = 0; i + 1 < matrices.size(); ++i) {
    const at::Tensor &a = *matrices[i], &b = *matrices[i + 1];
    const int64_t k = a.size(-1);
    const bool pair = b.dim() >= 2 ? b.size(-2) == k : b.size(0) == k;
    if (!pair || a.scalar_type() != b.scalar_type()) continue;
    const int64_t m = a.dim() >= 2 ? a.size(-2) : 1;
    const int64_t n = b.dim() >= 2 ? b.size(-1) : 1;
    const int64_t batch = a.dim() >= 3 ? a.size(0) : 1;
    return gemm_nanoseconds({batch, m, n, k, a.scalar_type()});
  }
  return memory_nanoseconds(bytes);
}

double convolution_time(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs, double bytes) {
  double flops = 0;
  // An output element costs two operations per weight of its channel.
  if (inputs.size() >= 2 && !outputs.empty() && inputs[1].defined() && inputs[1].dim() >= 3 && inputs[1].size(0) > 0) {
    flops = 2.0 * static_cast<double>(outputs[0].defined() ? outputs[0].numel() : 0) *
            static_cast<double>(inputs[1].numel()) / static_cast<double>(inputs[1].size(0));
  }
  const bool known = !inputs.empty() && inputs[0].defined();
  return convolution_nanoseconds(flops, bytes, known ? inputs[0].scalar_type() : c10::ScalarType::Float);
}

double topk_time(const std::vector<at::Tensor>& inputs, double bytes) {
  if (inputs.empty() || inputs[0].dim() == 0 || inputs[0].numel() == 0) return memory_nanoseconds(bytes);
  const int64_t columns = inputs[0].size(-1);
  return topk_nanoseconds(inputs[0].numel() / columns, columns);
}

}  // namespace

CostClass cost_class(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  if (name == "aten::_local_scalar_dense" || name == "aten::equal") return CostClass::host_copy;
  if (metadata_names().count(name)) return CostClass::none;
  for (const auto& argument : op.schema().returns()) {
    const auto* alias = argument.alias_info();
    if (alias && !alias->isWrite()) return CostClass::none;  // a view
  }
  if (gemm_names().count(name)) return CostClass::gemm;
  if (name == "aten::topk") return CostClass::topk;
  if (name.find("convolution") != std::string::npos) return CostClass::convolution;
  return CostClass::memory;
}

void charge(CostClass cost, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs) {
  const double bytes = bytes_of(inputs) + bytes_of(outputs);
  switch (cost) {
    case CostClass::none:
      return;
    case CostClass::host_copy:
      gfx950_charge_host_copy(static_cast<size_t>(bytes));
      return;
    case CostClass::memory:
      gfx950_clock_advance_ns(memory_nanoseconds(bytes));
      return;
    case CostClass::gemm:
      gfx950_clock_advance_ns(product_nanoseconds(inputs, bytes));
      return;
    case CostClass::convolution:
      gfx950_clock_advance_ns(convolution_time(inputs, outputs, bytes));
      return;
    case CostClass::topk:
      gfx950_clock_advance_ns(topk_time(inputs, bytes));
      return;
  }
}

}  // namespace gfx950::torch_device
