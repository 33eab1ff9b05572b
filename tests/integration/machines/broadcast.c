/* SPDX-License-Identifier: Apache-2.0
 *
 * broadcast.c - a driver for values that several machines want at a time (broadcast_test.py).
 *
 *   machines_broadcast NODE...    for each line "N MIB" of its standard input: puts a value of so many MiB, and has a task on each
 *                                 of the first N nodes read it, all at once; prints "begun", then "took MS right N failed N"
 */
#include <manta.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAIT_MS = 60000, NODES_MAX = 16, WORD = 8 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void fill(char *data, size_t size, int64_t seed)
{
    for (size_t i = 0; i + WORD <= size; i += WORD) {
        int64_t word = (int64_t)i * 2654435761 + seed;
        memcpy(data + i, &word, WORD);
    }
}

static bool is_filled(const char *data, size_t size, int64_t seed)
{
    for (size_t i = 0; i + WORD <= size; i += WORD) {
        int64_t word;
        memcpy(&word, data + i, WORD);
        if (word != (int64_t)i * 2654435761 + seed)
            return false;
    }
    return true;
}

static manta_status look(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, is_filled(argv[0].y.data, argv[0].y.size, argv[1].l) ? (int64_t)argv[0].y.size : -1);
}
MANTA_REGISTER(look, "yl>l");

static void broadcast(const uint32_t *nodes, int count, size_t size, int64_t seed)
{
    manta_ref   *refs[NODES_MAX];
    manta_error  e;
    int          right = 0, failed = 0;
    manta_buffer b;
    if (manta_create(size, &b, &e)) {
        manta_perror(&e);
        exit(1);
    }
    fill(b.data, size, seed);
    manta_ref *value = manta_seal(&b);
    double     begun = now_ms();
    for (int i = 0; i < count; i++)
        refs[i] = manta_call("look", &(manta_task_opts){.node = nodes[i], .max_retries = MANTA_NO_RETRY},
                             MANTA_ARGS(manta_ref_arg(value), manta_i64(seed)));
    printf("begun\n");
    fflush(stdout);
    for (int i = 0; i < count; i++) {
        int64_t got = 0;
        bool    is_there = manta_get_i64(refs[i], WAIT_MS, &got, &e) == MANTA_OK;
        failed += !is_there;
        right += is_there && got == (int64_t)size;
        manta_free(refs[i]);
    }
    printf("took %.0f right %d failed %d\n", now_ms() - begun, right, failed);
    fflush(stdout);
    manta_free(value);
}

int main(int argc, char **argv)
{
    uint32_t    nodes[NODES_MAX];
    manta_error e;
    char        line[64];
    int         wanted, mib;
    if (manta_init(&argc, &argv, NULL, &e)) {
        manta_perror(&e);
        return 1;
    }
    int count = argc - 1 < NODES_MAX ? argc - 1 : NODES_MAX;
    for (int i = 0; i < count; i++)
        nodes[i] = (uint32_t)strtoul(argv[1 + i], NULL, 10);
    for (int64_t seed = 1; fgets(line, sizeof line, stdin); seed++)
        if (sscanf(line, "%d %d", &wanted, &mib) == 2 && wanted <= count)
            broadcast(nodes, wanted, (size_t)mib << 20, seed);
    return manta_shutdown() == MANTA_OK ? 0 : 1;
}
