// Memory-efficient attention with HIP's schema: dense with a bias, and of variable lengths, forward and backward.
#include <torch/library.h>

#include "attention_call.h"
#include "capture.h"
#include "cost_models.h"

namespace gfx950::torch_device {
namespace {

using at::Tensor;
using MaybeTensor = const std::optional<at::Tensor>&;

// The operator's own numbers.
enum MaskType : int64_t { kNoMask = 0, kCausalFromTopLeft = 1, kCausalFromBottomRight = 2 };

AttentionWindow window_of(int64_t mask) {
  TORCH_CHECK(mask >= kNoMask && mask <= kCausalFromBottomRight, "custom_mask_type must be 0, 1 or 2, got ", mask);
  AttentionWindow window;
  if (mask != kNoMask) window.right = 0;
  window.bottom_right = mask == kCausalFromBottomRight;
  return window;
}

// q [batch, queries, heads, size], k and v [batch, keys, heads, size]; or batch 1 and the sequences packed.
struct Sequences {
  Tensor ends_q, ends_k;
  int64_t batch;

  Sequences(OnHost& call, const Tensor& q, MaybeTensor ends_q_, MaybeTensor ends_k_)
      : batch(ends_q_ ? ends_q_->size(0) - 1 : q.size(0)) {
    if (ends_q_) ends_q = call.in(*ends_q_), ends_k = call.in(*ends_k_);
  }
  // One batch element as [rows, heads, size], a view.
  Tensor of_q(const Tensor& tensor, int64_t i) const { return piece(tensor, ends_q, i); }
  Tensor of_k(const Tensor& tensor, int64_t i) const { return piece(tensor, ends_k, i); }

 private:
  static Tensor piece(const Tensor& tensor, const Tensor& ends, int64_t i) {
    if (!ends.defined()) return tensor[i];
    const int64_t begin = ends[i].item<int>(), end = ends[i + 1].item<int>();
    TORCH_CHECK(begin >= 0 && begin <= end && end <= tensor.size(1), "cu_seqlens must not decrease and not exceed ",
                tensor.size(1), ", but sequence ", i, " runs from ", begin, " to ", end);
    return tensor[0].slice(0, begin, end);
  }
};

void check_operands(const Tensor& q, const Tensor& k, const Tensor& v, MaybeTensor ends_q, MaybeTensor ends_k) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "query, key and value must have 4 dimensions, got ",
              q.dim(), ", ", k.dim(), " and ", v.dim());
  TORCH_CHECK(q.size(0) == k.size(0) && q.size(0) == v.size(0), "query, key and value must have one batch size");
  TORCH_CHECK(k.size(1) == v.size(1), "key and value must have one sequence length");
  TORCH_CHECK(q.size(2) == k.size(2) && q.size(2) == v.size(2), "query, key and value must have the same heads");
  TORCH_CHECK(q.size(3) == k.size(3), "query and key must have one head size");
  for (const Tensor& tensor : {q, k, v}) {
    const at::ScalarType type = tensor.scalar_type();
    TORCH_CHECK(type == q.scalar_type() && (type == at::kHalf || type == at::kBFloat16 || type == at::kFloat),
                "query, key and value must all be Half, BFloat16 or Float, got ", type);
    TORCH_CHECK(tensor.stride(3) == 1, "query, key and value must be contiguous in the last dimension");
  }
  TORCH_CHECK(ends_q.has_value() == ends_k.has_value(), "seqstart_q and seqstart_k must come together");
  if (!ends_q) return;
  TORCH_CHECK(ends_q->scalar_type() == at::kInt && ends_k->scalar_type() == at::kInt, "cu_seqlens must be int32");
  TORCH_CHECK(ends_q->dim() == 1 && ends_k->sizes() == ends_q->sizes() && ends_q->numel() > 1,
              "cu_seqlens_q and cu_seqlens_k must have shape (batch + 1)");
  TORCH_CHECK(q.size(0) == 1, "cu_seqlen only supports batch_size=1");
}

// [batch, heads, queries, keys], a view.
Tensor expanded(const Tensor& bias, const Tensor& q, const Tensor& k) {
  TORCH_CHECK(bias.dim() <= 4, "bias must have at most 4 dimensions, got ", bias.dim());
  return bias.expand({q.size(0), q.size(2), q.size(1), k.size(1)});
}

struct Forward {
  Tensor out, logsumexp;
  PhiloxTensors philox;
  int64_t max_q, max_k;
};

Forward forward(const Tensor& q, const Tensor& k, const Tensor& v, MaybeTensor bias_, MaybeTensor ends_q_,
                MaybeTensor ends_k_, std::optional<int64_t> max_q, std::optional<int64_t> max_k, double dropout,
                int64_t mask, bool want_logsumexp, std::optional<double> scale) {
  const auto bias = if_defined(bias_), ends_q = if_defined(ends_q_), ends_k = if_defined(ends_k_);
  check_operands(q, k, v, ends_q, ends_k);
  TORCH_CHECK(!(ends_q && bias), "cu seqlen + bias not supported");
  TORCH_CHECK(!ends_q || max_q, "max_seqlen_q must not be None when cu_seqlens_q is provided");
  const int64_t heads = q.size(2), batch = ends_q ? ends_q->size(0) - 1 : q.size(0);
  Forward result;
  result.max_q = ends_q ? *max_q : q.size(1);
  result.max_k = max_k.value_or(k.size(1));
  const int64_t draws = q.size(0) * heads * q.size(1) * k.size(1);
  result.philox = draw_philox(q, dropout, std::max(draws, counters_of_row(k.size(1))));
  result.out = at::empty({q.size(0), q.size(1), heads, v.size(3)}, q.options());
  result.logsumexp = at::empty({batch, heads, want_logsumexp ? result.max_q : 0}, q.options().dtype(at::kFloat));
  OnHost call("_efficient_attention_forward", q);
  const Tensor of_q = call.in(q), of_k = call.in(k), of_v = call.in(v);
  const Tensor of_bias = bias ? expanded(call.in(*bias), q, k) : Tensor();
  const Sequences sequences(call, q, ends_q, ends_k);
  Tensor target = call.in_place(result.out), logsumexp = call.in_place(result.logsumexp);
  AttentionOptions options{attention_scale(q, scale), window_of(mask), result.philox.dropout, 0, result.max_q};
  double pairs = 0;
  int64_t keys = 0;
  for (int64_t i = 0; i < batch; ++i, options.first_head += heads) {
    const Tensor one = sequences.of_q(of_q, i), other = sequences.of_k(of_k, i);
    pairs += static_cast<double>(heads * one.size(0)) * static_cast<double>(other.size(0));
    keys = std::max(keys, other.size(0));
    const AttentionResult part =
        attend(one.permute({1, 0, 2}), other.permute({1, 0, 2}), sequences.of_k(of_v, i).permute({1, 0, 2}),
               bias ? of_bias[i] : Tensor(), options, false);
    sequences.of_q(target, i).copy_(part.out.permute({1, 0, 2}));
    if (want_logsumexp) logsumexp[i].narrow(1, 0, one.size(0)).copy_(part.logsumexp);
  }
  call.charge_nanoseconds(attention_nanoseconds({pairs, keys, q.size(-1), options.window.right == 0}));
  return result;
}

struct Backward {
  Tensor q, k, v, bias;
};

// Gradients of tensors that share one storage lie in one chunk, so that the caller need not join them.
void make_gradients(const Tensor& q, const Tensor& k, const Tensor& v, bool shared, Backward* to) {
  if (!shared) {
    to->q = at::empty(q.sizes(), q.options());
    to->k = at::zeros(k.sizes(), k.options());
    to->v = at::zeros(v.sizes(), v.options());
    return;
  }
  TORCH_CHECK(q.size(1) == k.size(1), "`shared_storage_dqdkdv` is only supported when Q/K/V have the same sequence ",
              "length: got ", q.size(1), " query tokens and ", k.size(1), " key/value tokens");
  TORCH_CHECK(q.size(3) == k.size(3),
              "`shared_storage_dqdkdv` is only supported when Q/K/V have the same embed dim: ", "got ", q.size(3),
              " for Q, and ", k.size(3), " for K");
  const Tensor chunk = at::zeros({q.size(0), q.size(1), 3, q.size(2), q.size(3)}, q.options());
  to->q = chunk.select(2, 0), to->k = chunk.select(2, 1), to->v = chunk.select(2, 2);
}

Backward backward(const Tensor& grad_, const Tensor& q, const Tensor& k, const Tensor& v, MaybeTensor bias_,
                  const Tensor& out, MaybeTensor ends_q_, MaybeTensor ends_k_, int64_t max_q, const Tensor& logsumexp,
                  double dropout, const Tensor& seed, const Tensor& offset, int64_t mask, bool of_bias_too,
                  std::optional<double> scale, bool shared) {
  const auto bias = if_defined(bias_), ends_q = if_defined(ends_q_), ends_k = if_defined(ends_k_);
  check_operands(q, k, v, ends_q, ends_k);
  TORCH_CHECK(!(ends_q && bias), "cu seqlen + bias not supported");
  TORCH_CHECK(!of_bias_too || bias, "bias_requires_grad is true but no bias was provided");
  TORCH_CHECK(grad_.dim() == 4 && grad_.sizes() == out.sizes(), "grad_out and out must have one shape, got ",
              grad_.sizes(), " and ", out.sizes());
  Backward to;
  make_gradients(q, k, v, shared, &to);
  if (of_bias_too) {
    std::vector<int64_t> sizes = bias->sizes().vec();
    const int64_t last = sizes.back();
    sizes.back() = (last + 15) / 16 * 16;  // rows begin at multiples of 16 elements
    to.bias = at::zeros(sizes, bias->options()).slice(-1, 0, last);
  }
  OnHost call("_efficient_attention_backward", q);
  const Tensor grad = call.in(grad_), of_q = call.in(q), of_k = call.in(k), of_v = call.in(v), of_out = call.in(out);
  const Tensor lse = call.in(logsumexp);
  const Tensor of_bias = bias ? expanded(call.in(*bias), q, k) : Tensor();
  const Sequences sequences(call, q, ends_q, ends_k);
  Tensor to_q = call.in_place(to.q), to_k = call.in_place(to.k), to_v = call.in_place(to.v);
  Tensor to_bias = of_bias_too ? call.in_place(to.bias) : Tensor();
  const int64_t queries = ends_q ? max_q : q.size(1);
  AttentionOptions options{attention_scale(q, scale), window_of(mask), philox_of(call, dropout, seed, offset), 0,
                           queries};
  std::vector<Tensor> of_biases;
  double pairs = 0;
  int64_t keys = 0;
  for (int64_t i = 0; i < sequences.batch; ++i, options.first_head += q.size(2)) {
    const auto by_head = [](const Tensor& tensor) { return tensor.permute({1, 0, 2}); };
    const Tensor one = sequences.of_q(of_q, i), other = sequences.of_k(of_k, i);
    pairs += static_cast<double>(q.size(2) * one.size(0)) * static_cast<double>(other.size(0));
    keys = std::max(keys, other.size(0));
    const AttentionGradients part = attend_backward(
        by_head(sequences.of_q(grad, i)), by_head(one), by_head(other), by_head(sequences.of_k(of_v, i)),
        bias ? of_bias[i] : Tensor(), by_head(sequences.of_q(of_out, i)), lse[i].narrow(1, 0, one.size(0)), options);
    sequences.of_q(to_q, i).copy_(by_head(part.q));
    sequences.of_k(to_k, i).copy_(by_head(part.k));
    sequences.of_k(to_v, i).copy_(by_head(part.v));
    if (of_bias_too) of_biases.push_back(part.bias);
  }
  if (of_bias_too && !of_biases.empty()) to_bias.copy_(at::stack(of_biases).sum_to_size(to_bias.sizes()));
  call.charge_nanoseconds(attention_backward_nanoseconds({pairs, keys, q.size(-1), options.window.right == 0}));
  return to;
}

// ---- operators ---------------------------------------------------------------------------------------------------

std::optional<int64_t> plain(const std::optional<c10::SymInt>& value) {
  return value ? std::optional(value->expect_int()) : std::nullopt;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt> efficient_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, MaybeTensor bias, MaybeTensor ends_q, MaybeTensor ends_k,
    std::optional<c10::SymInt> max_q, std::optional<c10::SymInt> max_k, double dropout, int64_t mask,
    bool want_logsumexp, std::optional<double> scale, MaybeTensor seqlen_k, std::optional<int64_t> window) {
  TORCH_CHECK(!if_defined(seqlen_k), "ROCM does not support seqlen_k in _efficient_attention_forward");
  TORCH_CHECK(!window, "ROCM does not support window_size in _efficient_attention_forward");
  Forward result =
      forward(q, k, v, bias, ends_q, ends_k, plain(max_q), plain(max_k), dropout, mask, want_logsumexp, scale);
  return {result.out, result.logsumexp, result.philox.seed, result.philox.offset, result.max_q, result.max_k};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, MaybeTensor bias, const Tensor& out,
    MaybeTensor ends_q, MaybeTensor ends_k, c10::SymInt max_q, c10::SymInt, const Tensor& logsumexp, double dropout,
    const Tensor& seed, const Tensor& offset, int64_t mask, bool of_bias, std::optional<double> scale,
    std::optional<int64_t> num_splits, std::optional<int64_t> window, bool shared) {
  if (!grad.defined()) return {};
  TORCH_CHECK(!num_splits, "ROCM does not support num_split_keys in _efficient_attention_forward");
  TORCH_CHECK(!window, "ROCM does not support window_size in _efficient_attention_forward");
  Backward to = backward(grad, q, k, v, bias, out, ends_q, ends_k, max_q.expect_int(), logsumexp, dropout, seed, offset,
                         mask, of_bias, scale, shared);
  return {to.q, to.k, to.v, to.bias};
}

Tensor turned(const Tensor& tensor) { return tensor.transpose(1, 2); }

std::tuple<Tensor, Tensor, Tensor, Tensor> sdpa_efficient(const Tensor& query, const Tensor& key, const Tensor& value,
                                                          MaybeTensor bias, bool want_logsumexp, double dropout,
                                                          bool causal, std::optional<double> scale) {
  Forward result = forward(turned(query), turned(key), turned(value), bias, std::nullopt, std::nullopt, std::nullopt,
                           std::nullopt, dropout, causal ? kCausalFromTopLeft : kNoMask, want_logsumexp, scale);
  return {turned(result.out), result.logsumexp, result.philox.seed, result.philox.offset};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> sdpa_efficient_backward(
    const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
    const Tensor& out, const Tensor& logsumexp, const Tensor& seed, const Tensor& offset, double dropout,
    std::array<bool, 4> wanted, bool causal, std::optional<double> scale) {
  if (!grad.defined()) return {};
  const bool of_bias = wanted[3] && bias.defined();
  Backward to = backward(turned(grad), turned(query), turned(key), turned(value), bias, turned(out), std::nullopt,
                         std::nullopt, query.size(2), logsumexp, dropout, seed, offset,
                         causal ? kCausalFromTopLeft : kNoMask, of_bias, scale, false);
  return {turned(to.q), turned(to.k), turned(to.v), to.bias};
}

// 1 where a memory-efficient call with this seed and offset keeps, 0 where it drops: [batch, heads, queries, keys].
Tensor& fill_dropout_mask(Tensor& self, double probability, int64_t seed, int64_t offset) {
  TORCH_CHECK(self.is_contiguous() && self.scalar_type() == at::kFloat && self.dim() == 4,
              "_fill_mem_eff_dropout_mask_: self must be a contiguous float32 tensor of 4 dimensions");
  OnHost call("_fill_mem_eff_dropout_mask_", self);
  const AttentionOptions options{
      1.0, {}, {probability, static_cast<uint64_t>(seed), static_cast<uint64_t>(offset)}, 0, self.size(2)};
  const Tensor mask = dropout_mask(options, self.size(0) * self.size(1), self.size(2), self.size(3));
  call.in_place(self).copy_(mask.view(self.sizes()));
  call.charge(CostClass::memory);
  return self;
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_scaled_dot_product_efficient_attention", recorded<&sdpa_efficient>());
  m.impl("_scaled_dot_product_efficient_attention_backward", recorded<&sdpa_efficient_backward>());
  m.impl("_efficient_attention_forward", recorded<&efficient_forward>());
  m.impl("_efficient_attention_backward", recorded<&efficient_backward>());
  m.impl("_fill_mem_eff_dropout_mask_", recorded<&fill_dropout_mask>());
}

}  // namespace
}  // namespace gfx950::torch_device
