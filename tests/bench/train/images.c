/* SPDX-License-Identifier: Apache-2.0
 *
 * images.c - see images.h. Owns nothing. Thread: any.
 */
#include "tests/bench/train/images.h"

#include <stdio.h>
#include <sys/stat.h>

static bool idx_write(const char *folder, const char *name, uint32_t dims, uint32_t count)
{
    char          path[512];
    unsigned char head[16] = {0, 0, 8, (unsigned char)dims};
    uint32_t      seed = 1, sizes[3] = {count, BENCH_IMAGE_SIDE, BENCH_IMAGE_SIDE};
    size_t        bytes = (size_t)count * (dims == 3 ? BENCH_IMAGE_SIDE * BENCH_IMAGE_SIDE : 1), n = 4;
    for (uint32_t d = 0; d < dims; d++)
        for (int shift = 24; shift >= 0; shift -= 8)
            head[n++] = (unsigned char)(sizes[d] >> shift);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wbe");
    bool  ok = file && fwrite(head, n, 1, file) == 1;
    for (size_t i = 0; i < bytes && ok; i++) {
        seed = seed * 1103515245u + 12345;
        ok = fputc((int)(seed >> 16 & 255) % (dims == 3 ? 256 : 10), file) != EOF;
    }
    return file && fclose(file) == 0 && ok;
}

bool bench_images_write(const char *folder, uint32_t records, uint32_t tests)
{
    return mkdir(folder, 0700) == 0 && idx_write(folder, "train-images-idx3-ubyte.gz", 3, records) &&
           idx_write(folder, "train-labels-idx1-ubyte.gz", 1, records) &&
           idx_write(folder, "t10k-images-idx3-ubyte.gz", 3, tests) && idx_write(folder, "t10k-labels-idx1-ubyte.gz", 1, tests);
}
