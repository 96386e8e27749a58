// Each operation of the CPU against the same formula in ATen's differentiable operations, in double where that is the
// better judge; for all instruction sets this CPU has.
#include "trainer/cpu_ops.h"

#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <limits>

#include <ATen/ATen.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "trainer/cpu_attention.h"
#include "trainer/cpu_kernels.h"
#include "trainer/head_loss.h"
#include "trainer/small_product.h"

namespace cairn::trainer {
namespace {

// |left - right| over the largest of |right|.
double difference(const at::Tensor& left, const at::Tensor& right) {
  at::Tensor a = left.detach().to(at::kDouble), b = right.detach().to(at::kDouble);
  return (a - b).abs().max().item<double>() / (b.abs().max().item<double>() + 1e-30);
}

double tolerance(at::ScalarType type) {
  return type == at::kFloat ? 1e-5 : 0.02;
}

Weight make_weight(const at::Tensor& value) {
  at::Tensor grad = at::zeros_like(value), leaf = value.detach().set_requires_grad(true);
  return {value, value, grad, leaf};
}

class CpuOps : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(3); }
  // Random values that the compute type can hold.
  static at::Tensor random(at::IntArrayRef shape) { return at::randn(shape).to(GetParam()); }
  static at::Tensor leaf(const at::Tensor& value) { return value.to(at::kDouble).detach().set_requires_grad(true); }
};
INSTANTIATE_TEST_SUITE_P(Types, CpuOps, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& one) { return one.param == at::kFloat ? "Float" : "Bfloat16"; });

TEST_P(CpuOps, NormOfASum) {
  for (int64_t size : {1, 7, 64, 257}) {
    at::Tensor x = at::randn({5, size}), delta = random({5, size}), dy = random({5, size}),
               residual = at::randn({5, size});
    Weight weight = make_weight(1 + 0.3 * at::randn({size}));
    Normed normed = cpu_norm(x, delta, weight, 1e-5, GetParam());
    at::Tensor dx = cpu_norm_backward(dy, normed.x, normed.rstd, weight, residual);

    at::Tensor sum = leaf(x.to(at::kDouble) + delta.to(at::kDouble)), w = leaf(weight.value);
    at::Tensor y = sum * at::rsqrt(sum.pow(2).mean(-1, true) + 1e-5) * w;
    y.backward(dy.to(at::kDouble));
    EXPECT_LT(difference(normed.x, sum), 1e-6);
    EXPECT_LT(difference(normed.y, y), tolerance(GetParam())) << size;
    EXPECT_TRUE(cpu_norm_again(normed.x, normed.rstd, weight, GetParam()).equal(normed.y));
    EXPECT_LT(difference(dx, residual + sum.grad()), 2e-5) << size;
    EXPECT_LT(difference(weight.grad, w.grad()), 2e-5) << size;
    EXPECT_TRUE(cpu_norm(normed.x, {}, weight, 1e-5, GetParam()).y.equal(normed.y));
  }
}

TEST_P(CpuOps, Swiglu) {
  for (int64_t size : {1, 9, 160}) {
    at::Tensor gate_up = random({6, 2 * size}), dy = random({6, size});
    at::Tensor y = cpu_swiglu(gate_up), dy_then_y = dy.clone();
    at::Tensor d_gate_up = cpu_swiglu_backward(gate_up, dy_then_y);
    EXPECT_TRUE(dy_then_y.equal(y));
    at::Tensor exact = leaf(gate_up);
    at::Tensor expected = at::silu(exact.narrow(1, 0, size)) * exact.narrow(1, size, size);
    expected.backward(dy.to(at::kDouble));
    EXPECT_LT(difference(y, expected), tolerance(GetParam())) << size;
    EXPECT_LT(difference(d_gate_up, exact.grad()), tolerance(GetParam())) << size;
  }
}

TEST_P(CpuOps, SwigluOfLargeNumbers) {
  at::Tensor gate_up =
      at::tensor({-200.0f, -30.0f, 0.0f, 30.0f, 200.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f}).view({1, 10}).to(GetParam());
  at::Tensor y = cpu_swiglu(gate_up).to(at::kFloat);
  EXPECT_LT(difference(y, at::tensor({0.0f, 0.0f, 0.0f, 30.0f, 200.0f}).view({1, 5})), 1e-6);
}

TEST_P(CpuOps, CrossEntropy) {
  for (int64_t size : {1, 10, 515}) {
    at::Tensor logits = 3 * at::randn({7, size}).to(GetParam()), targets = at::randint(size, {7}, at::kLong);
    at::Tensor exact = leaf(logits), gradient = logits.clone(), untouched = logits.clone();
    at::Tensor expected = at::nll_loss(at::log_softmax(exact, 1), targets, {}, at::Reduction::Sum);
    (0.5 * expected).backward();
    EXPECT_NEAR(cpu_cross_entropy(gradient, targets, 0.5), expected.item<double>(),
                1e-5 * (expected.item<double>() + 1));
    EXPECT_LT(difference(gradient, exact.grad()), size == 1 ? 1 : tolerance(GetParam())) << size;
    cpu_cross_entropy(untouched, targets, 0);
    EXPECT_TRUE(untouched.equal(logits));
  }
}

TEST_P(CpuOps, CrossEntropyOfExtremesAndNan) {
  at::Tensor logits = at::tensor({1e4f, -1e4f, 0.0f}).view({1, 3}).to(GetParam()), targets = at::ones({1}, at::kLong);
  const double expected = logits[0][0].item<double>() - logits[0][1].item<double>();
  EXPECT_NEAR(cpu_cross_entropy(logits, targets, 1), expected, 1e-5 * expected);
  EXPECT_LT(difference(logits, at::tensor({1.0f, -1.0f, 0.0f}).view({1, 3})), 1e-6);
  at::Tensor bad = at::tensor({0.0f, std::numeric_limits<float>::quiet_NaN(), 1.0f}).view({1, 3}).to(GetParam());
  EXPECT_TRUE(std::isnan(cpu_cross_entropy(bad, targets, 1)));
}

TEST_P(CpuOps, SumsAndConversions) {
  for (int64_t count : {1, 31, 40000}) {
    at::Tensor x = at::randn({count}), delta = random({count}), to = x.clone();
    EXPECT_TRUE(cpu_add(x, delta).equal(x + delta.to(at::kFloat)));
    cpu_accumulate(to, delta);
    EXPECT_TRUE(to.equal(x + delta.to(at::kFloat)));
    EXPECT_TRUE(cpu_narrow(x, GetParam()).equal(x.to(GetParam())));
  }
  at::Tensor special = at::tensor({INFINITY, -INFINITY, 3.4e38f, -0.0f, 1e-40f});
  EXPECT_TRUE(cpu_narrow(special, GetParam()).to(at::kFloat).equal(special.to(GetParam()).to(at::kFloat)));
  EXPECT_TRUE(cpu_narrow(at::tensor({NAN}), GetParam()).isnan().all().item<bool>());
}

TEST(CpuRows, AddUpInTheirPlaces) {
  for (int64_t size : {3, 200}) {
    at::Tensor grad = at::randn({11, size}), rows = at::randn({50, size}), ids = at::randint(11, {50}, at::kLong);
    at::Tensor expected = grad.clone().index_add_(0, ids, rows);
    cpu_add_rows(grad, ids, rows);
    EXPECT_LT(difference(grad, expected), 1e-6);
  }
}

// Norm, rotation and attention against their definition.
TEST_P(CpuOps, Attention) {
  const char* config =
      R"({"model_type":"qwen3","vocab_size":9,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,
    "num_attention_heads":4,"num_key_value_heads":2,"head_dim":6,"rope_theta":100})";
  for (bool normed : {true, false}) {
    for (const std::vector<int64_t>& starts : {std::vector<int64_t>{0, 5}, {0, 64, 129}, {0, 1, 131}}) {
      LayerContext context{*parse_decoder_spec(config, "x"), {}, {}, GetParam()};
      context.row.starts = starts;
      const int64_t tokens = starts.back();
      std::vector<int64_t> positions;
      for (size_t i = 1; i < starts.size(); ++i) {
        context.row.longest = std::max(context.row.longest, starts[i] - starts[i - 1]);
        for (int64_t p = 0; p < starts[i] - starts[i - 1]; ++p) positions.push_back(p);
      }
      context.row.positions = at::tensor(positions, at::kLong);
      context.rope = make_rope_table(context.spec, context.row.longest, at::kCPU);
      LayerWeights weights;
      if (normed)
        weights.q_norm = make_weight(1 + 0.3 * at::randn({6})), weights.k_norm = make_weight(1 + 0.3 * at::randn({6}));
      at::Tensor qkv = random({tokens, 8 * 6}), dout = random({tokens, 4 * 6});
      AttentionResult result = cpu_attention_forward(context, weights, qkv);
      at::Tensor dqkv = cpu_attention_backward(context, weights, qkv, result, dout);

      at::Tensor exact = qkv.to(at::kFloat).detach().set_requires_grad(true);
      auto part = [&](int64_t first, int64_t count) {
        return exact.narrow(1, first * 6, count * 6).reshape({tokens, count, 6});
      };
      at::Tensor q = part(0, 4), k = part(4, 2), v = part(6, 2);
      if (normed) q = plain_rms_norm(q, weights.q_norm.leaf, 1e-6), k = plain_rms_norm(k, weights.k_norm.leaf, 1e-6);
      at::Tensor expected = plain_attention(plain_rope(q, context.rope, context.row.positions),
                                            plain_rope(k, context.rope, context.row.positions), v, context.row);
      expected.backward(dout.to(at::kFloat));
      EXPECT_LT(difference(result.out, expected), tolerance(GetParam()));
      EXPECT_LT(difference(dqkv, exact.grad()), tolerance(GetParam()));
      if (!normed) continue;
      EXPECT_LT(difference(weights.q_norm.grad, weights.q_norm.leaf.grad()), tolerance(GetParam()));
      EXPECT_LT(difference(weights.k_norm.grad, weights.k_norm.leaf.grad()), tolerance(GetParam()));
    }
  }
}

TEST(HeadLoss, EagerAndLazyGradientsAgree) {
  for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    at::Tensor h = at::randn({37, 12}).to(type), targets = at::randint(50, {37}, at::kLong),
               value = at::randn({50, 12}).to(type);
    at::Tensor exact_h = h.to(at::kDouble).detach().set_requires_grad(true),
               exact_w = value.to(at::kDouble).set_requires_grad(true);
    at::Tensor expected =
        at::nll_loss(at::log_softmax(at::mm(exact_h, exact_w.t()), 1), targets, {}, at::Reduction::Sum);
    (0.25 * expected).backward();
    for (bool eager : {false, true}) {
      Weight head = make_weight(value.to(at::kFloat));
      head.compute = value;
      at::Tensor input = h.detach().set_requires_grad(true);
      at::Tensor loss = head_loss(input, head, targets, {10, eager, 0.25});
      eager ? loss.backward() : (0.25 * loss).backward();
      EXPECT_LT(difference(loss, expected), tolerance(type));
      EXPECT_LT(difference(input.grad(), exact_h.grad()), tolerance(type)) << eager;
      EXPECT_LT(difference(head.grad, exact_w.grad()), tolerance(type)) << eager;
    }
  }
}

TEST(HeadLoss, ChunksAreBounded) {
  EXPECT_EQ(head_chunk_tokens(8192, 151936, 4, true), 128);  // 74 MiB of logits
  EXPECT_EQ(head_chunk_tokens(8192, 8192, 4, true), 2048);
  EXPECT_EQ(head_chunk_tokens(100, 8192, 4, true), 100);
  EXPECT_EQ(head_chunk_tokens(0, 51, 4, true), 328965);
  EXPECT_EQ(head_chunk_tokens(8192, 151936, 2, false), 3533);
}

// The logits of these tokens would take 622 MB.
TEST(HeadLoss, AWideVocabularyNeedsLittleMemory) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer's own memory cannot be told from the program's";
#endif
  Weight head = make_weight(0.1 * at::randn({151936, 4}));
  at::Tensor h = at::randn({1024, 4}).set_requires_grad(true), targets = at::randint(151936, {1024}, at::kLong);
  auto most_resident_kib = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = most_resident_kib();
  head_loss(h, head, targets, {8192, true, 1}).backward();
#if defined(__SANITIZE_ADDRESS__)
  const long growth_kib_max = 500 * 1024;  // what was freed stays for a while
#else
  const long growth_kib_max = 300 * 1024;
#endif
  EXPECT_LT(most_resident_kib() - before, growth_kib_max);
  EXPECT_GT(h.grad().abs().sum().item<double>(), 0);
}

TEST(SmallProduct, AllTranspositions) {
  for (Transposed left : {Transposed::kNo, Transposed::kYes}) {
    for (Transposed right : {Transposed::kNo, Transposed::kYes}) {
      const int64_t m = 5, n = 7, k = 3;
      at::Tensor a = left == Transposed::kYes ? at::randn({k, m + 2}) : at::randn({m, k + 2});
      at::Tensor b = right == Transposed::kYes ? at::randn({n, k + 1}) : at::randn({k, n + 1});
      at::Tensor c = at::randn({m, n + 4}), before = c.clone();
      small_product(left, right, m, n, k, a.data_ptr<float>(), a.size(1), b.data_ptr<float>(), b.size(1), 0.5f,
                    c.data_ptr<float>(), c.size(1));
      at::Tensor op_a = left == Transposed::kYes ? a.narrow(1, 0, m).t() : a.narrow(1, 0, k);
      at::Tensor op_b = right == Transposed::kYes ? b.narrow(1, 0, k).t() : b.narrow(1, 0, n);
      before.narrow(1, 0, n).mul_(0.5).add_(at::mm(op_a, op_b));
      EXPECT_LT(difference(c, before), 1e-6);
    }
  }
}

// The sets differ in the last bits of sums only.
TEST(CpuKernels, AllInstructionSetsAgree) {
#if defined(__x86_64__)
  std::vector<const CpuKernelSet*> sets = {&kBaselineKernels};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(&kAvx2Kernels);
  if (std::string(cpu_kernels().name) == "avx512") sets.push_back(&kAvx512Kernels);
  const int64_t size = 77;
  at::Tensor logits = 4 * at::randn({3, size}), targets = at::randint(size, {3}, at::kLong),
             gate_up = 5 * at::randn({3, 2 * size});
  at::Tensor first_gradient, first_y;
  for (const CpuKernelSet* set : sets) {
    at::Tensor gradient = logits.clone(), y = at::empty({3, size});
    set->fp32.cross_entropy(3, size, gradient.data_ptr<float>(), targets.data_ptr<int64_t>(), 1);
    set->fp32.swiglu_forward(3, size, gate_up.data_ptr<float>(), y.data_ptr<float>());
    if (!first_y.defined()) first_gradient = gradient, first_y = y;
    EXPECT_LT(difference(gradient, first_gradient), 1e-6) << set->name;
    EXPECT_LT(difference(y, first_y), 1e-6) << set->name;
  }
#else
  GTEST_SKIP() << "one set of kernels on this kind of CPU";
#endif
}

}  // namespace
}  // namespace cairn::trainer
