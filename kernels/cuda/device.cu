/* SPDX-License-Identifier: Apache-2.0
 *
 * device.cu - the device that the plugin has taken: its stream, its scratch memory, memory for callers.
 *
 * Owns:   one stream and the scratch memory, until the process ends.
 * Thread: taking is under door.c's lock; the rest is for any thread, CUDA's own rules apart.
 */
#include "kernels/cuda/device.cuh"

static cudaStream_t own_stream;
static int          processors;
static void        *scratch;

cudaStream_t k_cuda_stream(struct k_stream *stream)
{
    return stream ? (cudaStream_t)(void *)stream : own_stream;
}

int k_cuda_processors(void)
{
    return processors;
}

void *k_cuda_scratch(void)
{
    return scratch;
}

mt_status k_cuda_launched(const char *what)
{
    cudaError_t e = cudaGetLastError();
    return e == cudaSuccess ? mt_ok() : mt_error(MT_EDEVICE, (int)e, what);
}

static mt_status checked(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return mt_ok();
    (void)cudaGetLastError(); /* or a later launch would be blamed for it */
    return mt_error(e == cudaErrorMemoryAllocation ? MT_ENOMEM : MT_EDEVICE, (int)e, what);
}

/* ---- memory ---- */

static mt_status device_alloc(size_t size, void **out)
{
    void *memory = NULL;
    MT_TRY(checked(cudaMalloc(&memory, size ? size : 1), "allocate memory of the GPU"));
    mt_status st = checked(cudaMemsetAsync(memory, 0, size, own_stream), "clear memory of the GPU");
    if (st.code == 0)
        st = checked(cudaStreamSynchronize(own_stream), "clear memory of the GPU");
    if (st.code != 0) {
        cudaFree(memory);
        return st;
    }
    *out = memory;
    return mt_ok();
}

static void device_release(void *memory)
{
    if (memory)
        cudaFree(memory);
}

static mt_status device_copy(struct k_stream *stream, void *to, const void *from, size_t size)
{
    return size ? checked(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, k_cuda_stream(stream)), "copy to or from the GPU")
                : mt_ok();
}

static mt_status device_clear(struct k_stream *stream, void *to, size_t size)
{
    return size ? checked(cudaMemsetAsync(to, 0, size, k_cuda_stream(stream)), "clear memory of the GPU") : mt_ok();
}

static mt_status device_wait(struct k_stream *stream)
{
    return checked(cudaStreamSynchronize(k_cuda_stream(stream)), "wait for the GPU");
}

static mt_status device_pin(void *memory, size_t size)
{
    return checked(cudaHostRegister(memory, size, cudaHostRegisterDefault), "pin memory for the GPU");
}

static void device_unpin(void *memory)
{
    if (cudaHostUnregister(memory) != cudaSuccess)
        (void)cudaGetLastError(); /* it was not pinned: a later launch is not to be blamed for it */
}

void k_cuda_memory(struct k_ops *ops)
{
    ops->alloc = device_alloc, ops->release = device_release, ops->copy = device_copy, ops->clear = device_clear;
    ops->wait = device_wait, ops->pin = device_pin, ops->unpin = device_unpin;
}

/* ---- the device ---- */

mt_status k_cuda_device_take(int device, cudaDeviceProp *out)
{
    int count = 0;
    MT_TRY(checked(cudaGetDeviceCount(&count), "count the GPUs"));
    if (device >= count)
        return mt_error(MT_EUNSUPPORTED, (int)cudaErrorInvalidDevice, "there is no device of this number");
    MT_TRY(checked(cudaSetDevice(device), "take the device"));
    MT_TRY(checked(cudaGetDeviceProperties(out, device), "look at the device"));
    if (out->major < 8)
        return mt_error(MT_EUNSUPPORTED, (int)cudaErrorInvalidDevice, "the device is older than compute capability 8.0");
    MT_TRY(checked(cudaStreamCreateWithFlags(&own_stream, cudaStreamNonBlocking), "make a stream"));
    processors = out->multiProcessorCount;
    return checked(cudaMalloc(&scratch, K_SCRATCH_BYTES), "allocate scratch memory");
}
