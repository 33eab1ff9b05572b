/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.cuh - begin of the matrix products on a GPU (gemm.cu).
 */
#ifndef K_GEMM_CUDA_H
#define K_GEMM_CUDA_H

#include "kernels/cuda/cuda.cuh"

/* Once, when the device is chosen. ENOMEM, EDEVICE. */
mt_status k_gemm_cuda_open(bool tf32);

#endif
