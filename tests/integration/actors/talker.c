/* SPDX-License-Identifier: Apache-2.0
 *
 * talker.c - see talker.h.
 */
#include "tests/integration/actors/talker.h"

#include <stdlib.h>

manta_status talker_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct talker *t = calloc(1, sizeof *t);
    (void)argc;
    if (!t)
        return manta_fail(c, 1, "no memory");
    t->board = test_board_map(argv[0].u);
    *self = t;
    return MANTA_OK;
}

void talker_free(void *self)
{
    struct talker *t = self;
    manta_actor_free(t->next);
    manta_actor_free(t->child);
    free(t);
}

manta_status talker_know(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct talker *t = self;
    (void)c, (void)argc;
    manta_actor_free(t->next);
    t->next = manta_actor_dup(argv[0].A);
    return MANTA_OK;
}

manta_status talker_pass(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct talker *t = self;
    (void)c, (void)argc;
    if (argv[1].l && argv[0].l % argv[1].l == 0)
        test_sleep_ms(3);
    atomic_fetch_add(&t->board->words[TALKER_HOPS], 1);
    if (argv[0].l > 0 && t->next)
        manta_free(manta_actor_call(t->next, "pass", MANTA_ARGS(manta_i64(argv[0].l - 1), argv[1])));
    return MANTA_OK;
}

void talkers_join(manta_group *g)
{
    for (int i = 0; i < TALKERS; i++)
        manta_free(manta_actor_call(manta_group_actor(g, i), "know",
                                    MANTA_ARGS(manta_actor_arg(manta_group_actor(g, (i + 1) % TALKERS)))));
}

void talkers_send(manta_group *g, int to, int64_t hops, int64_t rest)
{
    manta_free(manta_actor_call(manta_group_actor(g, to), "pass", MANTA_ARGS(manta_i64(hops), manta_i64(rest))));
}

void talkers_talk(manta_group *g, const struct test_board *board, int64_t most)
{
    static const int64_t hops[] = {0, 1, 2, 10, 100, 1000, 3000}, rests[] = {0, 1, 5, 97};
    manta_error          e;
    uint64_t             wanted = 0;
    for (size_t i = 0; i < sizeof hops / sizeof hops[0] && hops[i] <= most; i++) {
        for (size_t j = 0; j < sizeof rests / sizeof rests[0]; j++) {
            if (rests[j] && hops[i] / rests[j] > 100)
                continue;
            for (int k = 0; k < TALKER_TOKENS; k++)
                talkers_send(g, k, hops[i], rests[j]);
            wanted += TALKER_TOKENS * (uint64_t)(hops[i] + 1);
            CHECK_CODE(manta_group_quiet(g, TEST_WAIT_MS, &e), MANTA_OK, &e);
            CHECK_EQ(atomic_load(&board->words[TALKER_HOPS]), wanted);
        }
    }
}
