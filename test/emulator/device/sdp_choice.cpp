#include "sdp_choice.h"

#include <ATen/Context.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <array>

namespace gfx950::torch_device {
namespace {

using sdp::sdp_params;

constexpr int64_t kLargestHead = 512;  // of AOTriton's kernels
constexpr int64_t kLargestNestedHead = 256;

bool check_on_device(const sdp_params& params, bool debug) {
  if (params.query.is_cuda()) return true;
  if (debug) {
    TORCH_WARN("All tensors need to be on cuda device. Got query on device: ", params.query.device(),
               ", key on device: ", params.key.device(), ", value on device: ", params.value.device());
  }
  return false;
}

bool check_flash_head_size(const sdp_params& params, bool debug) {
  const int64_t q = params.query.size(-1), k = params.key.size(-1), v = params.value.size(-1);
  if (q == k && q == v && q <= kLargestHead) return true;
  if (debug) {  // the text says 256 whatever the limit is
    TORCH_WARN("Flash attention requires q,k,v to have the same last dimension and to be less than or equal to 256.",
               " Got Query.size(-1): ", q, ", Key.size(-1): ", k, ", Value.size(-1): ", v, " instead.");
  }
  return false;
}

bool check_flash_causal_square(const sdp_params& params, bool debug) {
  const int64_t q = params.query.size(-2), k = params.key.size(-2);
  if (!params.is_causal || q == k) return true;
  if (debug) {
    TORCH_WARN("Flash attention does not support the is_causal flag when seqlen_q != seqlen_k. ", "Got seqlen_q: ", q,
               " seqlen_k: ", k,
               ". If you would like to use causal attention with non-square masks, please see CausalAttnMask.");
  }
  return false;
}

bool check_flash_types(const sdp_params& params, bool debug) {
  constexpr std::array<at::ScalarType, 2> kTypes{at::kHalf, at::kBFloat16};
  return sdp::check_tensor_dtype(params, kTypes, debug);
}

bool check_efficient_head_size(const sdp_params& params, bool debug) {
  const int64_t q = params.query.size(-1), k = params.key.size(-1), v = params.value.size(-1);
  const bool half = params.query.dtype() == at::kHalf || params.query.dtype() == at::kBFloat16;
  const int64_t alignment = half ? 8 : 4;
  if (!(q == k && q == v && q <= kLargestHead)) {
    if (debug) {
      TORCH_WARN("Efficient attention on ROCM requires q,k,v to have the same last dimension and to be less than or ",
                 "equal to 256.", " Got Query.size(-1): ", q, ", Key.size(-1): ", k, ", Value.size(-1): ", v,
                 " instead.");
    }
    return false;
  }
  if (q > 0 && q % alignment == 0) return true;
  if (debug) {
    TORCH_WARN("Mem efficient attention requires last dimension of inputs to be divisible by ", alignment, ". ",
               "Got Query.size(-1): ", q, ", Key.size(-1): ", k, ", Value.size(-1): ", v, " instead.");
  }
  return false;
}

bool check_efficient_types(const sdp_params& params, bool debug) {
  if (params.attn_mask) {
    const at::ScalarType type = params.attn_mask->scalar_type();
    if (type != at::kBool && type != params.query.scalar_type()) {
      TORCH_WARN("Efficient attention on ROCM requires attn_mask be boolean, or has the same datatype as of q,k,v");
      return false;
    }
  }
  constexpr std::array<at::ScalarType, 3> kTypes{at::kHalf, at::kFloat, at::kBFloat16};
  return sdp::check_tensor_dtype(params, kTypes, debug);
}

bool check_dense(const sdp_params& params, bool debug) {
  if (sdp::has_only_dense_inputs(params)) return true;
  if (debug) TORCH_WARN("The emulated device's fused attention does not support nested tensors.");
  return false;
}

template <size_t count>
bool all_of(const std::array<bool (*)(const sdp_params&, bool), count>& checks, const sdp_params& params, bool debug) {
  for (const auto& check : checks) {
    if (!check(params, debug)) return false;
  }
  return true;
}

}  // namespace

bool can_use_flash_attention(const sdp_params& params, bool debug) {
  return all_of<11>({sdp::check_runtime_disabled_flash, check_on_device, check_dense, sdp::check_tensor_shapes,
                     sdp::check_for_attn_mask, check_flash_head_size, check_flash_causal_square, check_flash_types,
                     sdp::check_batch_size_and_num_heads_dense<true>, sdp::check_nonzero_sequence_lengths_dense,
                     sdp::check_last_dim_stride_equals_1_dense<true>},
                    params, debug);
}

bool can_use_efficient_attention(const sdp_params& params, bool debug) {
  return all_of<9>({sdp::check_runtime_disabled_mem_efficient, check_on_device, check_dense, sdp::check_tensor_shapes,
                    check_efficient_head_size, sdp::check_nonzero_sequence_lengths_dense,
                    sdp::check_last_dim_stride_equals_1_dense<false>, sdp::check_batch_size_and_num_heads_dense<false>,
                    check_efficient_types},
                   params, debug);
}

at::SDPBackend choose_sdp_backend(const sdp_params& params) {
  const at::Context& context = at::globalContext();
  if (!context.userEnabledMathSDP() && !context.userEnabledFlashSDP() && !context.userEnabledMemEfficientSDP() &&
      !context.userEnabledCuDNNSDP()) {
    return at::SDPBackend::error;
  }
  for (const at::SDPBackend backend : at::globalContext().sDPPriorityOrder()) {
    switch (backend) {
      case at::SDPBackend::flash_attention:
        if (can_use_flash_attention(params, false)) return backend;
        break;
      case at::SDPBackend::efficient_attention:
        if (can_use_efficient_attention(params, false)) return backend;
        break;
      case at::SDPBackend::math:
        if (context.userEnabledMathSDP()) return backend;
        break;
      case at::SDPBackend::cudnn_attention:  // ROCm has none
        break;
      case at::SDPBackend::overrideable:
        TORCH_CHECK(!context.userEnabledOverrideableSDP(), "Invalid backend");
        break;
      default:
        TORCH_CHECK(false, "Invalid backend");
    }
  }
  TORCH_WARN("Memory efficient kernel not used because:");
  can_use_efficient_attention(params, true);
  TORCH_WARN("Flash attention kernel not used because:");
  can_use_flash_attention(params, true);
  TORCH_WARN("cuDNN attention kernel not used because:");
  TORCH_WARN("Torch was not compiled with cuDNN attention.");
  TORCH_CHECK(false, "No available kernel. Aborting execution.");
}

namespace {

int64_t fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& mask, double dropout, bool causal, std::optional<double>,
                         bool enable_gqa) {
  const auto backend = choose_sdp_backend({query, key, value, mask, dropout, causal, enable_gqa});
  TORCH_CHECK(backend != at::SDPBackend::error, "No viable backend for scaled_dot_product_attention was found. ",
              "This is likely due to turning off both the math kernel and the fused kernels.");
  return static_cast<int64_t>(backend);
}

struct StubRegistrar {
  StubRegistrar() { at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&fused_sdp_choice); }
} stub_registrar;

bool ask(bool (*backend)(const sdp_params&, bool), const at::Tensor& query, const at::Tensor& key,
         const at::Tensor& value, const std::optional<at::Tensor>& mask, double dropout, bool causal, bool enable_gqa,
         bool debug) {
  return backend({query, key, value, mask, dropout, causal, enable_gqa}, debug);
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) { m.impl("_fused_sdp_choice", TORCH_FN(fused_sdp_choice)); }

// For torch.backends.cuda, whose functions of a CPU build know the CPU's rules.
TORCH_LIBRARY_FRAGMENT(gfx950_emulator, m) {
  using MaybeTensor = const std::optional<at::Tensor>&;
  m.def(
      "can_use_flash_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, float dropout, bool causal, "
      "bool enable_gqa, bool debug) -> bool",
      [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, MaybeTensor mask, double dropout, bool causal,
         bool gqa, bool debug) { return ask(&can_use_flash_attention, q, k, v, mask, dropout, causal, gqa, debug); });
  m.def(
      "can_use_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, float dropout, bool causal, "
      "bool enable_gqa, bool debug) -> bool",
      [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, MaybeTensor mask, double dropout, bool causal,
         bool gqa,
         bool debug) { return ask(&can_use_efficient_attention, q, k, v, mask, dropout, causal, gqa, debug); });
}

}  // namespace
}  // namespace gfx950::torch_device
