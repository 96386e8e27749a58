// A decoder-only language model on libtorch (Qwen3 or Llama): its parameters, its loss and its logits. One source for
// CPU and CUDA: the hand-written kernels serve CPU tensors, everything else goes through ATen.
//
// Parameters are fp32 leaf tensors that require gradients, in the order of parameter_specs; with compute type bf16 the
// model keeps bf16 copies of its matrices and renews them when the parameters have changed. Sequences of a row neither
// see each other nor share positions. Not thread-safe; at most one of its graphs is alive while parameters are being
// changed. No function throws except where it says so; `backward` of a loss is the caller's call and throws as torch
// does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "dataset/row_source.h"
#include "trainer/decoder_spec.h"

namespace cairn::trainer {

struct DecoderOptions {
  c10::Device device = c10::Device(c10::kCPU);
  bool bfloat16 = false;  // matrix products in bf16; parameters, norms' statistics, softmax and loss stay fp32
  // Every n-th layer keeps only its input and is computed again in backward; 0: none.
  int64_t activation_checkpointing_freq = 0;
  int64_t head_token_chunk_size = 8192;  // most tokens whose logits exist at once; 0: all
  bool plain_layers = false;             // ATen's own operations on the CPU too; tests compare with them
};

struct NamedParameter {
  std::string name;   // Hugging Face's
  at::Tensor tensor;  // fp32, contiguous, on the model's device; its grad() is always there
};

struct LossSum {
  at::Tensor sum;     // fp32 scalar: cross-entropy summed over the targets that count, in nats
  int64_t count = 0;  // such targets
};

class Decoder {
 public:
  // Weights are uninitialised until init_random or a load into the parameters; gradients are zero. limit_exceeded when
  // memory is short.
  static Result<std::unique_ptr<Decoder>> create(const DecoderSpec& spec, const DecoderOptions& options);
  virtual ~Decoder() = default;

  virtual const DecoderSpec& spec() const = 0;
  virtual const std::vector<NamedParameter>& named_parameters() const = 0;

  // All parameters one after another, and all gradients: fp32, one dimension. The named tensors and their grad() are
  // views of them, so clipping, sums over processes and optimizers may work on the whole at once. Gradients must stay
  // these views: set them to zero (zero_gradients), never to none.
  virtual at::Tensor flat_parameters() const = 0;
  virtual at::Tensor flat_gradients() const = 0;
  virtual void zero_gradients() = 0;

  // Matrices normal(0, initializer_range), norms 1, biases 0. The same weights for the same seed on every machine
  // (initializer.h says how).
  virtual Status init_random(uint64_t seed) = 0;

  // Must be called after parameters were written.
  virtual void parameters_changed() = 0;

  // Forward and backward: adds the gradient of `scale` times the returned sum to the gradients. The way to train;
  // nothing of the graph is left. data_invalid when ids or lengths do not fit the model.
  virtual Result<LossSum> loss_and_gradients(const dataset::Row& row, double scale = 1) = 0;
  // Forward alone; the sum is differentiable unless under at::NoGradGuard (validation wants the guard).
  virtual Result<LossSum> loss_sum(const dataset::Row& row) = 0;
  // fp32 [tokens, vocab_size]; for tests and small rows.
  virtual Result<at::Tensor> logits(const dataset::Row& row) = 0;
};

}  // namespace cairn::trainer
