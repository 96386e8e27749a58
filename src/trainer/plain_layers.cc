#include "trainer/plain_layers.h"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/version.h>

namespace cairn::trainer {
namespace {

at::Tensor linear(const at::Tensor& x, const Weight& weight, const Weight& bias) {
  return at::linear(x, weight.leaf.to(x.scalar_type()), bias.defined() ? bias.leaf.to(x.scalar_type()) : at::Tensor());
}

// [sequences, heads, length, head_dim] each; causal.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, true);
#else
  const int64_t length = q.size(2);
  at::Tensor mask =
      at::full({length, length}, -std::numeric_limits<float>::infinity(), q.options().dtype(at::kFloat)).triu(1);
  at::Tensor scores =
      at::matmul(q, k.transpose(2, 3)).to(at::kFloat) / std::sqrt(static_cast<double>(q.size(3))) + mask;
  return at::matmul(at::softmax(scores, -1).to(q.scalar_type()), v);
#endif
}

struct RecomputeCall : torch::CustomClassHolder {
  std::shared_ptr<const LayerContext> context;
  LayerWeights weights;
};

struct RecomputeFunction : torch::autograd::Function<RecomputeFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const c10::intrusive_ptr<RecomputeCall>& call) {
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    ctx->save_for_backward({x});
    return plain_layer(*call->context, call->weights, x);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    auto call = c10::static_intrusive_pointer_cast<RecomputeCall>(ctx->saved_data["call"].toCapsule());
    at::AutoGradMode with_grad(true);
    at::Tensor x = ctx->get_saved_variables()[0].detach().set_requires_grad(true);
    plain_layer(*call->context, call->weights, x).backward(grads[0]);
    return {x.grad(), at::Tensor()};
  }
};

}  // namespace

RopeTable make_rope_table(const DecoderSpec& spec, int64_t positions, c10::Device device) {
  auto floats = at::TensorOptions().dtype(at::kFloat).device(device);
  at::Tensor exponents = at::arange(0, spec.head_dim, 2, floats) / static_cast<double>(spec.head_dim);
  at::Tensor frequencies = 1.0 / at::pow(spec.rope_theta, exponents);
  at::Tensor angles = at::outer(at::arange(0, positions, floats), frequencies);
  return {angles.cos(), angles.sin()};
}

at::Tensor plain_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  at::Tensor wide = x.to(at::kFloat);
  return wide * at::rsqrt(wide.pow(2).mean(-1, true) + eps) * weight;
}

at::Tensor plain_rope(const at::Tensor& x, const RopeTable& rope, const at::Tensor& positions) {
  at::Tensor cos = rope.cos.index_select(0, positions).unsqueeze(1),
             sin = rope.sin.index_select(0, positions).unsqueeze(1);
  const int64_t half = x.size(-1) / 2;
  at::Tensor first = x.narrow(-1, 0, half), second = x.narrow(-1, half, half);
  return at::cat({first * cos - second * sin, second * cos + first * sin}, -1).to(x.scalar_type());
}

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const PackedRow& row) {
  const int64_t heads = q.size(1), kv_heads = k.size(1), dim = q.size(2);
  auto heads_first = [&](const at::Tensor& x, int64_t start, int64_t sequences, int64_t length) {
    at::Tensor part = x.narrow(0, start, sequences * length).view({sequences, length, x.size(1), dim}).transpose(1, 2);
    if (x.size(1) == heads) return part;
    return part.unsqueeze(2)
        .expand({sequences, kv_heads, heads / kv_heads, length, dim})
        .reshape({sequences, heads, length, dim});
  };
  auto attend = [&](int64_t start, int64_t sequences, int64_t length) {
    at::Tensor out =
        causal_attention(heads_first(q, start, sequences, length), heads_first(k, start, sequences, length),
                         heads_first(v, start, sequences, length));
    return out.transpose(1, 2).reshape({sequences * length, heads * dim});
  };
  if (row.equal_lengths()) return attend(0, static_cast<int64_t>(row.sequences()), row.longest);
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < row.sequences(); ++i)
    parts.push_back(attend(row.starts[i], 1, row.starts[i + 1] - row.starts[i]));
  return at::cat(parts, 0);
}

at::Tensor plain_layer(const LayerContext& context, const LayerWeights& weights, const at::Tensor& x) {
  const DecoderSpec& spec = context.spec;
  const int64_t tokens = x.size(0), heads = spec.num_heads, kv_heads = spec.num_kv_heads, dim = spec.head_dim;
  auto norm = [&](const at::Tensor& input, const Weight& weight) {
    return plain_rms_norm(input, weight.leaf, spec.rms_norm_eps).to(context.compute_type);
  };
  at::Tensor qkv = linear(norm(x, weights.input_norm), weights.qkv, weights.qkv_bias);
  auto part = [&](int64_t first, int64_t count) {
    return qkv.narrow(1, first * dim, count * dim).reshape({tokens, count, dim});
  };
  at::Tensor q = part(0, heads), k = part(heads, kv_heads), v = part(heads + kv_heads, kv_heads);
  if (weights.q_norm.defined()) q = norm(q, weights.q_norm), k = norm(k, weights.k_norm);
  q = plain_rope(q, context.rope, context.row.positions);
  k = plain_rope(k, context.rope, context.row.positions);
  at::Tensor attended = linear(plain_attention(q, k, v, context.row), weights.o, weights.o_bias);
  at::Tensor middle = x + attended;
  at::Tensor gate_up = linear(norm(middle, weights.post_norm), weights.gate_up, weights.gate_up_bias);
  const int64_t inner = spec.intermediate_size;
  at::Tensor activated = at::silu(gate_up.narrow(1, 0, inner)) * gate_up.narrow(1, inner, inner);
  return middle + linear(activated, weights.down, weights.down_bias);
}

at::Tensor recomputed_plain_layer(const std::shared_ptr<const LayerContext>& context, const LayerWeights& weights,
                                  const at::Tensor& x) {
  auto call = c10::make_intrusive<RecomputeCall>();
  call->context = context;
  call->weights = weights;
  return RecomputeFunction::apply(x, call);
}

}  // namespace cairn::trainer
