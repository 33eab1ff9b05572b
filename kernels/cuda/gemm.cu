/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.cu - matrix products by cuBLASLt: the one file that includes it.
 *
 * Owns:   the library's handle, its workspace, and the algorithms that were chosen: one for each kind and size of product,
 *         kept until the process ends. Thread: under a lock, which is not held while the device works.
 *
 * The library thinks in columns. A row-major c = a b is its column-major c' = b' a', so the factors are swapped and the
 * sizes with them; nothing is transposed that the caller does not transpose.
 */
#include "kernels/cuda/gemm.cuh"

#include <cublasLt.h>
#include <pthread.h>
#include <string.h>

namespace
{

struct product {
    int          m, n, k, lda, ldb, ldc; /* row-major, as the caller has them */
    bool         a_transposed, b_transposed, tf32, has_bias;
    cudaDataType factors, result;
};

struct plan {
    product                size;
    cublasLtMatmulDesc_t   operation;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t   algorithm;
};

enum { PLANS_MAX = 256, WORKSPACE_BYTES = 64 << 20 };

pthread_mutex_t  lock = PTHREAD_MUTEX_INITIALIZER;
cublasLtHandle_t handle;
void            *workspace;
plan             plans[PLANS_MAX];
int              plans_count;
bool             allows_tf32;

mt_status failed(cublasStatus_t status)
{
    return mt_error(MT_EDEVICE, (int)status, "matrix product by cuBLASLt");
}

#define LT_TRY(expr) \
    do { \
        cublasStatus_t lt_st_ = (expr); \
        if (lt_st_ != CUBLAS_STATUS_SUCCESS) \
            return failed(lt_st_); \
    } while (0)

void plan_end(plan *p)
{
    if (p->a)
        cublasLtMatrixLayoutDestroy(p->a);
    if (p->b)
        cublasLtMatrixLayoutDestroy(p->b);
    if (p->c)
        cublasLtMatrixLayoutDestroy(p->c);
    if (p->operation)
        cublasLtMatmulDescDestroy(p->operation);
}

/* The layout of a matrix as it is stored: `rows` rows of `cols`, which is `cols` columns of the library's. */
cublasStatus_t layout_make(cublasLtMatrixLayout_t *out, cudaDataType type, int rows, int cols, int ld)
{
    return cublasLtMatrixLayoutCreate(out, type, (uint64_t)cols, (uint64_t)rows, ld);
}

cublasStatus_t algorithm_find(plan *p)
{
    cublasLtMatmulPreference_t      wish = NULL;
    cublasLtMatmulHeuristicResult_t found = {};
    int                             count = 0;
    size_t                          room = WORKSPACE_BYTES;
    cublasStatus_t                  st = cublasLtMatmulPreferenceCreate(&wish);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room);
    if (p->size.factors == CUDA_R_32F) { /* any float of a buffer may be where a matrix begins */
        uint32_t                             bytes = 4;
        cublasLtMatmulPreferenceAttributes_t each[] = {
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
        for (int i = 0; i < 4 && st == CUBLAS_STATUS_SUCCESS; i++)
            st = cublasLtMatmulPreferenceSetAttribute(wish, each[i], &bytes, sizeof bytes);
    }
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulAlgoGetHeuristic(handle, p->operation, p->a, p->b, p->c, p->c, wish, 1, &found, &count);
    if (wish)
        cublasLtMatmulPreferenceDestroy(wish);
    if (st == CUBLAS_STATUS_SUCCESS && count == 0)
        st = CUBLAS_STATUS_NOT_SUPPORTED;
    p->algorithm = found.algo;
    return st;
}

cublasStatus_t plan_make(plan *p)
{
    const product      &s = p->size;
    cublasLtEpilogue_t  epilogue = CUBLASLT_EPILOGUE_BIAS;
    cublasOperation_t   left = s.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, right = s.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasComputeType_t compute = s.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasStatus_t      st = cublasLtMatmulDescCreate(&p->operation, compute, CUDA_R_32F);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right);
    if (st == CUBLAS_STATUS_SUCCESS && s.has_bias)
        st = cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = s.b_transposed ? layout_make(&p->a, s.factors, s.n, s.k, s.ldb) : layout_make(&p->a, s.factors, s.k, s.n, s.ldb);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = s.a_transposed ? layout_make(&p->b, s.factors, s.k, s.m, s.lda) : layout_make(&p->b, s.factors, s.m, s.k, s.lda);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = layout_make(&p->c, s.result, s.m, s.n, s.ldc);
    return st == CUBLAS_STATUS_SUCCESS ? algorithm_find(p) : st;
}

bool same(const product &a, const product &b)
{
    return a.m == b.m && a.n == b.n && a.k == b.k && a.lda == b.lda && a.ldb == b.ldb && a.ldc == b.ldc &&
           a.a_transposed == b.a_transposed && a.b_transposed == b.b_transposed && a.tf32 == b.tf32 && a.has_bias == b.has_bias &&
           a.factors == b.factors && a.result == b.result;
}

/* A plan of this size, found or made. When there are too many the oldest places are used again. */
mt_status plan_get(const product &size, plan **out)
{
    int known = plans_count < PLANS_MAX ? plans_count : PLANS_MAX;
    for (int i = 0; i < known; i++)
        if (same(plans[i].size, size)) {
            *out = &plans[i];
            return mt_ok();
        }
    plan fresh = {};
    fresh.size = size;
    cublasStatus_t st = plan_make(&fresh);
    if (st != CUBLAS_STATUS_SUCCESS) {
        plan_end(&fresh);
        return failed(st);
    }
    plan *place = &plans[plans_count % PLANS_MAX];
    if (plans_count >= PLANS_MAX)
        plan_end(place);
    *place = fresh;
    plans_count++;
    *out = place;
    return mt_ok();
}

mt_status multiply_locked(struct k_stream *stream, const product &size, const void *a, const void *b, void *c, float beta,
                          const void *bias)
{
    const float one = 1.0f;
    plan       *p;
    MT_TRY(plan_get(size, &p));
    if (bias)
        LT_TRY(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    LT_TRY(cublasLtMatmul(handle, p->operation, &one, b, p->a, a, p->b, &beta, c, p->c, c, p->c, &p->algorithm, workspace,
                          WORKSPACE_BYTES, k_cuda_stream(stream)));
    return mt_ok();
}

mt_status multiply(struct k_stream *stream, const product &size, const void *a, const void *b, void *c, float beta,
                   const void *bias)
{
    pthread_mutex_lock(&lock);
    mt_status st = multiply_locked(stream, size, a, b, c, beta, bias);
    pthread_mutex_unlock(&lock);
    return st;
}

} // namespace

mt_status k_gemm_cuda_open(bool tf32)
{
    allows_tf32 = tf32;
    cudaError_t e = cudaMalloc(&workspace, WORKSPACE_BYTES);
    if (e != cudaSuccess)
        return mt_error(MT_ENOMEM, (int)e, "workspace of cuBLASLt");
    LT_TRY(cublasLtCreate(&handle));
    return mt_ok();
}

mt_status k_gemm_cuda(struct k_stream *stream, const struct k_gemm *g)
{
    product size = {g->m,
                    g->n,
                    g->k,
                    (int)k_gemm_lda(g),
                    (int)k_gemm_ldb(g),
                    (int)k_gemm_ldc(g),
                    g->a_transposed,
                    g->b_transposed,
                    allows_tf32,
                    false,
                    CUDA_R_32F,
                    CUDA_R_32F};
    return multiply(stream, size, g->a, g->b, g->c, g->beta, NULL);
}

mt_status k_half_gemm_cuda(struct k_stream *stream, const struct k_half_gemm *g)
{
    product size = {g->m,
                    g->n,
                    g->k,
                    g->a_transposed ? g->m : g->k,
                    g->b_transposed ? g->k : g->n,
                    g->n,
                    g->a_transposed,
                    g->b_transposed,
                    false,
                    g->bias != NULL,
                    CUDA_R_16BF,
                    g->c32 ? CUDA_R_32F : CUDA_R_16BF};
    void   *c = g->c32 ? (void *)g->c32 : (void *)g->c;
    if ((g->m | g->n | g->k) % 8 || (!g->c) == (!g->c32) || (g->bias && g->c32))
        return mt_error(MT_EINVAL, 0, "product of bfloat16 on the GPU: a size is no multiple of 8, or two results");
    return multiply(stream, size, g->a, g->b, c, g->beta, g->bias);
}
