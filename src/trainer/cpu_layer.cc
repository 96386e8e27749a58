#include "trainer/cpu_layer.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trainer/cpu_attention.h"
#include "trainer/cpu_ops.h"
#include "trainer/products.h"

namespace cairn::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What forward leaves for backward.
struct LayerSaved {
  at::Tensor x, rstd, qkv;
  AttentionResult attention;
  at::Tensor middle, middle_rstd, gate_up;
};

at::Tensor linear(const at::Tensor& x, const Weight& weight, const Weight& bias) {
  if (bias.defined()) return at::addmm(bias.compute, x, weight.compute.t());
  return at::mm(x, weight.compute.t());
}

// Adds to the gradients of the weight and its bias.
void linear_backward(const at::Tensor& dy, const at::Tensor& x, const Weight& weight, const Weight& bias) {
  add_product(weight.grad, dy, x);
  if (bias.defined()) add_row_sum(bias.grad, dy);
}

at::Tensor forward_layer(const LayerContext& context, const LayerWeights& w, const at::Tensor& x, LayerSaved* saved) {
  const double eps = context.spec.rms_norm_eps;
  Normed first = cpu_norm(x, {}, w.input_norm, eps, context.compute_type);
  at::Tensor qkv = linear(first.y, w.qkv, w.qkv_bias);
  AttentionResult attention = cpu_attention_forward(context, w, qkv);
  Normed second = cpu_norm(x, linear(attention.out, w.o, w.o_bias), w.post_norm, eps, context.compute_type);
  at::Tensor gate_up = linear(second.y, w.gate_up, w.gate_up_bias);
  at::Tensor out = cpu_add(second.x, linear(cpu_swiglu(gate_up), w.down, w.down_bias));
  if (saved != nullptr) *saved = {x, first.rstd, qkv, attention, second.x, second.rstd, gate_up};
  return out;
}

at::Tensor backward_layer(const LayerContext& context, const LayerWeights& w, const LayerSaved& saved,
                          const at::Tensor& dout) {
  const at::ScalarType type = context.compute_type;
  at::Tensor dmiddle;
  {
    at::Tensor dy = cpu_narrow(dout, type);
    at::Tensor activated = at::mm(dy, w.down.compute);  // the gradient of the activations, then themselves
    at::Tensor d_gate_up = cpu_swiglu_backward(saved.gate_up, activated);
    linear_backward(dy, activated, w.down, w.down_bias);
    at::Tensor dnormed = at::mm(d_gate_up, w.gate_up.compute);
    linear_backward(d_gate_up, cpu_norm_again(saved.middle, saved.middle_rstd, w.post_norm, type), w.gate_up,
                    w.gate_up_bias);
    dmiddle = cpu_norm_backward(dnormed, saved.middle, saved.middle_rstd, w.post_norm, dout);
  }
  at::Tensor dy = cpu_narrow(dmiddle, type);
  linear_backward(dy, saved.attention.out, w.o, w.o_bias);
  at::Tensor dqkv = cpu_attention_backward(context, w, saved.qkv, saved.attention, at::mm(dy, w.o.compute));
  at::Tensor dnormed = at::mm(dqkv, w.qkv.compute);
  linear_backward(dqkv, cpu_norm_again(saved.x, saved.rstd, w.input_norm, type), w.qkv, w.qkv_bias);
  return cpu_norm_backward(dnormed, saved.x, saved.rstd, w.input_norm, dmiddle);
}

struct LayerCall : torch::CustomClassHolder {
  std::shared_ptr<const LayerContext> context;
  LayerWeights weights;
  LayerSaved saved;  // only x when the layer is to be computed again
  bool recompute = false;
};

struct LayerFunction : torch::autograd::Function<LayerFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const c10::intrusive_ptr<LayerCall>& call) {
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    at::Tensor plain = x.detach();
    call->saved.x = plain;
    return forward_layer(*call->context, call->weights, plain, call->recompute ? nullptr : &call->saved);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto call = c10::static_intrusive_pointer_cast<LayerCall>(ctx->saved_data["call"].toCapsule());
    LayerSaved saved = std::move(call->saved);
    call->saved = {};
    TORCH_CHECK(saved.x.defined(), "the graph of a loss can be walked backward once");
    if (call->recompute) forward_layer(*call->context, call->weights, at::Tensor(saved.x), &saved);
    return {backward_layer(*call->context, call->weights, saved, grads[0].contiguous()), at::Tensor()};
  }
};

struct NormCall : torch::CustomClassHolder {
  Weight weight;
  double eps = 0;
  at::ScalarType type = at::kFloat;
  Normed normed;
};

struct NormFunction : torch::autograd::Function<NormFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const c10::intrusive_ptr<NormCall>& call) {
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    Normed normed = cpu_norm(x.detach(), {}, call->weight, call->eps, call->type);
    call->normed = {normed.x, normed.rstd, {}};
    return normed.y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto call = c10::static_intrusive_pointer_cast<NormCall>(ctx->saved_data["call"].toCapsule());
    const at::Tensor& x = call->normed.x;
    return {cpu_norm_backward(grads[0].contiguous(), x, call->normed.rstd, call->weight, at::zeros_like(x)),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor cpu_layer(const std::shared_ptr<const LayerContext>& context, const LayerWeights& weights,
                     const at::Tensor& x, bool recompute) {
  if (!at::GradMode::is_enabled()) return forward_layer(*context, weights, x, nullptr);
  auto call = c10::make_intrusive<LayerCall>();
  call->context = context;
  call->weights = weights;
  call->recompute = recompute;
  return LayerFunction::apply(x, call);
}

at::Tensor cpu_final_norm(const at::Tensor& x, const Weight& weight, double eps, at::ScalarType type) {
  auto call = c10::make_intrusive<NormCall>();
  call->weight = weight;
  call->eps = eps;
  call->type = type;
  return NormFunction::apply(x.contiguous(), call);
}

}  // namespace cairn::trainer
