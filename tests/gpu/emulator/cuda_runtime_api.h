/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda_runtime_api.h - what gpu/nccl.c uses of CUDA's runtime, for the emulated NCCL (nccl_emulated.c): streams whose work is done
 * by a communicator's thread, in the process's own memory.
 */
#ifndef TESTS_EMULATOR_CUDA_RUNTIME_API_H
#define TESTS_EMULATOR_CUDA_RUNTIME_API_H

typedef enum cudaError { cudaSuccess = 0, cudaErrorInvalidDevice = 101, cudaErrorNotReady = 600 } cudaError_t;
typedef struct CUstream_st *cudaStream_t;
enum { cudaStreamNonBlocking = 1 };

cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetPCIBusId(char *place, int size, int device);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);

#endif
