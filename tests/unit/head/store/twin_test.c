/* SPDX-License-Identifier: Apache-2.0
 *
 * twin_test.c - the simulation's twin of the store's script says and does the same as Redis: two leaders who take the lead from
 * each other, commits, copies that are put back, records that go missing, keys that are deleted; answers and contents are compared.
 */
#include "core/base/rng.h"
#include "scheduler/head/store/leader.h"
#include "scheduler/head/store/link.h"
#include "tests/redis/redis.h"
#include "tests/sim/twins/redis.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4000, KEYS = 12 };

struct world {
    struct redis_server server;
    struct head_link    link;
    struct twin_redis   twin, copy;
    struct mt_rng       rng;
    uint64_t            words[32]; /* how often each was said */
    uint64_t            runs, compared;
};

struct comparer {
    struct head_link_reader reader;
    struct world           *w;
    uint64_t                count, past;
};

static mt_status same_record(struct head_link_reader *reader, mt_view field, mt_view value)
{
    struct comparer *c = mt_container_of(reader, struct comparer, reader);
    bool             is_there = false;
    for (const struct head_item *i = NULL; !is_there && (i = head_shelf_next(&c->w->twin.records, i));)
        is_there = mt_view_equal(i->field, field) && mt_view_equal(i->value, value);
    assert_true(is_there);
    c->count++;
    return mt_ok();
}

static void same_past(struct head_link_reader *reader, uint64_t seq, uint64_t digest)
{
    struct comparer *c = mt_container_of(reader, struct comparer, reader);
    c->past += c->w->twin.past[seq % HEAD_PAST].seq == seq && c->w->twin.past[seq % HEAD_PAST].digest == digest;
}

static struct head_said ask_both(struct world *w, const struct head_ask *ask)
{
    struct head_said real, twin;
    struct comparer  c = {.reader = {same_record, same_past}, .w = w};
    twin_redis_do(&w->twin, ask, &twin);
    mt_status st = head_link_ask(&w->link, ask, &real, ask->kind == HEAD_ASK_LOAD ? &c.reader : NULL);
    if (st.code != 0)
        fail_msg("%s", w->link.text);
    if (real.word != twin.word || memcmp(&real.at, &twin.at, sizeof real.at) != 0 || strcmp(real.cluster, twin.cluster) != 0)
        fail_msg("request %d: Redis says %d, fence %llu, seq %llu; the twin %d, fence %llu, seq %llu", (int)ask->kind,
                 (int)real.word, (unsigned long long)real.at.fence, (unsigned long long)real.at.seq, (int)twin.word,
                 (unsigned long long)twin.at.fence, (unsigned long long)twin.at.seq);
    if (ask->kind == HEAD_ASK_LOAD && real.word == HEAD_WORD_OK) {
        assert_int_equal(c.count, w->twin.records.count);
        w->compared++;
    }
    w->words[real.word]++;
    return real;
}

static bool lead(struct world *w, struct head_leader *l)
{
    struct head_ask  ask = {.kind = HEAD_ASK_LEAD,
                            .cluster = mt_rng_below(&w->rng, 20) ? "" : "no such cluster",
                            .new_cluster = "me",
                            .may_make = mt_rng_below(&w->rng, 4) > 0,
                            .at = {.fence = mt_rng_below(&w->rng, 20) ? 0 : 1000000, .run = ++w->runs}};
    struct head_said said = ask_both(w, &ask);
    head_leader_fini(l);
    memset(l, 0, sizeof *l);
    if (said.word != HEAD_WORD_OK || head_leader_init(l, &said).code != 0)
        return false;
    for (const struct head_item *i = NULL; (i = head_shelf_next(&w->twin.records, i));) {
        assert_int_equal(head_shelf_reserve(&l->shelf, 1).code, MT_OK);
        head_shelf_take(&l->shelf, head_item_new(i->field, i->value));
    }
    for (size_t i = 0; i < HEAD_PAST; i++)
        head_leader_past(l, w->twin.past[i].seq, w->twin.past[i].digest);
    return true;
}

static void commit(struct world *w, struct head_leader *l)
{
    char                      keys[3][8], values[3][16];
    struct head_record        records[3];
    const struct head_record *list[3];
    size_t                    count = 1 + mt_rng_below(&w->rng, 3);
    for (size_t i = 0; i < count; i++) {
        bool is_drop = mt_rng_below(&w->rng, 3) == 0;
        snprintf(keys[i], sizeof keys[i], "k%u", (unsigned)mt_rng_below(&w->rng, KEYS));
        snprintf(values[i], sizeof values[i], "%u", (unsigned)mt_rng_below(&w->rng, 1000));
        records[i] = (struct head_record){HEAD_TABLE_NAMES, (uint8_t *)keys[i], strlen(keys[i]),
                                          is_drop ? NULL : (uint8_t *)values[i], is_drop ? 0 : strlen(values[i])};
        list[i] = &records[i];
    }
    assert_int_equal(head_leader_begin(l, list, count).code, MT_OK);
}

/* What a leader wants to know, once; it is taken anew where it is none any more. */
static void go_on(struct world *w, struct head_leader *l)
{
    struct head_ask ask;
    if (!l->window) {
        (void)lead(w, l);
        return;
    }
    if (mt_rng_below(&w->rng, 3))
        commit(w, l);
    head_leader_ask(l, &ask);
    if (mt_rng_below(&w->rng, 10) == 0)
        ask.kind = HEAD_ASK_LOAD;
    struct head_said  said = ask_both(w, &ask);
    enum head_verdict v = ask.kind == HEAD_ASK_LOAD || mt_rng_below(&w->rng, 8) == 0 /* the answer is lost */
                              ? HEAD_AGAIN
                              : head_leader_told(l, &said);
    if (v == HEAD_FENCED || v == HEAD_STOPPED || mt_rng_below(&w->rng, 60) == 0)
        (void)lead(w, l);
}

static void disturb(struct world *w)
{
    switch (mt_rng_below(&w->rng, 4)) {
    case 0:
        redis_keys_copy(&w->server, "manta:{test}", "copy");
        twin_redis_copy(&w->copy, &w->twin);
        break;
    case 1:
        redis_keys_copy(&w->server, "copy", "manta:{test}");
        twin_redis_copy(&w->twin, &w->copy);
        break;
    case 2:
        REDIS_DO(&w->server, "DEL", "manta:{test}:head", "manta:{test}:records", "manta:{test}:past");
        twin_redis_clear(&w->twin);
        break;
    default:
        REDIS_DO(&w->server, "DEL", "manta:{test}:records");
        head_shelf_fini(&w->twin.records);
        break;
    }
}

static void the_twin_is_as_redis(void **unused)
{
    static struct world w;
    struct head_leader  leaders[2];
    (void)unused;
    memset(leaders, 0, sizeof leaders);
    redis_server_new(&w.server, (const char *const[]){"--appendonly", "no", NULL});
    assert_int_equal(head_link_open(&w.link, w.server.url, NULL, true).code, MT_OK);
    snprintf(w.link.me, sizeof w.link.me, "me@here"); /* both of them: the lock is left out */
    w.rng.state = 1;
    for (int i = 0; i < STEPS; i++) {
        go_on(&w, &leaders[mt_rng_below(&w.rng, 40) == 0]);
        if (mt_rng_below(&w.rng, 12) == 0)
            disturb(&w);
    }
    const int said[] = {HEAD_WORD_OK,    HEAD_WORD_EMPTY,  HEAD_WORD_OTHER,  HEAD_WORD_FENCED,
                        HEAD_WORD_OLDER, HEAD_WORD_BEHIND, HEAD_WORD_BROKEN, HEAD_WORD_MOVED};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        print_message("word %d: %llu times\n", said[i], (unsigned long long)w.words[said[i]]);
        assert_true(w.words[said[i]] > 0);
    }
    assert_true(w.compared > 50);
    for (int i = 0; i < 2; i++)
        head_leader_fini(&leaders[i]);
    rds_hang_up(&w.link.rds);
    twin_redis_clear(&w.twin);
    twin_redis_clear(&w.copy);
    redis_server_free(&w.server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_twin_is_as_redis)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
