/* SPDX-License-Identifier: Apache-2.0
 *
 * k_private.h - what the files of this folder share: the entries from which dispatch.c builds the tables.
 */
#ifndef K_PRIVATE_H
#define K_PRIVATE_H

#include "kernels/kernels.h"

mt_status k_gemm_cblas(struct k_stream *stream, const struct k_gemm *gemm);
mt_status k_gemm_reference(struct k_stream *stream, const struct k_gemm *gemm);
void k_blas_set_threads(int threads);

mt_status k_xent_forward_cpu(struct k_stream *stream, const struct k_xent *xent);
mt_status k_xent_backward_cpu(struct k_stream *stream, const struct k_xent *xent);

/* The elementwise entries exist once per build of k_vector_cpu.c; `v` names the build. */
#define K_VECTOR_DECLARE(v)                                                                                  \
    mt_status k_unpack_##v(struct k_stream *, const uint8_t *, float *, size_t, float, float);               \
    mt_status k_bias_add_##v(struct k_stream *, float *, const float *, size_t, size_t);                     \
    mt_status k_bias_grad_##v(struct k_stream *, const float *, float *, size_t, size_t);                    \
    mt_status k_relu_forward_##v(struct k_stream *, float *, size_t);                                        \
    mt_status k_relu_backward_##v(struct k_stream *, const float *, float *, size_t);                        \
    mt_status k_axpy_##v(struct k_stream *, float, const float *, float *, size_t);                          \
    mt_status k_sgd_update_##v(struct k_stream *, const struct k_sgd *);                                     \
    mt_status k_tree_sum_##v(struct k_stream *, const float *const *, size_t, size_t, float *)

K_VECTOR_DECLARE(plain);
#if defined(__x86_64__)
K_VECTOR_DECLARE(avx2);
#endif

#endif
