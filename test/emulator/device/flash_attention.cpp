// Flash attention with HIP's schema: dense and of variable lengths, forward and backward.
#include <ATen/Utils.h>
#include <torch/library.h>

#include "attention_call.h"
#include "capture.h"
#include "cost_models.h"

namespace gfx950::torch_device {
namespace {

using at::Tensor;
using MaybeTensor = const std::optional<at::Tensor>&;
using MaybeInt = std::optional<c10::SymInt>;

constexpr int64_t kLargestHead = 512;  // of AOTriton

void check_operands(const Tensor& q, const Tensor& k, const Tensor& v) {
  TORCH_CHECK(q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16,
              "FlashAttention only support fp16 and bf16 data type");
  TORCH_CHECK(k.scalar_type() == q.scalar_type(), "query and key must have the same dtype");
  TORCH_CHECK(v.scalar_type() == q.scalar_type(), "query and value must have the same dtype");
  for (const Tensor& tensor : {q, k, v}) {
    TORCH_CHECK(tensor.stride(-1) == 1, "Input tensor must have contiguous last dimension");
  }
  TORCH_CHECK(q.size(-1) <= kLargestHead, "FlashAttention on ROCm forward only supports head dimension at most 512");
  TORCH_CHECK(k.size(-2) > 0 && q.size(-2) % k.size(-2) == 0,
              "Number of heads in key/value must divide number of heads in query");
  TORCH_CHECK(k.sizes() == v.sizes() && k.size(-1) == q.size(-1), "k and v must have one shape and q's head size, got ",
              q.sizes(), ", ", k.sizes(), " and ", v.sizes());
}

// A window that is given counts; `causal` alone is one to the right of the diagonal from the first query and key.
AttentionWindow window_of(bool causal, const MaybeInt& left, const MaybeInt& right) {
  AttentionWindow window;
  if (causal) window.right = 0;
  if (left) window.left = left->expect_int();
  if (right && right->expect_int() >= 0) window.right = right->expect_int();
  return window;
}

// One batch element of [queries, heads, size], as [heads, queries, size].
Tensor by_head(const Tensor& tensor) { return tensor.permute({1, 0, 2}); }

// Where each batch element of a call lies: a row of a 4-D tensor, or a piece of a packed 3-D one.
class Sequences {
 public:
  Sequences(const Tensor& q, Tensor ends_q, Tensor ends_k)
      : packed_(ends_q.defined()),
        batch_(packed_ ? ends_q.size(0) - 1 : q.size(0)),
        ends_q_(std::move(ends_q)),
        ends_k_(std::move(ends_k)) {}
  int64_t batch() const { return batch_; }
  bool packed() const { return packed_; }
  Tensor of_q(const Tensor& tensor, int64_t i) const { return piece(tensor, ends_q_, i); }
  Tensor of_k(const Tensor& tensor, int64_t i) const { return piece(tensor, ends_k_, i); }
  // [heads, total queries] where packed, [batch, heads, queries] else.
  Tensor of_logsumexp(const Tensor& tensor, int64_t i) const {
    return packed_ ? tensor.slice(1, at(ends_q_, i), at(ends_q_, i + 1)) : tensor[i];
  }

 private:
  static int64_t at(const Tensor& ends, int64_t i) { return ends[i].item<int>(); }
  Tensor piece(const Tensor& tensor, const Tensor& ends, int64_t i) const {
    if (!packed_) return tensor[i];
    const int64_t begin = at(ends, i), end = at(ends, i + 1);
    TORCH_CHECK(begin >= 0 && begin <= end && end <= tensor.size(0), "cu_seqlens must not decrease and not exceed ",
                tensor.size(0), ", but sequence ", i, " runs from ", begin, " to ", end);
    return tensor.slice(0, begin, end);
  }

  bool packed_;
  int64_t batch_;
  Tensor ends_q_, ends_k_;
};

void check_packed(const Tensor& q, const Tensor& k, MaybeTensor ends_q, MaybeTensor ends_k) {
  TORCH_CHECK(ends_q.has_value() == ends_k.has_value(), "cumulative_sequence_length_q and ",
              "cumulative_sequence_length_k must be both set or both not set");
  const int64_t dims = ends_q ? 3 : 4;
  TORCH_CHECK(q.dim() == dims && k.dim() == dims, "query and key must have ", dims, " dimensions, got ", q.dim(),
              " and ", k.dim());
  if (!ends_q) {
    TORCH_CHECK(q.size(0) > 0, "batch size must be positive");
    TORCH_CHECK(q.size(0) == k.size(0), "query and key must have the same batch size");
    return;
  }
  TORCH_CHECK(ends_q->scalar_type() == at::kInt, "cu_seqlens_q must have dtype int32");
  TORCH_CHECK(ends_k->scalar_type() == at::kInt, "cu_seqlens_k must have dtype int32");
  TORCH_CHECK(ends_q->is_contiguous(), "cu_seqlens_q must be contiguous");
  TORCH_CHECK(ends_k->is_contiguous(), "cu_seqlens_k must be contiguous");
  TORCH_CHECK(ends_q->numel() > 1, "batch size must be positive");
  TORCH_CHECK(ends_q->sizes() == ends_k->sizes(), "cu_seqlens_k must have shape (batch_size + 1)");
}

struct Forward {
  Tensor logsumexp, weights;
  PhiloxTensors philox;
};

// q [batch, queries, heads, size], or packed [total, heads, size]; writes into `out`, which has q's shape.
Forward forward(const Tensor& q, const Tensor& k, const Tensor& v, MaybeTensor ends_q_, MaybeTensor ends_k_,
                int64_t most_queries, int64_t most_keys, double dropout, const AttentionWindow& window,
                bool want_weights, std::optional<double> scale, Tensor& out) {
  const auto ends_q = if_defined(ends_q_), ends_k = if_defined(ends_k_);
  check_packed(q, k, ends_q, ends_k);
  check_operands(q, k, v);
  TORCH_CHECK(!ends_q || !want_weights || dropout > 0, "return_softmax is only supported when p_dropout > 0.0");
  const int64_t heads = q.size(-2);
  const int64_t batch = ends_q ? ends_q->size(0) - 1 : q.size(0);
  Forward result;
  const int64_t counters = std::max(batch * heads * 32, counters_of_row(most_keys));
  result.philox = draw_philox(q, dropout, counters);
  const auto floats = q.options().dtype(at::kFloat);
  result.logsumexp = ends_q ? at::empty({heads, q.size(0)}, floats) : at::empty({batch, heads, most_queries}, floats);
  result.weights =
      want_weights ? at::zeros({batch, heads, most_queries, most_keys}, q.options()) : at::empty({0}, q.options());
  OnHost call("_flash_attention_forward", q);
  const Tensor of_q = call.in(q), of_k = call.in(k), of_v = call.in(v);
  const Sequences sequences(of_q, call.in(ends_q.value_or(Tensor())), call.in(ends_k.value_or(Tensor())));
  Tensor target = call.in_place(out), logsumexp = call.in_place(result.logsumexp);
  Tensor weights = call.in_place(result.weights);
  AttentionOptions options{attention_scale(q, scale), window, result.philox.dropout, 0, most_queries};
  double pairs = 0;
  int64_t keys = 0;
  for (int64_t i = 0; i < sequences.batch(); ++i, options.first_head += heads) {
    const Tensor one = sequences.of_q(of_q, i);
    const Tensor other = sequences.of_k(of_k, i);
    pairs += static_cast<double>(heads * one.size(0)) * static_cast<double>(other.size(0));
    keys = std::max(keys, other.size(0));
    const AttentionResult part =
        attend(by_head(one), by_head(other), by_head(sequences.of_k(of_v, i)), Tensor(), options, want_weights);
    sequences.of_q(target, i).copy_(part.out.permute({1, 0, 2}));
    sequences.of_logsumexp(logsumexp, i).copy_(part.logsumexp);
    if (want_weights) {
      weights[i].narrow(1, 0, one.size(0)).narrow(2, 0, other.size(0)).copy_(part.signed_weights);
    }
  }
  call.charge_nanoseconds(attention_nanoseconds({pairs, keys, q.size(-1), options.window.right == 0}));
  return result;
}

std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& grad_, const Tensor& q, const Tensor& k, const Tensor& v,
                                            const Tensor& out, const Tensor& logsumexp, MaybeTensor ends_q_,
                                            MaybeTensor ends_k_, int64_t most_queries, double dropout,
                                            const AttentionWindow& window, const Tensor& seed, const Tensor& offset,
                                            std::optional<double> scale) {
  const auto ends_q = if_defined(ends_q_), ends_k = if_defined(ends_k_);
  check_packed(q, k, ends_q, ends_k);
  check_operands(q, k, v);
  TORCH_CHECK(grad_.scalar_type() == q.scalar_type(), "query and dout must have the same dtype");
  TORCH_CHECK(out.scalar_type() == q.scalar_type(), "query and out must have the same dtype");
  TORCH_CHECK(grad_.sizes() == out.sizes() && out.sizes() == q.sizes(), "dout, out and query must have one shape, got ",
              grad_.sizes(), ", ", out.sizes(), " and ", q.sizes());
  Tensor grad_q = at::empty_like(q), grad_k = at::empty_like(k), grad_v = at::empty_like(v);
  grad_k.zero_(), grad_v.zero_();  // keys that no sequence has get none
  OnHost call("_flash_attention_backward", q);
  const Tensor grad = call.in(grad_), of_q = call.in(q), of_k = call.in(k), of_v = call.in(v), of_out = call.in(out);
  const Tensor lse = call.in(logsumexp);
  const Sequences sequences(of_q, call.in(ends_q.value_or(Tensor())), call.in(ends_k.value_or(Tensor())));
  Tensor to_q = call.in_place(grad_q), to_k = call.in_place(grad_k), to_v = call.in_place(grad_v);
  AttentionOptions options{attention_scale(q, scale), window, philox_of(call, dropout, seed, offset), 0, most_queries};
  double pairs = 0;
  int64_t keys = 0;
  for (int64_t i = 0; i < sequences.batch(); ++i, options.first_head += q.size(-2)) {
    const Tensor one = sequences.of_q(of_q, i), other = sequences.of_k(of_k, i);
    pairs += static_cast<double>(q.size(-2) * one.size(0)) * static_cast<double>(other.size(0));
    keys = std::max(keys, other.size(0));
    const AttentionGradients part = attend_backward(
        by_head(sequences.of_q(grad, i)), by_head(one), by_head(other), by_head(sequences.of_k(of_v, i)), Tensor(),
        by_head(sequences.of_q(of_out, i)), sequences.of_logsumexp(lse, i), options);
    sequences.of_q(to_q, i).copy_(part.q.permute({1, 0, 2}));
    sequences.of_k(to_k, i).copy_(part.k.permute({1, 0, 2}));
    sequences.of_k(to_v, i).copy_(part.v.permute({1, 0, 2}));
  }
  call.charge_nanoseconds(attention_backward_nanoseconds({pairs, keys, q.size(-1), options.window.right == 0}));
  return {grad_q, grad_k, grad_v};
}

// ---- operators ---------------------------------------------------------------------------------------------------

void refuse(MaybeTensor seqused_k, MaybeTensor alibi_slopes, MaybeTensor block_table) {
  TORCH_CHECK(!if_defined(seqused_k), "[ROCm] mha_varlen_fwd: seqused_k must be nullopt");
  TORCH_CHECK(!if_defined(block_table), "[ROCm] mha_varlen_fwd: block_table_ must be nullopt");
  TORCH_CHECK(!if_defined(alibi_slopes), "[ROCm] mha_varlen_fwd: alibi_slopes_ must be nullopt");
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flash_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, MaybeTensor ends_q, MaybeTensor ends_k, c10::SymInt max_q,
    c10::SymInt max_k, double dropout, bool causal, bool want_weights, std::optional<double> scale, MaybeInt left,
    MaybeInt right, MaybeTensor seqused_k, MaybeTensor alibi_slopes, MaybeTensor block_table, std::optional<int64_t>) {
  refuse(seqused_k, alibi_slopes, block_table);
  Tensor out = at::empty_like(q);
  Forward result = forward(q, k, v, ends_q, ends_k, max_q.expect_int(), max_k.expect_int(), dropout,
                           window_of(causal, left, right), want_weights, scale, out);
  return {out, result.logsumexp, result.philox.seed, result.philox.offset, result.weights};
}

Tensor flash_forward_into(Tensor& out, const Tensor& q, const Tensor& k, const Tensor& v, MaybeTensor ends_q,
                          MaybeTensor ends_k, c10::SymInt max_q, c10::SymInt max_k, double dropout, bool causal,
                          bool want_weights, std::optional<double> scale, MaybeInt left, MaybeInt right,
                          MaybeTensor seqused_k, MaybeTensor alibi_slopes, MaybeTensor block_table,
                          std::optional<int64_t>) {
  refuse(seqused_k, alibi_slopes, block_table);
  TORCH_CHECK(dropout == 0.0, "_flash_attention_forward_no_dropout_inplace: dropout_p must be 0, got ", dropout);
  TORCH_CHECK(out.scalar_type() == q.scalar_type(), "Output must have the same dtype as inputs");
  TORCH_CHECK(out.sizes() == q.sizes(), "out must have shape ", q.sizes(), ", got ", out.sizes());
  return forward(q, k, v, ends_q, ends_k, max_q.expect_int(), max_k.expect_int(), dropout,
                 window_of(causal, left, right), want_weights, scale, out)
      .logsumexp;
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor& out, const Tensor& logsumexp, const Tensor& ends_q,
                                                  const Tensor& ends_k, c10::SymInt max_q, c10::SymInt, double dropout,
                                                  bool causal, const Tensor& seed, const Tensor& offset,
                                                  std::optional<double> scale, MaybeInt left, MaybeInt right) {
  return backward(grad, q, k, v, out, logsumexp, ends_q, ends_k, max_q.expect_int(), dropout,
                  window_of(causal, left, right), seed, offset, scale);
}

// The heads before the queries.
Tensor turned(const Tensor& tensor) { return tensor.transpose(1, 2); }

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> sdpa_flash(
    const Tensor& query, const Tensor& key, const Tensor& value, double dropout, bool causal, bool want_weights,
    std::optional<double> scale) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
              "_scaled_dot_product_flash_attention: query, key and value must have 4 dimensions");
  TORCH_CHECK(query.size(-1) % 8 == 0, "head_size must be a multiple of 8, this is ensured by padding!");
  const Tensor q = turned(query), k = turned(key), v = turned(value);
  const int64_t max_q = query.size(2), max_k = key.size(2);
  Tensor out = at::empty_like(q);
  Forward result = forward(q, k, v, std::nullopt, std::nullopt, max_q, max_k, dropout,
                           window_of(causal, std::nullopt, std::nullopt), want_weights, scale, out);
  return {turned(out),        result.logsumexp,     Tensor(),      Tensor(), max_q, max_k,
          result.philox.seed, result.philox.offset, result.weights};
}

std::tuple<Tensor, Tensor, Tensor> sdpa_flash_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                                       const Tensor& value, const Tensor& out, const Tensor& logsumexp,
                                                       const Tensor& ends_q, const Tensor& ends_k, c10::SymInt max_q,
                                                       c10::SymInt, double dropout, bool causal, const Tensor& seed,
                                                       const Tensor& offset, std::optional<double> scale) {
  if (!grad.defined()) return {};
  TORCH_CHECK(!causal || query.size(2) == key.size(2),
              "For backwards kernel seqlen_q must equal seqlen_k for causal kernels");
  auto [grad_q, grad_k, grad_v] =
      backward(turned(grad), turned(query), turned(key), turned(value), turned(out), logsumexp, ends_q, ends_k,
               max_q.expect_int(), dropout, window_of(causal, std::nullopt, std::nullopt), seed, offset, scale);
  return {turned(grad_q), turned(grad_k), turned(grad_v)};
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_scaled_dot_product_flash_attention", recorded<&sdpa_flash>());
  m.impl("_scaled_dot_product_flash_attention_backward", recorded<&sdpa_flash_backward>());
  m.impl("_flash_attention_forward", recorded<&flash_forward>());
  m.impl("_flash_attention_forward_no_dropout_inplace", recorded<&flash_forward_into>());
  m.impl("_flash_attention_backward", recorded<&flash_backward>());
}

}  // namespace
}  // namespace gfx950::torch_device
