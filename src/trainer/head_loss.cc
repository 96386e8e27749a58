#include "trainer/head_loss.h"

#include <algorithm>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trainer/products.h"

namespace cairn::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// What a Function keeps besides its tensors.
struct HeadCall : torch::CustomClassHolder {
  Weight head;
  HeadSettings settings;
};

struct EmbeddingCall : torch::CustomClassHolder {
  Weight embedding;
};

// The summed loss of all rows of `h`. With `scale` != 0 also adds the gradients: to the head's, and into `dh`.
double loss_in_chunks(const HeadCall& call, const at::Tensor& h, const at::Tensor& targets, double scale,
                      at::Tensor dh) {
  const at::Tensor& weight = call.head.compute;
  const int64_t count = h.size(0);
  const int64_t chunk = head_chunk_tokens(call.settings.token_chunk_size, weight.size(0),
                                          static_cast<int64_t>(h.element_size()), h.device().is_cpu());
  double loss = 0;
  for (int64_t begin = 0; begin < count; begin += chunk) {
    const int64_t size = std::min(chunk, count - begin);
    at::Tensor part = h.narrow(0, begin, size);
    at::Tensor logits = at::mm(part, weight.t());
    loss += cross_entropy_rows(logits, targets.narrow(0, begin, size), scale);
    if (scale == 0) continue;
    at::Tensor dpart = dh.narrow(0, begin, size);
    at::mm_out(dpart, logits, weight);
    add_product(call.head.grad, logits, part);
  }
  return loss;
}

struct HeadLossFunction : torch::autograd::Function<HeadLossFunction> {
  static Variable forward(AutogradContext* ctx, const Variable& h, const Variable& targets,
                          const c10::intrusive_ptr<HeadCall>& call) {
    const bool eager = call->settings.eager_gradients && h.requires_grad();
    at::Tensor dh = eager ? at::empty_like(h) : at::Tensor();
    double loss = loss_in_chunks(*call, h, targets, eager ? call->settings.scale : 0, dh);
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    if (eager) {
      ctx->saved_data["dh"] = dh;
    } else {
      ctx->save_for_backward({h, targets});
    }
    return at::scalar_tensor(loss, h.options().dtype(at::kFloat));
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto call = c10::static_intrusive_pointer_cast<HeadCall>(ctx->saved_data["call"].toCapsule());
    if (call->settings.eager_gradients) {
      at::Tensor dh = ctx->saved_data["dh"].toTensor();
      ctx->saved_data.clear();
      return {dh, Variable(), Variable()};
    }
    variable_list saved = ctx->get_saved_variables();
    at::Tensor dh = at::empty_like(saved[0]);
    // The sum's gradient is one number; zero still has to give zeros.
    const double scale = grads[0].item<double>();
    if (scale == 0) return {dh.zero_(), Variable(), Variable()};
    loss_in_chunks(*call, saved[0], saved[1], scale, dh);
    return {dh, Variable(), Variable()};
  }
};

struct EmbeddingFunction : torch::autograd::Function<EmbeddingFunction> {
  static Variable forward(AutogradContext* ctx, const Variable& weight, const Variable& ids,
                          const c10::intrusive_ptr<EmbeddingCall>& call) {
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    ctx->save_for_backward({ids});
    return weight.index_select(0, ids);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto call = c10::static_intrusive_pointer_cast<EmbeddingCall>(ctx->saved_data["call"].toCapsule());
    add_rows(call->embedding.grad, ctx->get_saved_variables()[0], grads[0].contiguous());
    return {Variable(), Variable(), Variable()};
  }
};

}  // namespace

int64_t head_chunk_tokens(int64_t token_chunk_size, int64_t vocab_size, int64_t element_bytes, bool on_cpu) {
  const int64_t logits_bytes = int64_t{on_cpu ? 64 : 1024} << 20;
  const int64_t tokens = std::max<int64_t>(128, logits_bytes / (vocab_size * element_bytes));
  return token_chunk_size > 0 ? std::min(tokens, token_chunk_size) : tokens;
}

at::Tensor embed(const Weight& embedding, const at::Tensor& ids) {
  auto call = c10::make_intrusive<EmbeddingCall>();
  call->embedding = embedding;
  return EmbeddingFunction::apply(embedding.leaf, ids, call);
}

at::Tensor head_loss(const at::Tensor& h, const Weight& head, const at::Tensor& targets, const HeadSettings& settings) {
  auto call = c10::make_intrusive<HeadCall>();
  call->head = head;
  call->settings = settings;
  return HeadLossFunction::apply(h, targets, call);
}

}  // namespace cairn::trainer
