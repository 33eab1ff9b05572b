/* SPDX-License-Identifier: Apache-2.0
 *
 * peers_mpi.c - MPI_Allreduce of float32 sums, for scripts/peers_train.sh: "mpi.BYTES microseconds" a line, the median of
 * rank 0. Rounds of large sizes begin with a barrier, as those of `manta bench --train` do.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_ROUNDS = 20000, LARGE_ROUNDS = 20, WARM = 10, LARGE = 1 << 20 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64, 64 << 10, 64 << 20};
    int                 rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t  bytes = sizes[s];
        int     rounds = bytes >= LARGE ? LARGE_ROUNDS : bytes > 4096 ? SMALL_ROUNDS / 4 : SMALL_ROUNDS;
        float  *in = aligned_alloc(4096, bytes < 4096 ? 4096 : bytes), *out = aligned_alloc(4096, bytes < 4096 ? 4096 : bytes);
        double *us = calloc((size_t)rounds, sizeof *us);
        if (!in || !out || !us)
            MPI_Abort(MPI_COMM_WORLD, 1);
        memset(in, 0, bytes), memset(out, 0, bytes);
        for (int i = -WARM; i < rounds; i++) {
            if (bytes >= LARGE)
                MPI_Barrier(MPI_COMM_WORLD);
            double start = MPI_Wtime();
            MPI_Allreduce(in, out, (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            if (i >= 0)
                us[i] = (MPI_Wtime() - start) * 1e6;
        }
        qsort(us, (size_t)rounds, sizeof *us, by_value);
        if (rank == 0)
            printf("mpi.%zu %.3f\n", bytes, us[rounds / 2]);
        free(in), free(out), free(us);
    }
    MPI_Finalize();
    return 0;
}
