/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_noblas.c - in place of gemm_cblas.c where the build is for GPU tests alone and there is no OpenBLAS.
 * Owns nothing. Thread: any.
 */
#include "kernels/cpu/cpu.h"

void k_blas_set_threads(int threads)
{
    (void)threads;
}

const char *k_blas_core(void)
{
    return "none";
}

mt_status k_gemm_cblas(struct k_stream *stream, const struct k_gemm *gemm)
{
    return k_gemm_reference(stream, gemm);
}
