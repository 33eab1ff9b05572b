/* SPDX-License-Identifier: Apache-2.0
 *
 * emulated.cc - the table under test, of the kernels as the emulator runs them.
 *
 * Products are the reference's: cuBLASLt is not ours to test. Owns: the scratch memory. Thread: one.
 */
#include "kernels/cuda/table.cuh"

extern "C" {
#include "kernels/cpu/cpu.h"
#include "kernels/reference/reference.h"
#include "tests/gpu/table.h"
}

#include <stdlib.h>

cudaStream_t k_cuda_stream(struct k_stream *)
{
    return NULL;
}

int k_cuda_processors(void)
{
    return 2;
}

void *k_cuda_scratch(void)
{
    static void *memory = calloc(1, K_SCRATCH_BYTES);
    return memory;
}

mt_status k_cuda_launched(const char *)
{
    return mt_ok();
}

mt_status k_gemm_cuda(struct k_stream *stream, const struct k_gemm *g)
{
    return k_gemm_reference(stream, g);
}

mt_status k_half_gemm_cuda(struct k_stream *stream, const struct k_half_gemm *g)
{
    return k_half_reference.gemm(stream, g);
}

const struct k_ops *test_table(const char **out_why)
{
    static struct k_half_ops half = k_half_table_cuda();
    static struct k_ops      ops = k_table_cuda("emulated", &half);
    const char              *seed = getenv("EMULATOR_SEED");
    ops.alloc = k_alloc_cpu, ops.release = k_release_cpu, ops.copy = k_copy_cpu, ops.clear = k_clear_cpu;
    ops.wait = k_wait_cpu, ops.pin = k_pin_cpu, ops.unpin = k_unpin_cpu;
    emulator_seed(seed ? strtoull(seed, NULL, 10) : 1);
    *out_why = "";
    return &ops;
}
