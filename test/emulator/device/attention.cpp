#include "attention.h"

#include <ATen/ATen.h>
#include <ATen/core/PhiloxRNGEngine.h>

#include <cmath>
#include <limits>

namespace gfx950::torch_device {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// float32 operands are exact in float64; those of 16 bits in float32.
at::ScalarType type_of_sums(const at::Tensor& q) {
  return q.scalar_type() == at::kFloat || q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// True where a query does not see a key; undefined where all see all.
at::Tensor hidden(const AttentionWindow& window, int64_t queries, int64_t keys) {
  if (window.unbounded()) return {};
  const at::Tensor i = at::arange(queries).unsqueeze(1) + (window.bottom_right ? keys - queries : 0);
  const at::Tensor j = at::arange(keys).unsqueeze(0);
  at::Tensor mask = at::zeros({queries, keys}, at::kBool);
  if (window.right >= 0) mask.logical_or_(j > i + window.right);
  if (window.left >= 0) mask.logical_or_(j < i - window.left);
  return mask;
}

at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias, const at::Tensor& mask,
                     double scale) {
  at::Tensor scores = at::mm(q, k.t()).mul_(scale);
  if (bias.defined()) scores.add_(bias);
  if (mask.defined()) scores.masked_fill_(mask, -kInfinity);
  return scores;
}

at::Tensor head_of(const at::Tensor& tensor, int64_t head, at::ScalarType type) {
  return tensor.defined() ? tensor[head].to(type) : at::Tensor();
}

AttentionOptions of_head(AttentionOptions options, int64_t head) {
  options.first_head += head;
  return options;
}

}  // namespace

at::Tensor dropout_mask(const AttentionOptions& options, int64_t heads, int64_t queries, int64_t keys) {
  at::Tensor mask = at::empty({heads, queries, keys}, at::kFloat);
  auto* value = mask.mutable_data_ptr<float>();
  const auto limit = static_cast<uint64_t>(std::ldexp(options.dropout.probability, 32));
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t row = (options.first_head + head) * options.queries + i;
      at::Philox4_32 words(options.dropout.seed, static_cast<uint64_t>(row), options.dropout.offset);
      for (int64_t j = 0; j < keys; ++j) *value++ = words() < limit ? 0.0F : 1.0F;
    }
  }
  return mask;
}

AttentionResult attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                       const AttentionOptions& options, bool want_weights) {
  const int64_t heads = q.size(0), queries = q.size(1), keys = k.size(1);
  const int64_t sharing = k.size(0) ? heads / k.size(0) : 1;
  const at::ScalarType type = type_of_sums(q);
  AttentionResult result;
  result.out = at::empty({heads, queries, v.size(2)}, type);
  result.logsumexp = at::empty({heads, queries}, at::kFloat);
  if (want_weights) result.signed_weights = at::empty({heads, queries, keys}, at::kFloat);
  const at::Tensor mask = hidden(options.window, queries, keys);
  const double dropped = options.dropout.probability;
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t shared = head / sharing;
    const at::Tensor scores =
        scores_of(head_of(q, head, type), head_of(k, shared, type), head_of(bias, head, type), mask, options.scale);
    at::Tensor logsumexp = keys ? at::logsumexp(scores, {1}) : at::full({queries}, -kInfinity, type);
    // With +inf, exp(score - logsumexp) is 0 for a query that sees nothing, here and in the backward pass.
    logsumexp.masked_fill_(logsumexp == -kInfinity, kInfinity);
    at::Tensor weights = at::exp(scores - logsumexp.unsqueeze(1));
    result.logsumexp[head].copy_(logsumexp);
    if (dropped > 0) {
      const at::Tensor kept = dropout_mask(of_head(options, head), 1, queries, keys)[0].to(type);
      if (want_weights) result.signed_weights[head].copy_(weights * (kept * 2 - 1));
      weights = dropped < 1 ? weights * kept / (1 - dropped) : at::zeros_like(weights);
    } else if (want_weights) {
      result.signed_weights[head].copy_(weights);
    }
    result.out[head].copy_(at::mm(weights, head_of(v, shared, type)));
  }
  return result;
}

AttentionGradients attend_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const at::Tensor& bias, const at::Tensor& out,
                                   const at::Tensor& logsumexp, const AttentionOptions& options) {
  const int64_t heads = q.size(0), queries = q.size(1), keys = k.size(1);
  const int64_t sharing = k.size(0) ? heads / k.size(0) : 1;
  const at::ScalarType type = type_of_sums(q);
  AttentionGradients gradients;
  gradients.q = at::empty(q.sizes(), type);
  gradients.k = at::zeros(k.sizes(), type);
  gradients.v = at::zeros(v.sizes(), type);
  if (bias.defined()) gradients.bias = at::empty({heads, queries, keys}, type);
  const at::Tensor mask = hidden(options.window, queries, keys);
  const double dropped = options.dropout.probability;
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t shared = head / sharing;
    const at::Tensor of_q = head_of(q, head, type), of_k = head_of(k, shared, type), of_v = head_of(v, shared, type);
    const at::Tensor of_grad = head_of(grad, head, type);
    const at::Tensor scores = scores_of(of_q, of_k, head_of(bias, head, type), mask, options.scale);
    const at::Tensor weights = at::exp(scores - logsumexp[head].to(type).unsqueeze(1));
    at::Tensor factor;
    if (dropped > 0) {
      factor = dropout_mask(of_head(options, head), 1, queries, keys)[0].to(type);
      factor = dropped < 1 ? factor / (1 - dropped) : at::zeros_like(factor);
    }
    gradients.v[shared].add_(at::mm((factor.defined() ? weights * factor : weights).t(), of_grad));
    at::Tensor of_weights = at::mm(of_grad, of_v.t());
    if (factor.defined()) of_weights.mul_(factor);
    const at::Tensor delta = (of_grad * head_of(out, head, type)).sum(1, /*keepdim=*/true);
    const at::Tensor of_scores = weights * (of_weights - delta);
    if (bias.defined()) gradients.bias[head].copy_(of_scores);
    gradients.q[head].copy_(at::mm(of_scores, of_k).mul_(options.scale));
    gradients.k[shared].add_(at::mm(of_scores.t(), of_q), options.scale);
  }
  return gradients;
}

}  // namespace gfx950::torch_device
