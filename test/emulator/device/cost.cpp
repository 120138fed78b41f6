#include "cost.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "gfx950_hip.h"

namespace gfx950::torch_device {
namespace {

constexpr double kLaunchNanoseconds = 7000.0;
constexpr double kHbmBytesPerNanosecond = 7200.0;
constexpr double kComputeUnits = 256.0;
constexpr double kTile = 128.0;               // rows and columns of C that one workgroup computes
constexpr double kPeakFraction = 0.62;        // of the published peak, reached by large published ATen products
constexpr double kSmallestOccupancy = 0.125;  // a library splits K when C has few tiles

// Published peaks at 2.4 GHz, in FLOP per nanosecond.
double peak_flops(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Half:
      return 2.516e6;
    case c10::ScalarType::Float8_e4m3fn:
    case c10::ScalarType::Float8_e5m2:
    case c10::ScalarType::Char:
      return 5.033e6;
    case c10::ScalarType::Float4_e2m1fn_x2:
      return 10.066e6;
    case c10::ScalarType::Double:
      return 78.6e3;
    default:
      return 157.3e3;
  }
}

const std::unordered_set<std::string>& gemm_names() {
  static const auto* names = new std::unordered_set<std::string>{
      "aten::mm",         "aten::addmm",   "aten::bmm",           "aten::baddbmm",     "aten::_addmm_activation",
      "aten::_scaled_mm", "aten::_int_mm", "aten::_scaled_mm_v2", "aten::addmv",       "aten::mv",
      "aten::dot",        "aten::linear",  "aten::addbmm",        "aten::_grouped_mm", "aten::_scaled_grouped_mm"};
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

// The last two inputs of two dimensions or more are the operands; a bias comes before them.
double product_nanoseconds(const std::vector<at::Tensor>& inputs, double bytes) {
  std::vector<const at::Tensor*> matrices;
  for (const at::Tensor& tensor : inputs) {
    if (tensor.defined() && tensor.dim() >= 1 && tensor.numel() > 0) matrices.push_back(&tensor);
  }
  if (matrices.size() < 2) return kLaunchNanoseconds + bytes / kHbmBytesPerNanosecond;
  for (size_t i = 0; i + 1 < matrices.size(); ++i) {  // the first pair that multiplies: A [.., M, K], B [.., K, N]
    const at::Tensor &a = *matrices[i], &b = *matrices[i + 1];
    const int64_t k = a.size(-1);
    const bool pair = b.dim() >= 2 ? b.size(-2) == k : b.size(0) == k;
    if (!pair || a.scalar_type() != b.scalar_type()) continue;
    const int64_t m = a.dim() >= 2 ? a.size(-2) : 1;
    const int64_t n = b.dim() >= 2 ? b.size(-1) : 1;
    const int64_t batch = a.dim() >= 3 ? a.size(0) : 1;
    return gemm_nanoseconds(batch, m, n, k, a.scalar_type(), bytes);
  }
  return kLaunchNanoseconds + bytes / kHbmBytesPerNanosecond;
}

double convolution_nanoseconds(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs,
                               double bytes) {
  double flops = 0;
  // An output element costs two operations per weight of its channel.
  if (inputs.size() >= 2 && !outputs.empty() && inputs[1].defined() && inputs[1].dim() >= 3 && inputs[1].size(0) > 0) {
    flops = 2.0 * static_cast<double>(outputs[0].defined() ? outputs[0].numel() : 0) *
            static_cast<double>(inputs[1].numel()) / static_cast<double>(inputs[1].size(0));
  }
  const double peak = inputs.empty() || !inputs[0].defined() ? 157.3e3 : peak_flops(inputs[0].scalar_type());
  return kLaunchNanoseconds + std::max(flops / (peak * kPeakFraction), bytes / kHbmBytesPerNanosecond);
}

}  // namespace

double gemm_nanoseconds(int64_t batch, int64_t m, int64_t n, int64_t k, c10::ScalarType type, double bytes) {
  const double flops =
      2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const auto tiles_of = [](int64_t extent) { return std::ceil(static_cast<double>(extent) / kTile); };
  const double tiles = static_cast<double>(batch) * tiles_of(m) * tiles_of(n);
  const double occupancy = std::clamp(tiles / kComputeUnits, kSmallestOccupancy, 1.0);
  const double compute = flops / (peak_flops(type) * kPeakFraction * occupancy);
  return kLaunchNanoseconds + std::max(compute, bytes / kHbmBytesPerNanosecond);
}

CostClass cost_class(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  if (name == "aten::_local_scalar_dense" || name == "aten::equal") return CostClass::host_copy;
  if (metadata_names().count(name)) return CostClass::none;
  for (const auto& argument : op.schema().returns()) {
    const auto* alias = argument.alias_info();
    if (alias && !alias->isWrite()) return CostClass::none;  // a view
  }
  if (gemm_names().count(name)) return CostClass::gemm;
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
      gfx950_clock_advance_ns(kLaunchNanoseconds + bytes / kHbmBytesPerNanosecond);
      return;
    case CostClass::gemm:
      gfx950_clock_advance_ns(product_nanoseconds(inputs, bytes));
      return;
    case CostClass::convolution:
      gfx950_clock_advance_ns(convolution_nanoseconds(inputs, outputs, bytes));
      return;
  }
}

}  // namespace gfx950::torch_device
