#include "trainer/decoder_weights.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>

#include "base/check.h"
#include "trainer/initializer.h"

namespace cairn::trainer {
namespace {

at::Tensor variable(const at::Tensor& value, const at::Tensor& grad) {
  at::Tensor leaf = value.detach();
  leaf.set_requires_grad(true);
  leaf.mutable_grad() = grad;
  return leaf;
}

}  // namespace

DecoderWeights::DecoderWeights(const DecoderSpec& spec, const DecoderOptions& options) : specs_(parameter_specs(spec)) {
  at::NoGradGuard no_grad;
  int64_t total = 0;
  for (const ParameterSpec& parameter : specs_) {
    offsets_.push_back(total);
    total += parameter.size();
  }
  auto floats = at::TensorOptions().dtype(at::kFloat).device(options.device);
  values_ = at::empty({total}, floats);
  gradients_ = at::zeros({total}, floats);
  copies_ = values_;
  if (options.bfloat16) {
    int64_t count = total;
    if (options.plain_layers || !options.device.is_cpu()) {
      size_t head = index_of(spec.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
      copied_from_ = offsets_[head];
      count = specs_[head].size();
    }
    copies_ = at::empty({count}, floats.dtype(at::kBFloat16));
  }
  for (size_t i = 0; i < specs_.size(); ++i) {
    const ParameterSpec& parameter = specs_[i];
    auto view = [&](const at::Tensor& flat) {
      return flat.narrow(0, offsets_[i], parameter.size()).view(parameter.shape);
    };
    named_.push_back({parameter.name, variable(view(values_), view(gradients_))});
  }
  embedding_ = weight({"model.embed_tokens.weight"});
  final_norm_ = weight({"model.norm.weight"});
  head_ = spec.tie_word_embeddings ? embedding_ : weight({"lm_head.weight"});
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    auto name = [&](const char* rest) { return fmt::format("model.layers.{}.{}", layer, rest); };
    LayerWeights w;
    w.input_norm = weight({name("input_layernorm.weight")});
    w.post_norm = weight({name("post_attention_layernorm.weight")});
    w.q_norm = weight({name("self_attn.q_norm.weight")});
    w.k_norm = weight({name("self_attn.k_norm.weight")});
    w.qkv = weight({name("self_attn.q_proj.weight"), name("self_attn.k_proj.weight"), name("self_attn.v_proj.weight")});
    w.qkv_bias = weight({name("self_attn.q_proj.bias"), name("self_attn.k_proj.bias"), name("self_attn.v_proj.bias")});
    w.o = weight({name("self_attn.o_proj.weight")});
    w.o_bias = weight({name("self_attn.o_proj.bias")});
    w.gate_up = weight({name("mlp.gate_proj.weight"), name("mlp.up_proj.weight")});
    w.gate_up_bias = weight({name("mlp.gate_proj.bias"), name("mlp.up_proj.bias")});
    w.down = weight({name("mlp.down_proj.weight")});
    w.down_bias = weight({name("mlp.down_proj.bias")});
    layers_.push_back(std::move(w));
  }
}

size_t DecoderWeights::index_of(std::string_view name) const {
  size_t index = 0;
  while (index < specs_.size() && specs_[index].name != name) ++index;
  return index;
}

Weight DecoderWeights::weight(const std::vector<std::string>& names) const {
  size_t first = index_of(names.front());
  if (first == specs_.size()) return {};
  int64_t rows = 0, size = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    CAIRN_CHECK(specs_[first + i].name == names[i]);
    rows += specs_[first + i].shape[0];
    size += specs_[first + i].size();
  }
  std::vector<int64_t> shape = specs_[first].shape;
  shape[0] = rows;
  auto view = [&](const at::Tensor& flat, int64_t from) { return flat.narrow(0, from, size).view(shape); };
  const int64_t at = offsets_[first], copied_at = at - copied_from_;
  bool copied = copied_at >= 0 && copied_at + size <= copies_.numel();
  at::Tensor value = view(values_, at), grad = view(gradients_, at);
  return {value, copied ? view(copies_, copied_at) : at::Tensor(), grad, variable(value, grad)};
}

void DecoderWeights::renew_copies() {
  if (!copies_are_stale_) return;
  copies_are_stale_ = false;
  at::NoGradGuard no_grad;
  if (!copies_.is_same(values_)) copies_.copy_(values_.narrow(0, copied_from_, copies_.numel()));
}

void DecoderWeights::init_random(const DecoderSpec& spec, uint64_t seed) {
  at::NoGradGuard no_grad;
  at::Tensor host = values_.device().is_cpu() ? values_ : at::empty_like(values_, values_.options().device(at::kCPU));
  float* all = host.data_ptr<float>();
  for (size_t i = 0; i < specs_.size(); ++i) {
    float* to = all + offsets_[i];
    const int64_t size = specs_[i].size();
    if (specs_[i].kind != ParameterSpec::Kind::kMatrix) {
      std::fill(to, to + size, specs_[i].kind == ParameterSpec::Kind::kNorm ? 1.0f : 0.0f);
      continue;
    }
    at::parallel_for(0, (size + 1) / 2, 1 << 14, [&](int64_t begin, int64_t end) {
      end = std::min(2 * end, size);
      fill_normal(seed, i, static_cast<uint64_t>(2 * begin), spec.initializer_range,
                  {to + 2 * begin, static_cast<size_t>(end - 2 * begin)});
    });
  }
  if (!host.is_same(values_)) values_.copy_(host);
  mark_changed();
}

}  // namespace cairn::trainer
