// Matrix products of one thread, for use inside at::parallel_for, where the products themselves must not start threads.
#pragma once

#include <cstdint>

namespace cairn::trainer {

enum class Transposed : bool { kNo, kYes };

// c = op(a) op(b) + beta c; row-major fp32, op(a) is m x k, op(b) is k x n; ld* are the distances of rows as stored.
// By the BLAS that libtorch uses, where it can be called; else by ATen.
void small_product(Transposed transpose_a, Transposed transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                   int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

}  // namespace cairn::trainer
