/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor.cuh - the instructions of the tensor cores and of asynchronous copies that attention_half.cu is written in, and
 * how a tile of 64 halves a row lies in shared memory.
 *
 * A row is 128 bytes, eight pieces of 16. Piece p of row r lies at place p ^ (r & 7): so the eight rows that an ldmatrix
 * reads at once lie in different banks.
 *
 * Layouts (PTX ISA, mma.m16n8k16), for lane 4 g + t of a warp:
 *   a[0..3]  rows g, g + 8, g, g + 8; columns 2t and 2t + 1, of the first eight for a[0] and a[1], else of the second
 *   b[0..1]  column g; rows 2t and 2t + 1 of the first, of the second eight
 *   c[0..3]  row g for c[0] and c[1], else g + 8; columns 2t and 2t + 1
 * So two neighbouring c of 8 columns, rounded, are an a of 16: a product's result goes into the next one as it is.
 */
#ifndef K_TENSOR_H
#define K_TENSOR_H

#include "kernels/cuda/cuda.cuh"

enum { K_TILE_WIDE = 64, K_TILE_ROW = 128 /* bytes */ };

#ifdef __CUDACC__
__device__ __forceinline__ unsigned k_shared_address(const void *shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}

/* 16 bytes, or zeros. */
__device__ __forceinline__ void k_copy_async(void *shared, const void *global, bool is_there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(k_shared_address(shared)), "l"(global),
                 "r"(is_there ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void k_copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until all but the latest `LEFT` groups of this thread are there. */
template <int LEFT> __device__ __forceinline__ void k_copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

__device__ __forceinline__ void k_matrix_load(unsigned r[4], const void *shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(k_shared_address(shared))
                 : "memory");
}

__device__ __forceinline__ void k_matrix_load_transposed(unsigned r[4], const void *shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(k_shared_address(shared))
                 : "memory");
}

/* c += a b. */
__device__ __forceinline__ void k_mma(float c[4], const unsigned a[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
#define k_copy_async             emulator_copy_async
#define k_copy_commit            emulator_copy_commit
#define k_copy_wait              emulator_copy_wait
#define k_matrix_load            emulator_matrix_load
#define k_matrix_load_transposed emulator_matrix_load_transposed
#define k_mma                    emulator_mma
#endif

__device__ __forceinline__ unsigned char *k_tile_at(unsigned char *tile, unsigned row, unsigned piece)
{
    return tile + row * K_TILE_ROW + ((piece ^ (row & 7)) << 4);
}

/* Asks for `rows` rows of 64 halves from `from` on, `stride` halves apart; rows from `there` on become 0. All threads. */
__device__ __forceinline__ void k_tile_ask(unsigned char *tile, const k_half *from, size_t stride, unsigned rows, unsigned there)
{
    for (unsigned i = threadIdx.x; i < rows * 8; i += blockDim.x) {
        unsigned row = i / 8, piece = i % 8;
        bool     is_there = row < there;
        k_copy_async(k_tile_at(tile, row, piece), from + (is_there ? row * stride : 0) + piece * 8, is_there);
    }
}

/* The a of rows [row, row + 16) and columns [16 step, + 16) of a tile. */
__device__ __forceinline__ void k_tile_a(unsigned a[4], unsigned char *tile, unsigned row, unsigned step)
{
    unsigned lane = threadIdx.x % 32;
    k_matrix_load(a, k_tile_at(tile, row + lane % 16, 2 * step + lane / 16));
}

/* The b of two blocks of 8 columns, of the transposed tile: columns are rows [row, row + 16) of it, rows are its columns
 * [16 step, + 16). b[0], b[1] are the first block's. */
__device__ __forceinline__ void k_tile_b_transposed(unsigned b[4], unsigned char *tile, unsigned row, unsigned step)
{
    unsigned lane = threadIdx.x % 32;
    k_matrix_load(b, k_tile_at(tile, row + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
}

/* The b of two blocks of 8 columns, of the tile as it is: rows [row, row + 16), columns [16 pair, + 16). */
__device__ __forceinline__ void k_tile_b(unsigned b[4], unsigned char *tile, unsigned row, unsigned pair)
{
    unsigned lane = threadIdx.x % 32;
    k_matrix_load_transposed(b, k_tile_at(tile, row + lane % 16, 2 * pair + lane / 16));
}

/* The a of columns [16 step, + 16) of what two blocks of c hold: c[2 step] and c[2 step + 1]. */
__device__ __forceinline__ void k_a_of_c(unsigned a[4], const float left[4], const float right[4])
{
    a[0] = k_pack(left[0], left[1]);
    a[1] = k_pack(left[2], left[3]);
    a[2] = k_pack(right[0], right[1]);
    a[3] = k_pack(right[2], right[3]);
}

#endif
