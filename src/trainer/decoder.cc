#include "trainer/decoder.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trainer/cpu_layer.h"
#include "trainer/decoder_weights.h"
#include "trainer/head_loss.h"
#include "trainer/packed_row.h"
#include "trainer/plain_layers.h"
#include "trainer/torch_guard.h"

namespace cairn::trainer {
namespace {

class TorchDecoder final : public Decoder {
 public:
  TorchDecoder(const DecoderSpec& spec, const DecoderOptions& options)
      : spec_(spec), options_(options), weights_(spec, options) {}

  const DecoderSpec& spec() const override { return spec_; }
  const std::vector<NamedParameter>& named_parameters() const override { return weights_.named_parameters(); }
  at::Tensor flat_parameters() const override { return weights_.flat_values(); }
  at::Tensor flat_gradients() const override { return weights_.flat_gradients(); }
  void parameters_changed() override { weights_.mark_changed(); }

  void zero_gradients() override {
    at::NoGradGuard no_grad;
    weights_.flat_gradients().zero_();
  }

  Status init_random(uint64_t seed) override {
    return guard_torch("drawing the initial weights", [&]() -> Status {
      weights_.init_random(spec_, seed);
      return ok();
    });
  }

  Result<LossSum> loss_and_gradients(const dataset::Row& row, double scale) override {
    return guard_torch("a forward and backward pass", [&]() -> Result<LossSum> {
      at::AutoGradMode with_grad(true);
      CAIRN_TRY(LossSum loss, forward_loss(row, true, scale));
      if (loss.count > 0) loss.sum.backward();
      return LossSum{loss.sum.detach(), loss.count};
    });
  }

  Result<LossSum> loss_sum(const dataset::Row& row) override {
    return guard_torch("a forward pass", [&] { return forward_loss(row, false, 1); });
  }

  Result<at::Tensor> logits(const dataset::Row& row) override {
    return guard_torch("a forward pass", [&]() -> Result<at::Tensor> {
      at::NoGradGuard no_grad;
      CAIRN_TRY(PackedRow packed, pack_row(row, spec_, options_.device, false));
      at::Tensor h = final_norm(hidden(packed));
      return at::mm(h, weights_.head().compute.t()).to(at::kFloat);
    });
  }

 private:
  at::ScalarType compute_type() const { return options_.bfloat16 ? at::kBFloat16 : at::kFloat; }

  bool uses_kernels() const { return options_.device.is_cpu() && !options_.plain_layers; }

  at::Tensor final_norm(const at::Tensor& x) const {
    if (uses_kernels()) return cpu_final_norm(x, weights_.final_norm(), spec_.rms_norm_eps, compute_type());
    return plain_rms_norm(x, weights_.final_norm().leaf, spec_.rms_norm_eps).to(compute_type());
  }

  // The residual stream after the last layer, fp32 [tokens, hidden].
  at::Tensor hidden(const PackedRow& packed) {
    weights_.renew_copies();
    if (!rope_.cos.defined() || rope_.cos.size(0) < packed.longest) {
      rope_ = make_rope_table(spec_, std::max(packed.longest, std::min<int64_t>(spec_.max_position_embeddings, 4096)),
                              options_.device);
    }
    auto context = std::make_shared<const LayerContext>(LayerContext{spec_, packed, rope_, compute_type()});
    at::Tensor x = embed(weights_.embedding(), packed.ids);
    const int64_t every = options_.activation_checkpointing_freq;
    for (size_t i = 0; i < weights_.layers().size(); ++i) {
      bool recompute = every > 0 && static_cast<int64_t>(i) % every == 0;
      if (uses_kernels()) {
        x = cpu_layer(context, weights_.layers()[i], x, recompute);
        continue;
      }
      x = recompute ? recomputed_plain_layer(context, weights_.layers()[i], x)
                    : plain_layer(*context, weights_.layers()[i], x);
    }
    return x;
  }

  Result<LossSum> forward_loss(const dataset::Row& row, bool eager, double scale) {
    CAIRN_TRY(PackedRow packed, pack_row(row, spec_, options_.device, true));
    if (packed.count() == 0) {
      at::Tensor zero = at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(options_.device));
      return LossSum{zero.set_requires_grad(at::GradMode::is_enabled()), 0};
    }
    at::Tensor x = hidden(packed);
    if (packed.count() < packed.tokens()) x = x.index_select(0, packed.counted);
    HeadSettings settings{options_.head_token_chunk_size, eager, scale};
    return LossSum{head_loss(final_norm(x), weights_.head(), packed.targets, settings), packed.count()};
  }

  const DecoderSpec spec_;
  const DecoderOptions options_;
  DecoderWeights weights_;
  RopeTable rope_;
};

}  // namespace

Result<std::unique_ptr<Decoder>> Decoder::create(const DecoderSpec& spec, const DecoderOptions& options) {
  return guard_torch("making the model", [&]() -> Result<std::unique_ptr<Decoder>> {
    return std::unique_ptr<Decoder>(std::make_unique<TorchDecoder>(spec, options));
  });
}

}  // namespace cairn::trainer
