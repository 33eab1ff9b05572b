/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.c - matrix products as the definition has them: what every other gemm is compared with.
 * Owns nothing. Thread: any.
 */
#include "kernels/reference/reference.h"

mt_status k_gemm_reference(struct k_stream *stream, const struct k_gemm *gemm)
{
    size_t m = (size_t)gemm->m, n = (size_t)gemm->n, k = (size_t)gemm->k;
    size_t lda = k_gemm_lda(gemm), ldb = k_gemm_ldb(gemm), ldc = k_gemm_ldc(gemm);

    (void)stream;
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            float sum = gemm->beta != 0.0f ? gemm->beta * gemm->c[i * ldc + j] : 0.0f;
            for (size_t p = 0; p < k; p++)
                sum += gemm->a[gemm->a_transposed ? p * lda + i : i * lda + p] *
                       gemm->b[gemm->b_transposed ? j * ldb + p : p * ldb + j];
            gemm->c[i * ldc + j] = sum;
        }
    }
    return mt_ok();
}
