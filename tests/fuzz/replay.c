/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - runs a fuzz target without libFuzzer: on the files named, else on seeded random inputs.
 *
 * For compilers that have no libFuzzer, and to reproduce what it found: replay <file>...
 */
#include "core/base/rng.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { REPLAY_INPUTS = 3000, REPLAY_SIZE_MAX = 4096 };

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    uint8_t *input = malloc(1 << 20);
    size_t   size = input ? fread(input, 1, 1 << 20, file) : 0;
    fclose(file);
    LLVMFuzzerTestOneInput(input, size);
    free(input);
    return 0;
}

int main(int argc, char **argv)
{
    static uint8_t input[REPLAY_SIZE_MAX];
    struct mt_rng  rng = {1};
    for (int i = 1; i < argc; i++)
        if (replay_file(argv[i]))
            return 1;
    for (int n = 0; n < REPLAY_INPUTS && argc < 2; n++) {
        size_t size = mt_rng_below(&rng, REPLAY_SIZE_MAX);
        for (size_t i = 0; i < size; i++)
            input[i] = (uint8_t)mt_rng_next(&rng);
        LLVMFuzzerTestOneInput(input, size);
    }
    return 0;
}
