/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_cblas.c - matrix products by the BLAS library: the only file that includes cblas.h.
 *
 * Owns: the BLAS library's number of threads, set once at start. Thread: any.
 */
#include "kernels/cpu/cpu.h"

#include <cblas.h>

void k_blas_set_threads(int threads)
{
    openblas_set_num_threads(threads);
}

const char *k_blas_core(void)
{
    return openblas_get_corename();
}

mt_status k_gemm_cblas(struct k_stream *stream, const struct k_gemm *gemm)
{
    (void)stream;
    cblas_sgemm(CblasRowMajor, gemm->a_transposed ? CblasTrans : CblasNoTrans, gemm->b_transposed ? CblasTrans : CblasNoTrans,
                gemm->m, gemm->n, gemm->k, 1.0f, gemm->a, (int)k_gemm_lda(gemm), gemm->b, (int)k_gemm_ldb(gemm), gemm->beta,
                gemm->c, (int)k_gemm_ldc(gemm));
    return mt_ok();
}
