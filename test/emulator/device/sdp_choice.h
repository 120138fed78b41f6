// Which backend scaled_dot_product_attention takes, with ROCm's rules for gfx950 with AOTriton.
#pragma once

#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

namespace gfx950::torch_device {

// With `debug`, a warning says why not. The texts are ATen's.
bool can_use_flash_attention(const sdp::sdp_params& params, bool debug);
bool can_use_efficient_attention(const sdp::sdp_params& params, bool debug);

at::SDPBackend choose_sdp_backend(const sdp::sdp_params& params);

}  // namespace gfx950::torch_device
