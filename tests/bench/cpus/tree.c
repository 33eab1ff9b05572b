/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.c - nested fork and join: a task calls ten others and waits for them.
 */
#include "tests/bench/cpus/cpus.h"

#include <manta.h>

enum { ARITY = 10 };

/* The number of leaves below. */
MANTA_TASK(int64_t, tree_node, (int64_t, leaves), (int64_t, page), (int64_t, cpus))
{
    manta_ref *below[ARITY];
    int64_t    sum = 0, got;
    count_task(page, (int)cpus, COUNT_BEGINS);
    if (leaves > 1) {
        for (int i = 0; i < ARITY; i++)
            below[i] = tree_node_remote(NULL, leaves / ARITY, page, cpus);
        count_task(page, (int)cpus, COUNT_WAITS);
        for (int i = 0; i < ARITY; i++) {
            manta_error e;
            if (manta_get_i64(below[i], MANTA_FOREVER, &got, &e) != MANTA_OK)
                got = -1000000000;
            manta_free(below[i]);
            sum += got;
        }
        count_task(page, (int)cpus, COUNT_GOES_ON);
    }
    count_task(page, (int)cpus, COUNT_ENDS);
    return leaves > 1 ? sum : 1;
}

double tree_run(const struct bench *b, int64_t leaves)
{
    uint64_t start = bench_now_ns();
    if (!bench_value(tree_node_remote(NULL, leaves, count_number(), b->cpus), leaves))
        return -1;
    return (double)(bench_now_ns() - start) * 1e-9;
}
