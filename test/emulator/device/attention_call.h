// What every attention operator does besides the attention: the scale, dropout's seed and offset, CPU tensors by head.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "attention.h"
#include "generator.h"
#include "on_host.h"

namespace gfx950::torch_device {

inline std::optional<at::Tensor> if_defined(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? tensor : std::nullopt;
}

inline double attention_scale(const at::Tensor& query, std::optional<double> scale) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
}

// Seed and offset of a call, as the tensors that HIP's operators return: two int64 of no dimension, on the device.
struct PhiloxTensors {
  at::Tensor seed, offset;
  AttentionDropout dropout;
};

// Draws `counters` of the default generator's Philox counters; none without dropout, where both tensors are 0.
inline PhiloxTensors draw_philox(const at::Tensor& like, double probability, int64_t counters) {
  TORCH_CHECK(probability >= 0 && probability <= 1, "dropout probability has to be between 0 and 1, but got ",
              probability);
  AttentionDropout dropout{probability, 0, 0};
  if (probability > 0) {
    at::Generator generator = default_generator(like.device().index());
    const std::lock_guard<std::mutex> lock(generator.mutex());
    auto* state = at::check_generator<GeneratorOfDevice>(generator);
    dropout.seed = state->current_seed();
    dropout.offset = state->take_counters(static_cast<uint64_t>(counters));
  }
  const auto options = like.options().dtype(at::kLong);
  return {at::scalar_tensor(static_cast<int64_t>(dropout.seed), options),
          at::scalar_tensor(static_cast<int64_t>(dropout.offset), options), dropout};
}

// The dropout of a backward pass, from the tensors that the forward pass returned.
inline AttentionDropout philox_of(OnHost& call, double probability, const at::Tensor& seed, const at::Tensor& offset) {
  AttentionDropout dropout{probability, 0, 0};
  if (probability > 0) {
    const auto value = [&](const at::Tensor& tensor) {
      return static_cast<uint64_t>((tensor.is_cuda() ? call.in(tensor) : tensor).item<int64_t>());
    };
    dropout.seed = value(seed);
    dropout.offset = value(offset);
  }
  return dropout;
}

// A row of the counters is one query's: a key for each 32-bit word.
inline int64_t counters_of_row(int64_t keys) { return (keys + 3) / 4; }

}  // namespace gfx950::torch_device
