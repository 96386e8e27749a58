#include "trainer/cpu_attention.h"

#include <cmath>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include "trainer/cpu_kernels.h"
#include "trainer/small_product.h"

namespace cairn::trainer {
namespace {

constexpr int64_t kQueryBlock = 64;

using enum Transposed;

// One pass over all heads and sequences of a row.
template <class Element>
class Attention {
 public:
  Attention(const LayerContext& context, const LayerWeights& weights, const at::Tensor& qkv)
      : spec_(context.spec),
        starts_(context.row.starts),
        cos_(context.rope.cos.data_ptr<float>()),
        sin_(context.rope.sin.data_ptr<float>()),
        q_norm_(weights.q_norm.defined() ? weights.q_norm.value.data_ptr<float>() : nullptr),
        k_norm_(weights.k_norm.defined() ? weights.k_norm.value.data_ptr<float>() : nullptr),
        qkv_(static_cast<const Element*>(qkv.data_ptr())),
        stride_(qkv.size(1)),
        tokens_(qkv.size(0)),
        scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(spec_.head_dim)))) {
    auto floats = at::TensorOptions().dtype(at::kFloat);
    keys_ = at::empty({spec_.num_kv_heads, tokens_, dim()}, floats);
    values_ = at::empty({spec_.num_kv_heads, tokens_, dim()}, floats);
    for_units(spec_.num_kv_heads, [&](int64_t head, int64_t start, int64_t length) {
      const Element* k = qkv_ + start * stride_ + (spec_.num_heads + head) * dim();
      kernels_.rope_forward(length, dim(), k, stride_, k_norm_, eps(), cos_, sin_, 1, at(keys_, head, start));
      kernels_.gather(length, dim(), k + spec_.num_kv_heads * dim(), stride_, at(values_, head, start));
    });
  }

  AttentionResult forward(at::ScalarType type) {
    AttentionResult result{at::empty({tokens_, spec_.num_heads * dim()}, type),
                           at::empty({spec_.num_heads, tokens_}, at::TensorOptions().dtype(at::kFloat))};
    auto* out = static_cast<Element*>(result.out.data_ptr());
    for_units(spec_.num_heads, [&](int64_t head, int64_t start, int64_t length) {
      const float *k = at(keys_, kv_of(head), start), *v = at(values_, kv_of(head), start);
      float* log_sum = result.log_sum.data_ptr<float>() + head * tokens_ + start;
      std::vector<float> q(kQueryBlock * dim()), mixed(kQueryBlock * dim()), scores(kQueryBlock * length);
      for (int64_t first = 0; first < length; first += kQueryBlock) {
        const int64_t rows = std::min(kQueryBlock, length - first), width = first + rows;
        load_queries(head, start, first, rows, q.data());
        small_product(kNo, kYes, rows, width, dim(), q.data(), dim(), k, dim(), 0, scores.data(), width);
        attention_.softmax(rows, first, width, width, scores.data(), log_sum + first);
        small_product(kNo, kNo, rows, dim(), width, scores.data(), width, v, dim(), 0, mixed.data(), dim());
        kernels_.scatter(rows, dim(), mixed.data(), out + (start + first) * out_stride() + head * dim(), out_stride());
      }
    });
    return result;
  }

  at::Tensor backward(const AttentionResult& result, const at::Tensor& dout, const LayerWeights& weights) {
    at::Tensor dqkv = at::empty({tokens_, stride_}, dout.options());
    auto* din = static_cast<Element*>(dqkv.data_ptr());
    auto floats = at::TensorOptions().dtype(at::kFloat);
    dkeys_ = at::empty({spec_.num_heads, tokens_, dim()}, floats);
    dvalues_ = at::empty({spec_.num_heads, tokens_, dim()}, floats);
    const int64_t threads = at::get_num_threads();
    std::vector<float> dq_norm(threads * dim()), dk_norm(threads * dim());
    for_units(spec_.num_heads, [&](int64_t head, int64_t start, int64_t length) {
      backward_unit(head, start, length, result, static_cast<const Element*>(dout.data_ptr()), din,
                    dq_norm.data() + at::get_thread_num() * dim());
    });
    for_units(spec_.num_kv_heads, [&](int64_t head, int64_t start, int64_t length) {
      const int64_t group = spec_.num_heads / spec_.num_kv_heads;
      float *dk = at(dkeys_, head * group, start), *dv = at(dvalues_, head * group, start);
      for (int64_t other = 1; other < group; ++other) {
        fp32_.accumulate(length * dim(), at(dkeys_, head * group + other, start), dk);
        fp32_.accumulate(length * dim(), at(dvalues_, head * group + other, start), dv);
      }
      const int64_t offset = start * stride_ + (spec_.num_heads + head) * dim();
      kernels_.rope_backward(length, dim(), qkv_ + offset, stride_, k_norm_, eps(), cos_, sin_, 1, dk, din + offset,
                             dk_norm.data() + at::get_thread_num() * dim());
      kernels_.scatter(length, dim(), dv, din + offset + spec_.num_kv_heads * dim(), stride_);
    });
    for (int64_t thread = 0; thread < threads && q_norm_ != nullptr; ++thread) {
      fp32_.accumulate(dim(), dq_norm.data() + thread * dim(), weights.q_norm.grad.data_ptr<float>());
      fp32_.accumulate(dim(), dk_norm.data() + thread * dim(), weights.k_norm.grad.data_ptr<float>());
    }
    return dqkv;
  }

 private:
  void backward_unit(int64_t head, int64_t start, int64_t length, const AttentionResult& result, const Element* dout,
                     Element* din, float* dq_norm) {
    const float *k = at(keys_, kv_of(head), start), *v = at(values_, kv_of(head), start);
    float *dk = at(dkeys_, head, start), *dv = at(dvalues_, head, start);
    std::fill(dk, dk + length * dim(), 0.0f);
    std::fill(dv, dv + length * dim(), 0.0f);
    const float* log_sum = result.log_sum.data_ptr<float>() + head * tokens_ + start;
    const auto* out = static_cast<const Element*>(result.out.data_ptr());
    std::vector<float> q(kQueryBlock * dim()), mixed(kQueryBlock * dim()), dmixed(kQueryBlock * dim()),
        delta(kQueryBlock), scores(kQueryBlock * length), dscores(kQueryBlock * length);
    for (int64_t first = 0; first < length; first += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, length - first), width = first + rows;
      const int64_t at_out = (start + first) * out_stride() + head * dim();
      load_queries(head, start, first, rows, q.data());
      kernels_.gather(rows, dim(), out + at_out, out_stride(), mixed.data());
      kernels_.gather(rows, dim(), dout + at_out, out_stride(), dmixed.data());
      attention_.row_products(rows, dim(), mixed.data(), dmixed.data(), delta.data());
      small_product(kNo, kYes, rows, width, dim(), q.data(), dim(), k, dim(), 0, scores.data(), width);
      small_product(kNo, kYes, rows, width, dim(), dmixed.data(), dim(), v, dim(), 0, dscores.data(), width);
      attention_.softmax_backward(rows, first, width, width, log_sum + first, delta.data(), scores.data(),
                                  dscores.data());
      small_product(kYes, kNo, width, dim(), rows, scores.data(), width, dmixed.data(), dim(), 1, dv, dim());
      small_product(kYes, kNo, width, dim(), rows, dscores.data(), width, q.data(), dim(), 1, dk, dim());
      float* dq = mixed.data();
      small_product(kNo, kNo, rows, dim(), width, dscores.data(), width, k, dim(), 0, dq, dim());
      const int64_t offset = (start + first) * stride_ + head * dim();
      kernels_.rope_backward(rows, dim(), qkv_ + offset, stride_, q_norm_, eps(), cos_ + first * dim() / 2,
                             sin_ + first * dim() / 2, scale_, dq, din + offset, dq_norm);
    }
  }

  // Queries `first`, … of the sequence at `start`: normed, rotated, scaled.
  void load_queries(int64_t head, int64_t start, int64_t first, int64_t rows, float* q) const {
    kernels_.rope_forward(rows, dim(), qkv_ + (start + first) * stride_ + head * dim(), stride_, q_norm_, eps(),
                          cos_ + first * dim() / 2, sin_ + first * dim() / 2, scale_, q);
  }

  // Calls f(head, start, length) for all heads and sequences, heads spread over threads first: sequences differ in
  // length.
  template <class Function>
  void for_units(int64_t heads, const Function& f) const {
    const auto sequences = static_cast<int64_t>(starts_.size()) - 1;
    at::parallel_for(0, heads * sequences, 1, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const auto sequence = static_cast<size_t>(unit % sequences);
        f(unit / sequences, starts_[sequence], starts_[sequence + 1] - starts_[sequence]);
      }
    });
  }

  float* at(const at::Tensor& heads, int64_t head, int64_t start) const {
    return heads.data_ptr<float>() + (head * tokens_ + start) * dim();
  }
  int64_t dim() const { return spec_.head_dim; }
  int64_t out_stride() const { return spec_.num_heads * dim(); }
  int64_t kv_of(int64_t head) const { return head / (spec_.num_heads / spec_.num_kv_heads); }
  float eps() const { return static_cast<float>(spec_.rms_norm_eps); }

  const CpuKernels<Element>& kernels_ = cpu_kernels_of<Element>();
  const CpuKernels<float>& fp32_ = cpu_kernels().fp32;
  const CpuAttentionKernels& attention_ = cpu_kernels().attention;
  const DecoderSpec& spec_;
  const std::vector<int64_t>& starts_;
  const float *cos_, *sin_, *q_norm_, *k_norm_;
  const Element* qkv_;
  const int64_t stride_, tokens_;
  const float scale_;
  at::Tensor keys_, values_, dkeys_, dvalues_;  // fp32 [heads, tokens, head_dim]
};

}  // namespace

AttentionResult cpu_attention_forward(const LayerContext& context, const LayerWeights& weights, const at::Tensor& qkv) {
  if (qkv.scalar_type() == at::kFloat) return Attention<float>(context, weights, qkv).forward(at::kFloat);
  return Attention<Bfloat16>(context, weights, qkv).forward(at::kBFloat16);
}

at::Tensor cpu_attention_backward(const LayerContext& context, const LayerWeights& weights, const at::Tensor& qkv,
                                  const AttentionResult& result, const at::Tensor& dout) {
  if (qkv.scalar_type() == at::kFloat) return Attention<float>(context, weights, qkv).backward(result, dout, weights);
  return Attention<Bfloat16>(context, weights, qkv).backward(result, dout, weights);
}

}  // namespace cairn::trainer
