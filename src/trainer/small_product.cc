#include "trainer/small_product.h"

#include <dlfcn.h>

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

namespace cairn::trainer {
namespace {

// The Fortran interface with 32-bit integers, as libblas.so.3 has it; column-major.
using Sgemm = void (*)(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                       const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                       const float* beta, float* c, const int* ldc);

Sgemm blas_sgemm() {
  static const auto found = reinterpret_cast<Sgemm>(dlsym(RTLD_DEFAULT, "sgemm_"));
  return found;
}

void by_aten(Transposed transpose_a, Transposed transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
             int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  auto matrix = [](const float* data, int64_t rows, int64_t columns, int64_t ld, Transposed transposed) {
    auto* writable = const_cast<float*>(data);  // NOLINT: from_blob takes no const
    return transposed == Transposed::kYes ? at::from_blob(writable, {columns, rows}, {ld, 1}, at::kFloat).t()
                                          : at::from_blob(writable, {rows, columns}, {ld, 1}, at::kFloat);
  };
  at::Tensor out = at::from_blob(c, {m, n}, {ldc, 1}, at::kFloat);
  at::Tensor product = at::mm(matrix(a, m, k, lda, transpose_a), matrix(b, k, n, ldb, transpose_b));
  if (beta == 0) {
    out.copy_(product);
  } else {
    out.mul_(beta).add_(product);
  }
}

}  // namespace

void small_product(Transposed transpose_a, Transposed transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                   int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  Sgemm sgemm = blas_sgemm();
  if (sgemm == nullptr) {
    by_aten(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
    return;
  }
  // Row-major c is column-major c^T = op(b)^T op(a)^T.
  const char first = transpose_b == Transposed::kYes ? 'T' : 'N', second = transpose_a == Transposed::kYes ? 'T' : 'N';
  const int sizes[6] = {static_cast<int>(n),   static_cast<int>(m),   static_cast<int>(k),
                        static_cast<int>(ldb), static_cast<int>(lda), static_cast<int>(ldc)};
  const float one = 1;
  sgemm(&first, &second, &sizes[0], &sizes[1], &sizes[2], &one, b, &sizes[3], a, &sizes[4], &beta, c, &sizes[5]);
}

}  // namespace cairn::trainer
