#include "trainer/cpu_ops.h"

#include <vector>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include "trainer/cpu_kernels.h"

namespace cairn::trainer {
namespace {

// Elements below which one more thread does not pay.
constexpr int64_t kGrain = 16384;

int64_t row_grain(int64_t size) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, size));
}

float* floats(const at::Tensor& tensor) {
  return tensor.data_ptr<float>();
}

template <class Element>
Element* elements(const at::Tensor& tensor) {
  return static_cast<Element*>(tensor.data_ptr());
}

// Calls f with a null pointer of the element type.
template <class Function>
auto with_element(at::ScalarType type, const Function& f) {
  return type == at::kFloat ? f(static_cast<float*>(nullptr)) : f(static_cast<Bfloat16*>(nullptr));
}

template <class Pointer>
using ElementOf = std::remove_pointer_t<Pointer>;

// f(begin, end) for parts of `count` elements.
template <class Function>
void for_elements(int64_t count, const Function& f) {
  at::parallel_for(0, count, kGrain, f);
}

}  // namespace

Normed cpu_norm(const at::Tensor& x, const at::Tensor& delta, const Weight& weight, double eps, at::ScalarType type) {
  const int64_t rows = x.size(0), size = x.size(1);
  Normed normed{delta.defined() ? at::empty_like(x) : x, at::empty({rows}, x.options()), at::empty({rows, size}, type)};
  with_element(type, [&](auto* null) {
    using Element = ElementOf<decltype(null)>;
    at::parallel_for(0, rows, row_grain(size), [&](int64_t begin, int64_t end) {
      const int64_t at = begin * size;
      cpu_kernels_of<Element>().norm_forward(end - begin, size, floats(x) + at,
                                             delta.defined() ? elements<Element>(delta) + at : nullptr,
                                             floats(weight.value), static_cast<float>(eps), floats(normed.x) + at,
                                             floats(normed.rstd) + begin, elements<Element>(normed.y) + at);
    });
  });
  return normed;
}

at::Tensor cpu_norm_again(const at::Tensor& x, const at::Tensor& rstd, const Weight& weight, at::ScalarType type) {
  const int64_t rows = x.size(0), size = x.size(1);
  at::Tensor y = at::empty({rows, size}, type);
  with_element(type, [&](auto* null) {
    using Element = ElementOf<decltype(null)>;
    at::parallel_for(0, rows, row_grain(size), [&](int64_t begin, int64_t end) {
      cpu_kernels_of<Element>().norm_again(end - begin, size, floats(x) + begin * size, floats(rstd) + begin,
                                           floats(weight.value), elements<Element>(y) + begin * size);
    });
  });
  return y;
}

at::Tensor cpu_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd, const Weight& weight,
                             const at::Tensor& residual) {
  const int64_t rows = x.size(0), size = x.size(1), threads = at::get_num_threads();
  at::Tensor dx = at::empty_like(x);
  std::vector<float> dw(static_cast<size_t>(threads * size));
  with_element(dy.scalar_type(), [&](auto* null) {
    using Element = ElementOf<decltype(null)>;
    at::parallel_for(0, rows, row_grain(size), [&](int64_t begin, int64_t end) {
      const int64_t at = begin * size;
      cpu_kernels_of<Element>().norm_backward(end - begin, size, elements<Element>(dy) + at, floats(x) + at,
                                              floats(rstd) + begin, floats(weight.value), floats(residual) + at,
                                              floats(dx) + at, dw.data() + at::get_thread_num() * size);
    });
  });
  for (int64_t thread = 0; thread < threads; ++thread) {
    cpu_kernels().fp32.accumulate(size, dw.data() + thread * size, floats(weight.grad));
  }
  return dx;
}

at::Tensor cpu_swiglu(const at::Tensor& gate_up) {
  const int64_t rows = gate_up.size(0), size = gate_up.size(1) / 2;
  at::Tensor y = at::empty({rows, size}, gate_up.options());
  with_element(gate_up.scalar_type(), [&](auto* null) {
    using Element = ElementOf<decltype(null)>;
    at::parallel_for(0, rows, row_grain(size), [&](int64_t begin, int64_t end) {
      cpu_kernels_of<Element>().swiglu_forward(end - begin, size, elements<Element>(gate_up) + 2 * begin * size,
                                               elements<Element>(y) + begin * size);
    });
  });
  return y;
}

at::Tensor cpu_swiglu_backward(const at::Tensor& gate_up, at::Tensor& dy_then_y) {
  const int64_t rows = gate_up.size(0), size = gate_up.size(1) / 2;
  at::Tensor d_gate_up = at::empty_like(gate_up);
  with_element(gate_up.scalar_type(), [&](auto* null) {
    using Element = ElementOf<decltype(null)>;
    at::parallel_for(0, rows, row_grain(size), [&](int64_t begin, int64_t end) {
      cpu_kernels_of<Element>().swiglu_backward(end - begin, size, elements<Element>(gate_up) + 2 * begin * size,
                                                elements<Element>(dy_then_y) + begin * size,
                                                elements<Element>(d_gate_up) + 2 * begin * size);
    });
  });
  return d_gate_up;
}

at::Tensor cpu_add(const at::Tensor& x, const at::Tensor& delta) {
  at::Tensor out = at::empty_like(x);
  with_element(delta.scalar_type(), [&](auto* null) {
    using Element = ElementOf<decltype(null)>;
    for_elements(x.numel(), [&](int64_t begin, int64_t end) {
      cpu_kernels_of<Element>().add(end - begin, floats(x) + begin, elements<Element>(delta) + begin,
                                    floats(out) + begin);
    });
  });
  return out;
}

at::Tensor cpu_narrow(const at::Tensor& x, at::ScalarType type) {
  if (type == at::kFloat) return x;
  at::Tensor out = at::empty(x.sizes(), type);
  for_elements(x.numel(), [&](int64_t begin, int64_t end) {
    cpu_kernels().bf16.narrow(end - begin, floats(x) + begin, elements<Bfloat16>(out) + begin);
  });
  return out;
}

void cpu_accumulate(const at::Tensor& to, const at::Tensor& from) {
  with_element(from.scalar_type(), [&](auto* null) {
    using Element = ElementOf<decltype(null)>;
    for_elements(to.numel(), [&](int64_t begin, int64_t end) {
      cpu_kernels_of<Element>().accumulate(end - begin, elements<Element>(from) + begin, floats(to) + begin);
    });
  });
}

// Threads share the columns, so each gradient is added to by one of them.
void cpu_add_rows(const at::Tensor& grad, const at::Tensor& ids, const at::Tensor& rows) {
  const int64_t count = ids.size(0), size = grad.size(1);
  const int64_t* id = ids.data_ptr<int64_t>();
  at::parallel_for(0, size, std::max<int64_t>(64, kGrain / std::max<int64_t>(1, count)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = 0; i < count; ++i) {
                       cpu_kernels().fp32.accumulate(end - begin, floats(rows) + i * size + begin,
                                                     floats(grad) + id[i] * size + begin);
                     }
                   });
}

double cpu_cross_entropy(at::Tensor& logits, const at::Tensor& targets, double scale) {
  const int64_t rows = logits.size(0), size = logits.size(1);
  std::vector<double> losses(static_cast<size_t>(at::get_num_threads()));
  with_element(logits.scalar_type(), [&](auto* null) {
    using Element = ElementOf<decltype(null)>;
    at::parallel_for(0, rows, row_grain(size), [&](int64_t begin, int64_t end) {
      losses[static_cast<size_t>(at::get_thread_num())] +=
          cpu_kernels_of<Element>().cross_entropy(end - begin, size, elements<Element>(logits) + begin * size,
                                                  targets.data_ptr<int64_t>() + begin, static_cast<float>(scale));
    });
  });
  double sum = 0;
  for (double loss : losses) sum += loss;
  return sum;
}

}  // namespace cairn::trainer
