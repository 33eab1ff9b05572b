/* SPDX-License-Identifier: Apache-2.0
 *
 * cholesky.c - a blocked Cholesky factorization as a graph of tasks: the right-looking algorithm over tiles (Buttari, Langou,
 * Kurzak, Dongarra: A class of parallel tiled linear algebra algorithms, 2009). A tile is a value in the store; each task makes
 * a new one.
 */
#include "tests/bench/cpus/cpus.h"

#include <cblas.h>
#include <manta.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 4096, TILE = 256, TILES = SIDE / TILE, TILE_BYTES = TILE * TILE * sizeof(double) };

/* LAPACK's, which OpenBLAS brings along: the lower factor of a matrix stored by columns. */
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);

/* ---- what runs in the workers: tiles by columns, only the lower half counts ---- */
enum step { STEP_POTRF, STEP_TRSM, STEP_SYRK, STEP_GEMM };

static bool step_compute(enum step step, double *tile, const double *a, const double *b)
{
    const int n = TILE;
    int       info = 0;
    if (step == STEP_POTRF)
        dpotrf_("L", &n, tile, &n, &info);
    else if (step == STEP_TRSM)
        cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, n, n, 1, a, n, tile, n);
    else if (step == STEP_SYRK)
        cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, n, n, -1, a, n, 1, tile, n);
    else
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, n, n, n, -1, a, n, b, n, 1, tile, n);
    return info == 0;
}

static manta_status tile_step(manta_ctx *c, int argc, const manta_arg *argv)
{
    static double tile[TILE * TILE];
    (void)argc;
    count_task(argv[1].l, (int)argv[2].l, COUNT_BEGINS);
    openblas_set_num_threads(1);
    memcpy(tile, argv[3].y.data, TILE_BYTES);
    bool         ok = step_compute((enum step)argv[0].l, tile, (const double *)argv[4].y.data, (const double *)argv[5].y.data);
    manta_status code = ok ? manta_return_bytes(c, tile, TILE_BYTES) : manta_fail(c, 1, "not positive definite");
    count_task(argv[1].l, (int)argv[2].l, COUNT_ENDS);
    return code;
}
MANTA_REGISTER(tile_step, "lllyyy>y");

/* ---- the graph ---- */
struct tiles {
    manta_ref *at[TILES][TILES];
    int        cpus;
};

/* Puts a new tile in the place of this one. `a` and `b`: NULL, or tiles that it needs. */
static void step_submit(struct tiles *t, enum step step, int row, int column, manta_ref *a, manta_ref *b)
{
    manta_ref      *old = t->at[row][column];
    const manta_arg none = manta_data((manta_bytes){NULL, 0});
    const manta_arg args[] = {manta_i64(step),    manta_i64(count_number()),   manta_i64(t->cpus),
                              manta_ref_arg(old), a ? manta_ref_arg(a) : none, b ? manta_ref_arg(b) : none};
    t->at[row][column] = manta_call("tile_step", NULL, 6, args);
    manta_free(old);
}

static void graph_submit(struct tiles *t)
{
    for (int k = 0; k < TILES; k++) {
        step_submit(t, STEP_POTRF, k, k, NULL, NULL);
        for (int i = k + 1; i < TILES; i++)
            step_submit(t, STEP_TRSM, i, k, t->at[k][k], NULL);
        for (int i = k + 1; i < TILES; i++) {
            for (int j = k + 1; j < i; j++)
                step_submit(t, STEP_GEMM, i, j, t->at[i][k], t->at[j][k]);
            step_submit(t, STEP_SYRK, i, i, t->at[i][k], NULL);
        }
    }
}

/* Symmetric, and positive definite by its diagonal. */
static double element(int row, int column)
{
    int low = row < column ? row : column, high = row < column ? column : row;
    return row == column ? 2 * SIDE : (double)((low * 31 + high * 17) % 64) / 64;
}

static bool tiles_put(struct tiles *t)
{
    double *tile = malloc(TILE_BYTES);
    bool    ok = tile != NULL;
    for (int r = 0; ok && r < TILES; r++)
        for (int c = 0; c <= r; c++) {
            for (int j = 0; j < TILE; j++)
                for (int i = 0; i < TILE; i++)
                    tile[j * TILE + i] = element(r * TILE + i, c * TILE + j);
            t->at[r][c] = manta_put(tile, TILE_BYTES);
        }
    free(tile);
    return ok;
}

/* Waits for every tile. The last row of the factor, multiplied with itself, is the matrix's last element. */
static bool tiles_end(struct tiles *t)
{
    double sum = 0;
    bool   ok = true;
    for (int r = TILES - 1; r >= 0; r--)
        for (int c = 0; c <= r; c++) {
            manta_view  view;
            manta_error e;
            if (manta_get(t->at[r][c], BENCH_WAIT_MS, &view, &e) != MANTA_OK) {
                ok = bench_say(&e, "a tile is missing");
                continue;
            }
            const double *tile = view.data;
            for (int j = 0; r == TILES - 1 && j < TILE; j++)
                sum += tile[j * TILE + TILE - 1] * tile[j * TILE + TILE - 1];
            manta_release(&view);
        }
    if (ok && fabs(sum - element(SIDE - 1, SIDE - 1)) > 1e-6 * sum)
        return fprintf(stderr, "manta-bench-cpus: the factor is wrong: %g for %g\n", sum, element(SIDE - 1, SIDE - 1)), false;
    return ok;
}

double cholesky_run(const struct bench *b)
{
    static struct tiles t;
    t = (struct tiles){.cpus = b->cpus};
    if (!tiles_put(&t))
        return -1;
    uint64_t start = bench_now_ns();
    graph_submit(&t);
    bool   ok = tiles_end(&t);
    double seconds = (double)(bench_now_ns() - start) * 1e-9;
    for (int r = 0; r < TILES; r++)
        for (int c = 0; c <= r; c++)
            manta_free(t.at[r][c]);
    return ok ? seconds : -1;
}

double cholesky_openblas(const struct bench *b)
{
    const int n = SIDE;
    int       info = 1;
    double   *a = malloc(sizeof *a * SIDE * SIDE);
    for (int j = 0; a && j < n; j++)
        for (int i = 0; i < n; i++)
            a[(size_t)j * SIDE + (size_t)i] = element(i, j);
    openblas_set_num_threads(b->cpus);
    uint64_t start = bench_now_ns();
    if (a)
        dpotrf_("L", &n, a, &n, &info);
    double seconds = (double)(bench_now_ns() - start) * 1e-9;
    free(a);
    return info == 0 ? seconds : -1;
}

double cholesky_gflop(void)
{
    return (double)SIDE * SIDE * SIDE / 3e9;
}
