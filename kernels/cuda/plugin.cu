/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.cu - the CUDA plugin's one exported symbol: takes a device, and gives the table of the kernels for it.
 *
 * Owns:   the tables, until the process ends.
 * Thread: opening is under door.c's lock.
 */
#include "kernels/cuda/plugin.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/table.cuh"
#include "kernels/cuda/gemm.cuh"

#include <stdio.h>

static struct k_half_ops half_ops;
static struct k_ops      ops;

static mt_status refuse(char text[K_CUDA_TEXT], mt_status st, int device)
{
    snprintf(text, K_CUDA_TEXT, "no GPU: device %d: %s: %s", device, st.what, cudaGetErrorString((cudaError_t)st.sys));
    return mt_error(st.code, 0, text); /* which has its number in words */
}

static mt_status plugin_open(int device, bool tf32, const struct k_ops **out_ops, char text[K_CUDA_TEXT])
{
    cudaDeviceProp found;
    mt_status      st = k_cuda_device_take(device, &found);
    if (st.code == 0)
        st = k_gemm_cuda_open(tf32);
    if (st.code != 0)
        return refuse(text, st, device);
    half_ops = k_half_table_cuda();
    ops = k_table_cuda(tf32 ? "cuda+tf32" : "cuda", &half_ops);
    k_cuda_memory(&ops);
    snprintf(text, K_CUDA_TEXT, "device %d: %s, compute capability %d.%d, %d multiprocessors, %zu MiB", device, found.name,
             found.major, found.minor, found.multiProcessorCount, found.totalGlobalMem >> 20);
    *out_ops = &ops;
    return mt_ok();
}

extern "C" __attribute__((visibility("default")))
const struct k_cuda_plugin k_cuda_plugin = {K_CUDA_ABI, sizeof(struct k_ops), plugin_open};
