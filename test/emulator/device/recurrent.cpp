// The fused cells of LSTM and GRU, which ATen has for CUDA only. Their workspace holds what their backward needs.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <tuple>

#include "capture.h"
#include "on_host.h"

namespace gfx950::torch_device {
namespace {

using Optional = std::optional<at::Tensor>;

at::Tensor or_undefined(const Optional& tensor) { return tensor ? *tensor : at::Tensor(); }

// Cells compute in float32 where their tensors are narrower, as on the device.
c10::ScalarType compute_type(const at::Tensor& tensor) {
  return tensor.scalar_type() == c10::ScalarType::Double ? c10::ScalarType::Double : c10::ScalarType::Float;
}

at::Tensor widened(OnHost* call, const at::Tensor& tensor) {
  const at::Tensor cpu = call->in(tensor);
  return cpu.defined() ? cpu.to(compute_type(cpu)) : cpu;
}

void check_cell(const char* name, int64_t gates, const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                const Optional& input_bias, const Optional& hidden_bias, const at::Tensor& state) {
  TORCH_CHECK(input_gates.dim() == 2 && state.dim() == 2, name, ": gates and state must have 2 dimensions, not ",
              input_gates.dim(), " and ", state.dim());
  TORCH_CHECK(input_gates.sizes() == hidden_gates.sizes(), name, ": gates of the input have size ", input_gates.sizes(),
              ", those of the state ", hidden_gates.sizes());
  TORCH_CHECK(input_gates.size(0) == state.size(0) && input_gates.size(1) == gates * state.size(1), name, ": ", gates,
              " gates for a state of size ", state.sizes(), " cannot have size ", input_gates.sizes());
  TORCH_CHECK(or_undefined(input_bias).defined() == or_undefined(hidden_bias).defined(), name,
              ": one bias without the other");
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                         const at::Tensor& cx, const Optional& input_bias,
                                                         const Optional& hidden_bias) {
  constexpr const char* kName = "_thnn_fused_lstm_cell";
  check_cell(kName, 4, input_gates, hidden_gates, input_bias, hidden_bias, cx);
  OnHost call(kName, input_gates);
  at::Tensor sum = widened(&call, input_gates) + widened(&call, hidden_gates);
  for (const Optional* bias : {&input_bias, &hidden_bias}) {
    const at::Tensor added = widened(&call, or_undefined(*bias));
    if (added.defined()) sum = sum + added;
  }
  const std::vector<at::Tensor> parts = sum.chunk(4, 1);
  const at::Tensor in = parts[0].sigmoid(), forget = parts[1].sigmoid();
  const at::Tensor cell = parts[2].tanh(), out = parts[3].sigmoid();
  const at::Tensor cy = forget * widened(&call, cx) + in * cell;
  const at::Tensor hy = out * cy.tanh();
  const c10::ScalarType type = input_gates.scalar_type();
  const auto results = std::make_tuple(call.out(hy.to(type)), call.out(cy.to(type)),
                                       call.out(at::cat({in, forget, cell, out}, 1).to(type)));
  call.charge(CostClass::memory);
  return results;
}

// Gradients of the gates, of the cell's old state and of a bias.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const Optional& grad_hy, const Optional& grad_cy,
                                                                  const at::Tensor& cx, const at::Tensor& cy,
                                                                  const at::Tensor& workspace, bool has_bias) {
  if (!or_undefined(grad_hy).defined() && !or_undefined(grad_cy).defined()) return {};
  OnHost call("_thnn_fused_lstm_cell_backward_impl", cx);
  const std::vector<at::Tensor> parts = widened(&call, workspace).chunk(4, 1);
  const at::Tensor &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
  const at::Tensor tanh_cy = widened(&call, cy).tanh();
  const at::Tensor from_hy = widened(&call, or_undefined(grad_hy));
  const at::Tensor from_cy = widened(&call, or_undefined(grad_cy));
  at::Tensor of_cy = from_cy.defined() ? from_cy : at::zeros_like(tanh_cy);
  at::Tensor of_out = at::zeros_like(tanh_cy);
  if (from_hy.defined()) {
    of_cy = of_cy + from_hy * out * (1 - tanh_cy * tanh_cy);
    of_out = from_hy * tanh_cy * out * (1 - out);
  }
  const at::Tensor of_in = of_cy * cell * in * (1 - in);
  const at::Tensor of_forget = of_cy * widened(&call, cx) * forget * (1 - forget);
  const at::Tensor of_cell = of_cy * in * (1 - cell * cell);
  const c10::ScalarType type = workspace.scalar_type();
  const at::Tensor gates = at::cat({of_in, of_forget, of_cell, of_out}, 1).to(type);
  const at::Tensor bias = has_bias ? gates.sum(0) : at::Tensor();
  const auto results = std::make_tuple(call.out(gates), call.out((of_cy * forget).to(type)), call.out(bias));
  call.charge(CostClass::memory);
  return results;
}

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                            const at::Tensor& hx, const Optional& input_bias,
                                            const Optional& hidden_bias) {
  constexpr const char* kName = "_thnn_fused_gru_cell";
  check_cell(kName, 3, input_gates, hidden_gates, input_bias, hidden_bias, hx);
  OnHost call(kName, input_gates);
  at::Tensor input = widened(&call, input_gates), hidden = widened(&call, hidden_gates);
  const at::Tensor bias_of_input = widened(&call, or_undefined(input_bias));
  const at::Tensor bias_of_hidden = widened(&call, or_undefined(hidden_bias));
  if (bias_of_input.defined()) input = input + bias_of_input;
  if (bias_of_hidden.defined()) hidden = hidden + bias_of_hidden;
  const std::vector<at::Tensor> of_input = input.chunk(3, 1), of_hidden = hidden.chunk(3, 1);
  const at::Tensor state = widened(&call, hx);
  const at::Tensor reset = (of_input[0] + of_hidden[0]).sigmoid();
  const at::Tensor update = (of_input[1] + of_hidden[1]).sigmoid();
  const at::Tensor proposal = (of_input[2] + reset * of_hidden[2]).tanh();
  const at::Tensor hy = proposal + update * (state - proposal);
  const c10::ScalarType type = input_gates.scalar_type();
  const auto results = std::make_tuple(call.out(hy.to(type)),
                                       call.out(at::cat({reset, update, proposal, state, of_hidden[2]}, 1).to(type)));
  call.charge(CostClass::memory);
  return results;
}

// Gradients of both gates, of the old state and of both biases.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(const at::Tensor& grad_hy,
                                                                                         const at::Tensor& workspace,
                                                                                         bool has_bias) {
  OnHost call("_thnn_fused_gru_cell_backward", grad_hy);
  const std::vector<at::Tensor> parts = widened(&call, workspace).chunk(5, 1);
  const at::Tensor &reset = parts[0], &update = parts[1], &proposal = parts[2], &state = parts[3], &hidden = parts[4];
  const at::Tensor grad = widened(&call, grad_hy);
  const at::Tensor of_update = grad * (state - proposal) * update * (1 - update);
  const at::Tensor of_proposal = grad * (1 - update) * (1 - proposal * proposal);
  const at::Tensor of_reset = of_proposal * hidden * reset * (1 - reset);
  const c10::ScalarType type = workspace.scalar_type();
  const at::Tensor of_input_gates = at::cat({of_reset, of_update, of_proposal}, 1).to(type);
  const at::Tensor of_hidden_gates = at::cat({of_reset, of_update, of_proposal * reset}, 1).to(type);
  const at::Tensor none;
  const auto results = std::make_tuple(
      call.out(of_input_gates), call.out(of_hidden_gates), call.out((grad * update).to(type)),
      call.out(has_bias ? of_input_gates.sum(0) : none), call.out(has_bias ? of_hidden_gates.sum(0) : none));
  call.charge(CostClass::memory);
  return results;
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_thnn_fused_lstm_cell", recorded<&lstm_cell>());
  m.impl("_thnn_fused_lstm_cell_backward_impl", recorded<&lstm_cell_backward>());
  m.impl("_thnn_fused_gru_cell", recorded<&gru_cell>());
  m.impl("_thnn_fused_gru_cell_backward", recorded<&gru_cell_backward>());
}

}  // namespace
}  // namespace gfx950::torch_device
