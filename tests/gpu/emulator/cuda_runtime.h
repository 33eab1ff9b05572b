/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda_runtime.h - what the kernels use of CUDA, for a machine without a GPU: emulator.cc runs each thread of a block as a
 * fibre of one thread of the process.
 *
 * Which fibre goes next at a barrier is drawn from a seeded source, so a barrier that is missing shows in some order.
 * Asynchronous copies happen when they are waited for and not before. Instructions of a warp (shuffles, tensor cores)
 * expect all of its 32 lanes, as the kernels write them. Memory of the "device" is the process's own, so a sanitizer sees
 * an access out of bounds.
 */
#ifndef EMULATOR_CUDA_RUNTIME_H
#define EMULATOR_CUDA_RUNTIME_H

#include <functional>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};
struct float4 {
    float x, y, z, w;
};
struct uint4 {
    unsigned x, y, z, w;
};

extern dim3 gridDim, blockDim, blockIdx, threadIdx; /* of the fibre that runs */

void           emulator_launch(dim3 grid, dim3 block, size_t shared, const std::function<void()> &kernel);
unsigned char *emulator_shared();
void           emulator_seed(uint64_t seed);

/* All fibres of the block. */
void __syncthreads();
/* All lanes of the warp: leaves `size` bytes of each, and gives where lane 0's lie, until the next call. */
const unsigned char *emulator_exchange(const void *own, size_t size);
enum { EMULATOR_LANE_BYTES = 64 };

template <typename T> T __shfl_sync(unsigned, T x, int lane)
{
    T out;
    memcpy(&out, emulator_exchange(&x, sizeof x) + lane * EMULATOR_LANE_BYTES, sizeof out);
    return out;
}
template <typename T> T __shfl_xor_sync(unsigned mask, T x, int with)
{
    return __shfl_sync(mask, x, (int)(threadIdx.x % 32) ^ with);
}

inline float __uint_as_float(unsigned bits)
{
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

void                     emulator_copy_async(void *shared, const void *global, bool is_there);
void                     emulator_copy_commit();
void                     emulator_copies_finish(int left);
template <int LEFT> void emulator_copy_wait()
{
    emulator_copies_finish(LEFT);
}
void emulator_matrix_load(unsigned r[4], const void *shared);
void emulator_matrix_load_transposed(unsigned r[4], const void *shared);
void emulator_mma(float c[4], const unsigned a[4], unsigned b0, unsigned b1);

/* ---- the runtime's calls, on the process's memory ---- */

typedef int   cudaError_t;
typedef void *cudaStream_t;
enum { cudaSuccess = 0 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDefault };
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind, cudaStream_t)
{
    memcpy(to, from, size);
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t)
{
    memset(to, value, size);
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}

#endif
