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
};

struct NamedParameter {
  std::string name;   // Hugging Face's
  at::Tensor tensor;  // fp32, contiguous, on the model's device
};

struct LossSum {
  at::Tensor sum;     // fp32 scalar: cross-entropy summed over the targets that count, in nats; differentiable unless
                      // under no_grad
  int64_t count = 0;  // such targets
};

class Decoder {
 public:
  // Weights are uninitialised until init_random or a load into the parameters. limit_exceeded when memory is short.
  static Result<std::unique_ptr<Decoder>> create(const DecoderSpec& spec, const DecoderOptions& options);
  virtual ~Decoder() = default;

  virtual const DecoderSpec& spec() const = 0;
  virtual const std::vector<NamedParameter>& named_parameters() const = 0;

  // Matrices normal(0, initializer_range), norms 1, biases 0. The same weights for the same seed on every machine
  // (initializer.h says how).
  virtual Status init_random(uint64_t seed) = 0;

  // Must be called after parameters were written otherwise than through torch's own in-place operations.
  virtual void parameters_changed() = 0;

  // data_invalid when ids or lengths do not fit the model. A row without a target that counts gives a zero that has a
  // graph.
  virtual Result<LossSum> loss_sum(const dataset::Row& row) = 0;
  // fp32 [tokens, vocab_size]; for tests and small rows.
  virtual Result<at::Tensor> logits(const dataset::Row& row) = 0;
};

}  // namespace cairn::trainer
