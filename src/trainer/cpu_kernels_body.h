// Included by cpu_kernels_{baseline,avx2,avx512}.cc, each compiled for its instructions, after
//   #define CAIRN_KERNEL_SET kAvx2Kernels   and   #define CAIRN_KERNEL_SET_NAME "avx2".
// Everything here has internal linkage and no header of the standard library brings functions in: an inline function
// compiled for AVX-512 and merged by the linker would fault elsewhere.
#pragma once

#include <cstdint>

#include "trainer/cpu_kernels.h"
#include "trainer/cpu_kernels_math.h"

namespace cairn::trainer {
namespace {

template <class Element>
void norm_forward(int64_t rows, int64_t size, const float* x, const Element* delta, const float* w, float eps,
                  float* sum, float* rstd, Element* y) {
  for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
    const float* in = x;
    if (delta != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) sum[i] = x[i] + load(delta + i);
      in = sum;
      delta += size;
      sum += size;
    }
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < size; ++i) squares += in[i] * in[i];
    const float r = 1.0f / __builtin_sqrtf(squares / static_cast<float>(size) + eps);
    rstd[row] = r;
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) store(y + i, in[i] * r * w[i]);
  }
}

template <class Element>
void norm_again(int64_t rows, int64_t size, const float* x, const float* rstd, const float* w, Element* y) {
  for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
    const float r = rstd[row];
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) store(y + i, x[i] * r * w[i]);
  }
}

template <class Element>
void norm_backward(int64_t rows, int64_t size, const Element* dy, const float* x, const float* rstd, const float* w,
                   const float* residual, float* dx, float* dw) {
  for (int64_t row = 0; row < rows; ++row, dy += size, x += size, residual += size, dx += size) {
    const float r = rstd[row];
    float along = 0;
#pragma omp simd reduction(+ : along)
    for (int64_t i = 0; i < size; ++i) along += load(dy + i) * w[i] * x[i];
    const float back = along * r * r * r / static_cast<float>(size);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      const float g = load(dy + i);
      dw[i] += g * x[i] * r;
      dx[i] = residual[i] + g * w[i] * r - x[i] * back;
    }
  }
}

template <class Element>
void add(int64_t count, const float* x, const Element* delta, float* out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] + load(delta + i);
}

template <class Element>
void accumulate(int64_t count, const Element* from, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] += load(from + i);
}

template <class Element>
void narrow(int64_t count, const float* from, Element* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(to + i, from[i]);
}

template <class Element>
void swiglu_forward(int64_t rows, int64_t size, const Element* gate_up, Element* y) {
  for (int64_t row = 0; row < rows; ++row, gate_up += 2 * size, y += size) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      const float gate = load(gate_up + i);
      store(y + i, gate * sigmoid(gate) * load(gate_up + size + i));
    }
  }
}

template <class Element>
void swiglu_backward(int64_t rows, int64_t size, const Element* gate_up, Element* dy, Element* d_gate_up) {
  for (int64_t row = 0; row < rows; ++row, gate_up += 2 * size, dy += size, d_gate_up += 2 * size) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      const float gate = load(gate_up + i), up = load(gate_up + size + i), g = load(dy + i);
      const float s = sigmoid(gate), silu = gate * s;
      store(d_gate_up + i, g * up * (s + silu * (1.0f - s)));
      store(d_gate_up + size + i, g * silu);
      store(dy + i, silu * up);
    }
  }
}

// 1 / sqrt(mean of squares + eps), or 1 without a norm.
template <class Element>
float head_rstd(int64_t size, const Element* in, const float* w, float eps) {
  if (w == nullptr) return 1;
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < size; ++i) squares += load(in + i) * load(in + i);
  return 1.0f / __builtin_sqrtf(squares / static_cast<float>(size) + eps);
}

template <class Element>
void rope_forward(int64_t rows, int64_t size, const Element* in, int64_t stride, const float* w, float eps,
                  const float* cos, const float* sin, float scale, float* out) {
  const int64_t half = size / 2;
  for (int64_t row = 0; row < rows; ++row, in += stride, cos += half, sin += half, out += size) {
    const float r = head_rstd(size, in, w, eps) * scale;
    if (w != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const float a = load(in + i) * r * w[i], b = load(in + half + i) * r * w[half + i];
        out[i] = a * cos[i] - b * sin[i];
        out[half + i] = b * cos[i] + a * sin[i];
      }
    } else {
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const float a = load(in + i) * r, b = load(in + half + i) * r;
        out[i] = a * cos[i] - b * sin[i];
        out[half + i] = b * cos[i] + a * sin[i];
      }
    }
  }
}

template <class Element>
void rope_backward(int64_t rows, int64_t size, const Element* in, int64_t stride, const float* w, float eps,
                   const float* cos, const float* sin, float scale, float* dout, Element* din, float* dw) {
  const int64_t half = size / 2;
  for (int64_t row = 0; row < rows; ++row, in += stride, cos += half, sin += half, dout += size, din += stride) {
    // Back through the rotation, in place.
#pragma omp simd
    for (int64_t i = 0; i < half; ++i) {
      const float a = dout[i] * scale, b = dout[half + i] * scale;
      dout[i] = a * cos[i] + b * sin[i];
      dout[half + i] = b * cos[i] - a * sin[i];
    }
    if (w == nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) store(din + i, dout[i]);
      continue;
    }
    const float r = head_rstd(size, in, w, eps);
    float along = 0;
#pragma omp simd reduction(+ : along)
    for (int64_t i = 0; i < size; ++i) along += dout[i] * w[i] * load(in + i);
    const float back = along * r * r * r / static_cast<float>(size);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      const float x = load(in + i);
      dw[i] += dout[i] * x * r;
      store(din + i, dout[i] * w[i] * r - x * back);
    }
  }
}

template <class Element>
void gather(int64_t rows, int64_t size, const Element* in, int64_t stride, float* out) {
  for (int64_t row = 0; row < rows; ++row, in += stride, out += size) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) out[i] = load(in + i);
  }
}

template <class Element>
void scatter(int64_t rows, int64_t size, const float* in, Element* out, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row, in += size, out += stride) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) store(out + i, in[i]);
  }
}

template <class Element>
double cross_entropy(int64_t rows, int64_t size, Element* logits, const int64_t* targets, float scale) {
  double loss = 0;
  for (int64_t row = 0; row < rows; ++row, logits += size) {
    float largest = load(logits);
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < size; ++i) {
      const float value = load(logits + i);
      largest = value > largest ? value : largest;
    }
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; ++i) sum += exponential(load(logits + i) - largest);
    const float log_sum = largest + logarithm(sum);
    loss += static_cast<double>(log_sum - load(logits + targets[row]));
    if (scale == 0) continue;
    const float factor = scale / sum;
    const float at_target = exponential(load(logits + targets[row]) - largest) * factor - scale;
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) store(logits + i, exponential(load(logits + i) - largest) * factor);
    store(logits + targets[row], at_target);
  }
  return loss;
}

void softmax(int64_t rows, int64_t first, int64_t width, int64_t stride, float* scores, float* log_sum) {
  for (int64_t row = 0; row < rows; ++row, scores += stride) {
    const int64_t count = first + row + 1;
    float largest = scores[0];
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < count; ++i) largest = scores[i] > largest ? scores[i] : largest;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) {
      const float value = exponential(scores[i] - largest);
      scores[i] = value;
      sum += value;
    }
    const float factor = 1.0f / sum;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) scores[i] *= factor;
    for (int64_t i = count; i < width; ++i) scores[i] = 0;
    log_sum[row] = largest + logarithm(sum);
  }
}

void softmax_backward(int64_t rows, int64_t first, int64_t width, int64_t stride, const float* log_sum,
                      const float* delta, float* scores, float* dp) {
  for (int64_t row = 0; row < rows; ++row, scores += stride, dp += stride) {
    const int64_t count = first + row + 1;
    const float base = log_sum[row], shift = delta[row];
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float p = exponential(scores[i] - base);
      scores[i] = p;
      dp[i] = p * (dp[i] - shift);
    }
    for (int64_t i = count; i < width; ++i) scores[i] = dp[i] = 0;
  }
}

void row_products(int64_t rows, int64_t size, const float* a, const float* b, float* delta) {
  for (int64_t row = 0; row < rows; ++row, a += size, b += size) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
    delta[row] = sum;
  }
}

template <class Element>
constexpr CpuKernels<Element> kernels_of() {
  return {norm_forward<Element>, norm_again<Element>,    norm_backward<Element>,  add<Element>,
          accumulate<Element>,   narrow<Element>,        swiglu_forward<Element>, swiglu_backward<Element>,
          rope_forward<Element>, rope_backward<Element>, gather<Element>,         scatter<Element>,
          cross_entropy<Element>};
}

}  // namespace

const CpuKernelSet CAIRN_KERNEL_SET = {
    kernels_of<float>(), kernels_of<Bfloat16>(), {softmax, softmax_backward, row_products}, CAIRN_KERNEL_SET_NAME};

}  // namespace cairn::trainer
