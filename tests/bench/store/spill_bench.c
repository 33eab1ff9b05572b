/* SPDX-License-Identifier: Apache-2.0
 *
 * spill_bench.c - four times as many bytes as the object store holds, put and got again, beside the disk's own rate.
 *
 *   spill_bench [STORE_MIB]     1024: 4 GiB through 1 GiB, noise that no compression shortens; TMPDIR says which disk
 *
 * The floor is one process that writes as many bytes as went to disk to a file in the same folder and reads them back, in
 * pieces of the same size, before and after the store's run. Every value is compared. Passes whatever the figures are.
 */
#include "tests/integration/harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { VALUE_MIB = 16, TIMES = 4, PIECE = 1 << 20 };
static size_t store_mib = 1024;
static char  *value;

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void fill(uint64_t seed)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < (size_t)VALUE_MIB << 20; i += 8) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(value + i, &x, 8);
    }
}

/* Seconds for `mib` MiB to the disk and back. */
static double disk(size_t mib)
{
    const char *folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
    int         fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    double start = now();
    for (size_t i = 0; i < mib; i++)
        CHECK_EQ(write(fd, value + (i % VALUE_MIB) * PIECE, PIECE), PIECE);
    CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    for (size_t i = 0; i < mib; i++)
        CHECK_EQ(read(fd, value, PIECE), PIECE);
    double seconds = now() - start;
    close(fd);
    return seconds;
}

static void run(void)
{
    size_t      count = store_mib * TIMES / VALUE_MIB, mib = count * VALUE_MIB;
    manta_ref **refs = calloc(count, sizeof *refs);
    manta_view  view;
    manta_error e;
    CHECK(refs && (value = malloc((size_t)VALUE_MIB << 20)));
    fill(0);
    double before = disk(mib), busy = 0, start;
    for (size_t i = 0; i < count; i++) {
        fill(i); /* outside of the clock */
        start = now();
        refs[i] = manta_put(value, (size_t)VALUE_MIB << 20);
        busy += now() - start;
    }
    double put = busy;
    for (size_t i = 0; i < count; i++) {
        start = now();
        CHECK_CODE(manta_get(refs[i], 120 * 1000, &view, &e), MANTA_OK, &e);
        busy += now() - start;
        fill(i);
        CHECK_EQ(memcmp(view.data, value, view.size), 0);
        manta_release(&view);
    }
    double after = disk(mib), floor = before < after ? before : after;
    printf("spill: %zu MiB through %zu MiB: put %.2f s, get %.2f s: %.3f GB/s; disk %.2f and %.2f s: %.3f GB/s; ratio %.2f\n", mib,
           store_mib, put, busy - put, 2e-9 * (double)mib * PIECE / busy, before, after, 2e-9 * (double)mib * PIECE / floor,
           floor / busy);
    for (size_t i = 0; i < count; i++)
        manta_free(refs[i]);
}

int main(int argc, char **argv)
{
    manta_error     e;
    manta_init_opts opts = {.num_cpus = 1};
    if (argc > 1)
        store_mib = strtoul(argv[1], NULL, 10);
    opts.store_memory = (int64_t)store_mib << 20;
    if (store_mib < 64 || manta_init(&argc, &argv, &opts, &e) != MANTA_OK)
        return 1;
    run();
    return manta_shutdown();
}
