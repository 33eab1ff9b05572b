/* SPDX-License-Identifier: Apache-2.0
 *
 * k_gemm_cuda.cuh - begin of the matrix products on a GPU (k_gemm.cu).
 */
#ifndef K_GEMM_CUDA_H
#define K_GEMM_CUDA_H

#include "kernels/k_cuda.cuh"

/* Once, when the device is chosen. ENOMEM, EDEVICE. */
mt_status k_gemm_cuda_open(bool tf32);

#endif
