/* SPDX-License-Identifier: Apache-2.0
 *
 * pg.c - placement groups: made, waited for and removed, many at a time, as Ray's microbenchmark does it.
 *
 * Thread: the main one.
 */
#include "tests/bench/functions.h"

#include <stdio.h>

enum { GROUPS = 100 };

/* Ray's case reserves a thousandth of a resource "custom"; a private cluster here has CPUs. */
static const manta_bundle thousandth = {.num_cpus = 0.001};

/* Where one of them is. */
static bool stands(const manta_pg *pg)
{
    manta_error e;
    uint32_t    node = 0;
    if (manta_pg_nodes(pg, &node, 1, &e) != 1)
        return bench_say(&e, "where a placement group stands");
    if (node == 0)
        fprintf(stderr, "manta-bench: a placement group stands nowhere\n");
    return node != 0;
}

/* A question that comes after the removals is answered after them. */
static bool all_removed(void)
{
    manta_error e;
    return !manta_pg_find(NULL, "none", &e) && e.code == MANTA_ENOENT ? true : bench_say(&e, "groups are being removed");
}

static double step_groups(struct bench_step *step)
{
    manta_pg   *groups[GROUPS];
    manta_error e;
    bool        ok = true;
    for (int i = 0; i < GROUPS; i++)
        if (!(groups[i] = manta_pg_new(&thousandth, 1, NULL, &e)))
            ok = bench_say(&e, "a placement group");
    for (int i = 0; i < GROUPS && ok; i++)
        if (manta_pg_wait(groups[i], BENCH_WAIT_MS, &e) != MANTA_OK)
            ok = bench_say(&e, "a placement group does not stand");
    ok = ok && stands(groups[step->b->next++ % GROUPS]);
    for (int i = 0; i < GROUPS; i++) {
        if (groups[i] && manta_pg_remove(groups[i], &e) != MANTA_OK)
            ok = bench_say(&e, "a placement group is not removed");
        manta_pg_free(groups[i]);
    }
    return ok && all_removed() ? GROUPS : -1;
}

static bool run_groups(struct bench *b, struct bench_row *row)
{
    struct bench_step step = {step_groups, b};
    return bench_rate(&step, row, 1);
}

const struct bench_case bench_pg_cases[] = {
    {"placement group create/removal", "1/s", FLOOR_FUTEX_RTT, true, run_groups},
    {.id = NULL},
};
