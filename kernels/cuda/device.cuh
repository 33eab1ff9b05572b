/* SPDX-License-Identifier: Apache-2.0
 *
 * device.cuh - taking a device, and the memory entries of its table.
 */
#ifndef K_CUDA_DEVICE_CUH
#define K_CUDA_DEVICE_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/kernels.h"

/* Takes device number `device`, with a stream and scratch memory. EUNSUPPORTED (none of that number, or older than compute capability
 * 8.0), EDEVICE, ENOMEM; sys is CUDA's error. Once a process. */
mt_status k_cuda_device_take(int device, cudaDeviceProp *out);
/* Fills the entries for memory: alloc, release, copy, clear, wait, pin, unpin. */
void k_cuda_memory(struct k_ops *ops);

#endif
