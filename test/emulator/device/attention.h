// Attention of one batch element on the host: what the flash and the memory-efficient operators have in common.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace gfx950::torch_device {

// Which keys a query sees: key j of query i if i - left <= j <= i + right, aligned at the first query and key, or at
// the last ones. A negative bound is none.
struct AttentionWindow {
  int64_t left = -1, right = -1;
  bool bottom_right = false;
  bool unbounded() const { return left < 0 && right < 0; }
};

// A draw for each pair of query and key, which does not depend on how the work is divided: Philox4x32-10 with the key
// `seed`; head (over all batch elements) and query together are its subsequence, and its 32-bit words from counter
// `offset` on are for keys 0, 1, ... Keys whose word is below probability * 2^32 are dropped.
struct AttentionDropout {
  double probability = 0;
  uint64_t seed = 0, offset = 0;
};

struct AttentionOptions {
  double scale = 1;
  AttentionWindow window;
  AttentionDropout dropout;
  int64_t first_head = 0;  // of the dropout's numbering
  int64_t queries = 0;     // of it, too: the largest number of queries of a batch element
};

struct AttentionResult {
  at::Tensor out;             // float32 [heads, queries, value size]
  at::Tensor logsumexp;       // float32 [heads, queries], natural logarithm; +inf for a query that sees no key
  at::Tensor signed_weights;  // float32 [heads, queries, keys], negative where dropped; undefined unless asked for
};

// q [heads, queries, size], k and v [key heads, keys, size], bias [heads, queries, keys] or undefined: CPU tensors of
// any float type. Key heads divide heads: neighbouring heads share one. Computed in float32, or float64 for float32
// operands.
AttentionResult attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                       const AttentionOptions& options, bool want_weights);

struct AttentionGradients {
  at::Tensor q, k, v, bias;  // float32 (float64); bias is undefined where there is none
};

AttentionGradients attend_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const at::Tensor& bias, const at::Tensor& out,
                                   const at::Tensor& logsumexp, const AttentionOptions& options);

// A tensor of 1 for what dropout keeps and 0 for what it drops: [heads, queries, keys].
at::Tensor dropout_mask(const AttentionOptions& options, int64_t heads, int64_t queries, int64_t keys);

}  // namespace gfx950::torch_device
