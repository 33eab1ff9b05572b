/* SPDX-License-Identifier: Apache-2.0
 *
 * store_test.c - the raylet's side: hand-back, dead processes and owners, warm segments, limits, hostile
 * segments.
 */
#include "core/base/limits/object.h"
#include "core/base/rng.h"
#include "objectstore/server/table.h"
#include "tests/unit/objectstore/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const uint64_t MIB = 1 << 20;

static void expect_code(mt_status st, int32_t code)
{
    assert_string_equal(mt_code_name(st.code), mt_code_name(code));
}
#define expect_ok(st) expect_code((st), MT_OK)

static struct os_stats stats_of(struct node *n)
{
    struct os_stats stats;
    os_store_stats(n->store, &stats);
    return stats;
}

/* Dead and unpinned: the place is back in the same sweep, with the next generation; a stale ref finds
 * nothing. */
static void dead_comes_back(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *writer = node_add(&n, 1, NODE_JOB), *reader = node_add(&n, 2, NODE_JOB);
    struct lane_ref     ref, next;
    const void         *data;
    expect_ok(node_put(&n, writer, 1, 30000, 1, &ref));
    expect_ok(node_pin(&n, reader, &ref, &data));
    node_expect(data, 30000, 1);
    expect_ok(os_client_unpin(&reader->client, &ref));
    expect_ok(os_store_dead(n.store, 1, &ref));
    expect_ok(os_store_dead(n.store, 1, &ref)); /* said twice */
    node_sweep(&n);
    assert_int_equal(n.space_backs, 1);
    expect_ok(os_store_dead(n.store, 1, &ref)); /* and late */
    node_sweep(&n);
    assert_int_equal(n.space_backs, 1);
    expect_code(os_client_pin(&reader->client, &ref, &data), MT_EOBJ_LOST);
    expect_ok(node_put(&n, writer, 1, 30000, 2, &next));
    assert_int_equal(next.offset, ref.offset);
    assert_int_equal(next.generation, ref.generation + 1);
    expect_code(os_client_pin(&reader->client, &ref, &data), MT_EOBJ_LOST);
    expect_ok(os_client_pin(&reader->client, &next, &data));
    node_expect(data, 30000, 2);
    node_close(&n);
}

/* Dead but pinned: nothing comes back until the last pin goes, by unpin or by death of the reader. */
static void dead_and_pinned(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *writer = node_add(&n, 1, NODE_JOB), *reader = node_add(&n, 2, NODE_JOB);
    struct node_client *other = node_add(&n, 3, NODE_JOB);
    struct lane_ref     a, b, next;
    const void         *data, *data_b;
    expect_ok(node_put(&n, writer, 1, 30000, 1, &a));
    expect_ok(node_put(&n, writer, 1, 30000, 2, &b));
    expect_ok(node_pin(&n, reader, &a, &data));
    expect_ok(node_pin(&n, other, &b, &data_b));
    expect_ok(os_store_dead(n.store, 1, &a));
    expect_ok(os_store_dead(n.store, 1, &b));
    node_sweep(&n);
    node_tick(&n, 20);
    assert_int_equal(n.space_backs, 0);
    assert_int_equal(stats_of(&n).dead_pinned, 2);
    expect_ok(node_put(&n, writer, 1, 30000, 3, &next));
    node_expect(data, 30000, 1);
    expect_ok(os_client_unpin(&reader->client, &a));
    node_tick(&n, 40);
    assert_int_equal(n.space_backs, 1);
    node_expect(data_b, 30000, 2);
    node_kill(&n, other);
    assert_int_equal(n.space_backs, 2);
    assert_int_equal(stats_of(&n).dead_pinned, 0);
    node_close(&n);
}

static void who_may_say_dead(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *writer = node_add(&n, 1, NODE_JOB);
    node_add(&n, 2, NODE_JOB);
    struct lane_ref mine, theirs, gone, lie;
    expect_ok(node_put(&n, writer, 1, 100, 1, &mine));
    expect_ok(node_put(&n, writer, 2, 100, 2, &theirs)); /* a result for owner 2 */
    expect_ok(node_put(&n, writer, 4, 100, 3, &gone));   /* a result for an owner that is dead */
    expect_code(os_store_dead(n.store, 2, &mine), MT_EPROTO);
    expect_code(os_store_dead(n.store, 1, &theirs), MT_EPROTO);
    expect_ok(os_store_dead(n.store, 2, &theirs));
    expect_ok(os_store_dead(n.store, 1, &gone));
    lie = mine;
    lie.segment = 0;
    expect_code(os_store_dead(n.store, 1, &lie), MT_EINVAL);
    lie.segment = 500;
    expect_code(os_store_dead(n.store, 1, &lie), MT_EINVAL);
    lie.segment = stats_of(&n).segments + 1; /* the next that will be */
    expect_code(os_store_dead(n.store, 1, &lie), MT_EINVAL);
    lie = mine;
    lie.offset = 1 << 30;
    expect_code(os_store_dead(n.store, 1, &lie), MT_EINVAL);
    lie.offset = mine.offset + 1;
    expect_code(os_store_dead(n.store, 1, &lie), MT_EINVAL);
    lie.offset = mine.offset + 3 * OS_UNIT;
    expect_code(os_store_dead(n.store, 1, &lie), MT_EINVAL);
    lie = mine;
    lie.id.counter_index ^= 1;
    expect_code(os_store_dead(n.store, 1, &lie), MT_EINVAL);
    lie = mine;
    lie.job++;
    expect_code(os_store_dead(n.store, 1, &lie), MT_EWRONGJOB);
    expect_ok(os_store_dead(n.store, 0, &mine)); /* another raylet passes it on */
    node_sweep(&n);
    assert_int_equal(n.space_backs, 3);
    node_close(&n);
}

/* A dead writer: what it owned is dead, what it wrote for others stays readable until they say so; then its
 * segment is granted again, warm, and old refs into it find nothing. */
static void writer_dies(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *owner = node_add(&n, 1, NODE_JOB), *worker = node_add(&n, 2, NODE_JOB);
    struct lane_ref     result, big, own, fresh;
    struct os_place     half;
    void               *half_data;
    const void         *data;
    expect_ok(node_put(&n, worker, 1, 5000, 1, &result));
    expect_ok(node_put(&n, worker, 1, 300000, 2, &big));
    expect_ok(node_put(&n, worker, 2, 5000, 3, &own));
    expect_ok(node_alloc(&n, worker, 5000, &half, &half_data)); /* never published */
    expect_ok(node_pin(&n, owner, &own, &data));
    node_kill(&n, worker);
    assert_int_equal(stats_of(&n).dead_pinned, 1);
    node_expect(data, 5000, 3); /* pinned: still there */
    expect_ok(os_client_unpin(&owner->client, &own));
    expect_code(os_client_pin(&owner->client, &own, &data), MT_EOBJ_LOST);
    expect_ok(os_client_pin(&owner->client, &result, &data));
    node_expect(data, 5000, 1);
    expect_ok(os_client_unpin(&owner->client, &result));
    node_tick(&n, 20);
    assert_int_equal(stats_of(&n).orphans, 1);
    assert_int_equal(stats_of(&n).warm, 0);
    expect_ok(os_store_dead(n.store, 1, &result));
    node_sweep(&n);
    assert_int_equal(stats_of(&n).warm, 0);
    expect_ok(os_store_dead(n.store, 1, &big));
    node_sweep(&n);
    assert_int_equal(stats_of(&n).warm, 1);
    assert_int_equal(n.space_backs, 0); /* there is no writer to tell */

    struct node_client *heir = node_add(&n, 3, NODE_JOB);
    expect_ok(node_put(&n, heir, 3, 5000, 4, &fresh));
    assert_int_equal(fresh.segment, result.segment);
    assert_int_equal(stats_of(&n).segments, 1);
    expect_code(os_client_pin(&owner->client, &result, &data), MT_EOBJ_LOST);
    expect_code(os_client_pin(&owner->client, &own, &data), MT_EOBJ_LOST);
    expect_ok(os_client_pin(&owner->client, &fresh, &data)); /* through the old mapping */
    node_expect(data, 5000, 4);
    /* The heir dies before it wrote anything else: what the first writer left behind is not found again. */
    expect_ok(os_client_unpin(&owner->client, &fresh));
    node_kill(&n, heir);
    assert_int_equal(stats_of(&n).warm, 1);
    node_close(&n);
}

/* A dead owner: its objects die in the segments of living writers, which get their space back. */
static void owner_dies(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *owner = node_add(&n, 1, NODE_JOB), *worker = node_add(&n, 2, NODE_JOB);
    struct lane_ref     refs[50], own, remote;
    const void         *data;
    for (int i = 0; i < 50; i++)
        expect_ok(node_put(&n, worker, 1, (uint64_t)i * 1000, (uint8_t)i, &refs[i]));
    expect_ok(node_put(&n, worker, 2, 1000, 1, &own));
    expect_ok(node_put(&n, worker, 99, 1000, 2, &remote)); /* its owner is on another node */
    node_kill(&n, owner);
    assert_int_equal(n.space_backs, 50);
    for (int i = 0; i < 50; i++)
        expect_code(node_pin(&n, worker, &refs[i], &data), MT_EOBJ_LOST);
    expect_ok(node_pin(&n, worker, &own, &data));
    expect_ok(node_pin(&n, worker, &remote, &data));
    expect_ok(os_client_unpin(&worker->client, &remote));
    expect_ok(os_store_owner_gone(n.store, 99));
    node_sweep(&n);
    assert_int_equal(n.space_backs, 51);
    node_expect(data, 1000, 2); /* nothing has overwritten it yet */
    expect_ok(os_store_node_gone(n.store, NODE_NUMBER + 1));
    node_sweep(&n);
    assert_int_equal(n.space_backs, 51);
    expect_ok(os_client_unpin(&worker->client, &own));
    expect_ok(os_store_node_gone(n.store, NODE_NUMBER));
    node_sweep(&n);
    assert_int_equal(n.space_backs, 52);
    node_close(&n);
}

/* A job's memory is its own, but what is in it may be read by all, and outlives it where others own or read it. */
static void jobs_are_apart(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *a = node_add(&n, 1, 1), *b = node_add(&n, 2, 2);
    struct lane_ref     ref, other;
    const void         *data;
    expect_ok(node_put(&n, a, 1, 5000, 1, &ref));
    expect_ok(node_pin(&n, b, &ref, &data));
    node_expect(data, 5000, 1);
    expect_ok(os_client_unpin(&b->client, &ref));
    node_kill(&n, a);
    assert_int_equal(stats_of(&n).warm, 1);
    expect_ok(node_put(&n, b, 2, 5000, 2, &other));
    assert_true(other.segment != ref.segment); /* warm, but another job's */
    expect_ok(os_store_job_gone(n.store, 1, NODE_NUMBER, &n.actions));
    node_act(&n);
    assert_int_equal(stats_of(&n).segments, 1);
    expect_ok(os_store_dead(n.store, 1, &ref)); /* late news of the dead job */
    node_close(&n);
}

static void job_gone(struct node *n, uint32_t job)
{
    expect_ok(os_store_job_gone(n->store, job, NODE_NUMBER, &n->actions));
    node_act(n);
}

/* Results that a process of job 1 wrote for owners of job 2, here and on another node: theirs until they say so. */
static void values_outlive_their_job(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *worker = node_add(&n, 1, 1), *owner = node_add(&n, 2, 2);
    struct lane_ref     mine, theirs, far;
    const void         *data;
    expect_ok(node_put(&n, worker, 1, 5000, 1, &mine));
    expect_ok(node_put(&n, worker, 2, 5000, 2, &theirs));
    n.owner_node = NODE_NUMBER + 1;
    expect_ok(node_put(&n, worker, 77, 5000, 3, &far));
    n.owner_node = 0;
    node_kill(&n, worker);
    job_gone(&n, 1);
    assert_int_equal(stats_of(&n).segments, 1);
    expect_ok(node_pin(&n, owner, &theirs, &data));
    node_expect(data, 5000, 2);
    expect_ok(os_client_unpin(&owner->client, &theirs));
    expect_code(node_pin(&n, owner, &mine, &data), MT_EOBJ_LOST);
    expect_ok(os_store_dead(n.store, 2, &theirs));
    node_sweep(&n);
    expect_ok(os_store_tick(n.store, 1, &n.actions));
    node_act(&n);
    assert_int_equal(stats_of(&n).segments, 1);
    expect_ok(os_store_owner_gone(n.store, 77));
    node_sweep(&n);
    expect_ok(os_store_tick(n.store, 2, &n.actions));
    node_act(&n);
    assert_int_equal(stats_of(&n).segments, 0);
    node_close(&n);
}

/* What a process of another job reads when its owner's job ends stays as it is until it has been read. */
static void read_while_its_job_ends(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *writer = node_add(&n, 1, 1), *reader = node_add(&n, 2, 2);
    struct lane_ref     ref;
    const void         *data;
    expect_ok(node_put(&n, writer, 1, 5000, 1, &ref));
    expect_ok(node_pin(&n, reader, &ref, &data));
    node_kill(&n, writer);
    job_gone(&n, 1);
    assert_int_equal(stats_of(&n).segments, 1);
    node_expect(data, 5000, 1);
    expect_ok(os_client_unpin(&reader->client, &ref));
    expect_ok(os_store_tick(n.store, 1, &n.actions));
    node_act(&n);
    assert_int_equal(stats_of(&n).segments, 0);
    node_close(&n);
}

static void sizes_grow_up_to_the_limit(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 40 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    struct os_place     place;
    void               *data;
    uint64_t            count = 0;
    mt_status           st;
    do
        st = node_alloc(&n, c, MIB / 2, &place, &data);
    while (st.code == MT_OK && ++count < 1000);
    expect_code(st, MT_ESTORE_FULL);
    assert_string_equal(n.text, "object store is full: 1 MiB wanted, 40 of 40 MiB taken");
    assert_true(count >= 70); /* of 80 halves; heads and run ends take the rest */
    assert_true(stats_of(&n).segments <= 20);
    assert_int_equal(stats_of(&n).full_total, 1);
    expect_code(node_alloc(&n, c, 41 * MIB, &place, &data), MT_ESTORE_FULL);
    /* Another process can't grow either, until this one is gone: then it gets the largest that fits. */
    struct node_client *d = node_add(&n, 2, NODE_JOB);
    expect_code(node_alloc(&n, d, 1000, &place, &data), MT_ESTORE_FULL);
    node_kill(&n, c);
    expect_ok(node_alloc(&n, d, 1000, &place, &data));
    expect_ok(node_alloc(&n, d, 30 * MIB, &place, &data)); /* closes warm ones to make room */
    assert_true(n.closes > 0);
    assert_true(stats_of(&n).bytes_reserved <= 40 * MIB);
    node_close(&n);
}

static void cgroup_figures_bound_growth(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 1024 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    struct os_place     place;
    void               *data;
    n.room = (struct os_headroom){.limit = 100 * MIB, .usage = 60 * MIB, .resident = 0, .reserve = 10 * MIB};
    expect_code(node_alloc(&n, c, 30 * MIB, &place, &data), MT_ESTORE_FULL);
    assert_string_equal(n.text, "object store is full: 31 MiB wanted, 0 of 30 MiB taken; "
                                "cgroup: limit 100 MiB, in use 60 MiB, kept free 10 MiB");
    expect_ok(node_alloc(&n, c, 20 * MIB, &place, &data));
    /* What is granted but not yet touched counts; what is touched is not counted twice. */
    n.room.usage = 80 * MIB;
    n.room.resident = 20 * MIB;
    expect_code(node_alloc(&n, c, 20 * MIB, &place, &data), MT_ESTORE_FULL);
    expect_ok(node_alloc(&n, c, 7 * MIB, &place, &data));
    n.room.usage = 200 * MIB; /* over the limit already */
    expect_code(node_alloc(&n, c, 20 * MIB, &place, &data), MT_ESTORE_FULL);
    node_close(&n);
}

static void cold_warm_segments_are_closed(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 1024 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    struct lane_ref     ref;
    node_tick(&n, 1000);
    expect_ok(node_put(&n, c, 1, 1000, 1, &ref));
    expect_ok(node_put(&n, c, 1, 50 * MIB, 1, &ref));
    expect_ok(node_put(&n, c, 1, 10 * MIB, 1, &ref));
    node_kill(&n, c);
    assert_int_equal(stats_of(&n).warm, 3);
    node_tick(&n, 1000 + MT_SEGMENT_WARM_MS - 1);
    assert_int_equal(n.closes, 0);
    node_tick(&n, 1000 + MT_SEGMENT_WARM_MS);
    assert_true(n.closes >= 1);
    assert_true(stats_of(&n).bytes_warm <= MT_SEGMENT_WARM_BYTES_MAX);
    uint64_t closed = n.closes;
    node_tick(&n, 100 * MT_SEGMENT_WARM_MS);
    assert_int_equal(n.closes, closed); /* the rest stays warm for ever */
    node_close(&n);
}

/* A segment full of nonsense, written by its own writer: walks stay inside and end. */
static void hostile_segment(void **state)
{
    (void)state;
    mt_rng rng = {11};
    for (int round = 0; round < 60; round++) {
        struct node n;
        node_open(&n, 64 * MIB);
        struct node_client *c = node_add(&n, 1, NODE_JOB);
        struct lane_ref     ref;
        expect_ok(node_put(&n, c, 2, 3000, 1, &ref));
        struct os_segment_view view;
        assert_true(os_store_next(n.store, 0, &view));
        void *memory;
        expect_ok(os_memory_map(view.backing.data_rw, view.size, true, &memory));
        shm_u32 *words = os_chunk_words(memory);
        for (uint32_t i = 0; i < view.size / OS_CHUNK; i++) {
            uint32_t size_class = (uint32_t)mt_rng_below(&rng, 256), count = (uint32_t)mt_rng_below(&rng, 80);
            shm_store32(&words[i], os_chunk_word(mt_rng_below(&rng, 2) ? size_class : OS_RUN, count));
        }
        for (uint64_t at = OS_CHUNK; at < view.size; at += OS_UNIT) {
            struct os_object *o = (struct os_object *)(void *)((uint8_t *)memory + at);
            shm_store32(&o->state, OS_SEALED);
            o->id = mt_id_make(1 + mt_rng_below(&rng, 3), at, 1);
            o->size = mt_rng_next(&rng) >> mt_rng_below(&rng, 64);
        }
        os_memory_unmap(memory, view.size);
        expect_ok(os_store_owner_gone(n.store, 3));
        expect_ok(os_store_process_gone(n.store, 1));
        expect_ok(os_store_owner_gone(n.store, 2));
        expect_ok(os_store_sweep(n.store, &n.actions));
        n.actions.count = 0;
        node_close(&n);
    }
}

/* --- random life
 * ------------------------------------------------------------------------------------------------ */

enum { PROCESSES = 5, OBJECTS = 200, STEPS = 30000 };

struct life {
    struct node         n;
    mt_rng              rng;
    uint64_t            next_process;
    struct node_client *c[PROCESSES];
    struct {
        struct lane_ref ref;
        uint8_t         seed;
        bool            live, pinned[PROCESSES];
    } o[OBJECTS];
};

/* An object of a random owner, in a seat whose last object nobody reads any more. */
static void life_put(struct life *l, int i, int p, uint8_t seed)
{
    bool busy = l->o[i].live;
    for (int q = 0; q < PROCESSES; q++)
        busy |= l->o[i].pinned[q];
    if (busy)
        return;
    l->o[i].seed = seed;
    l->o[i].live = true;
    expect_ok(node_put(&l->n, l->c[p], l->c[mt_rng_below(&l->rng, PROCESSES)]->process,
                       mt_rng_below(&l->rng, 1u << mt_rng_below(&l->rng, 17)), seed, &l->o[i].ref));
}

static void life_pin(struct life *l, int i, int p)
{
    const void *data;
    if (!l->o[i].live || l->o[i].pinned[p])
        return;
    expect_ok(node_pin(&l->n, l->c[p], &l->o[i].ref, &data));
    node_expect(data, l->o[i].ref.size, l->o[i].seed);
    l->o[i].pinned[p] = true;
}

/* Also when the object has died since: it is held. */
static void life_unpin(struct life *l, int i, int p)
{
    const void *data;
    if (!l->o[i].pinned[p])
        return;
    expect_ok(os_client_pin(&l->c[p]->client, &l->o[i].ref, &data));
    node_expect(data, l->o[i].ref.size, l->o[i].seed);
    expect_ok(os_client_unpin(&l->c[p]->client, &l->o[i].ref));
    expect_ok(os_client_unpin(&l->c[p]->client, &l->o[i].ref));
    l->o[i].pinned[p] = false;
}

static void life_object_dies(struct life *l, int i)
{
    if (!l->o[i].live)
        return;
    expect_ok(os_store_dead(l->n.store, l->o[i].ref.id.process, &l->o[i].ref));
    l->o[i].live = false;
    if (mt_rng_below(&l->rng, 2))
        node_sweep(&l->n);
}

/* And another takes its seat. */
static void life_process_dies(struct life *l, int p)
{
    for (int i = 0; i < OBJECTS; i++) {
        if (l->o[i].live && l->o[i].ref.id.process == l->c[p]->process)
            l->o[i].live = false;
        l->o[i].pinned[p] = false;
    }
    node_kill(&l->n, l->c[p]);
    l->c[p] = node_add(&l->n, l->next_process++, NODE_JOB);
}

static void life_step(struct life *l, int step)
{
    int      i = (int)mt_rng_below(&l->rng, OBJECTS), p = (int)mt_rng_below(&l->rng, PROCESSES);
    uint64_t what = mt_rng_below(&l->rng, 5001);
    if (what < 2000)
        life_put(l, i, p, (uint8_t)step);
    else if (what < 3000)
        life_pin(l, i, p);
    else if (what < 4000)
        life_unpin(l, i, p);
    else if (what < 5000)
        life_object_dies(l, i);
    else
        life_process_dies(l, p);
    if (step % 100 == 0)
        node_tick(&l->n, step);
}

/* Puts for each other, pins, deaths of objects and of processes: a pinned value never changes; in the end
 * everything is warm. */
static void random_life(void **state)
{
    (void)state;
    struct life *l = calloc(1, sizeof *l);
    assert_non_null(l);
    node_open(&l->n, 256 * MIB);
    l->rng = (mt_rng){2024};
    for (int p = 0; p < PROCESSES; p++)
        l->c[p] = node_add(&l->n, 100 + l->next_process++, NODE_JOB);
    l->next_process += 200;
    for (int step = 0; step < STEPS; step++)
        life_step(l, step);
    for (int p = 0; p < PROCESSES; p++)
        node_kill(&l->n, l->c[p]);
    node_tick(&l->n, STEPS);
    struct os_stats stats = stats_of(&l->n);
    assert_int_equal(stats.warm, stats.segments);
    assert_int_equal(stats.dead_total, stats.back_total);
    assert_true(stats.bytes_reserved <= 128 * MIB);
    node_close(&l->n);
    free(l);
}

static void copies(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *raylet = node_add(&n, 1, NODE_JOB);
    struct lane_ref     a, b, found;
    expect_ok(node_put(&n, raylet, 50, 1000, 1, &a));
    expect_ok(node_put(&n, raylet, 51, 1000, 2, &b));
    expect_code(os_store_copy_find(n.store, a.id, &found), MT_ENOENT);
    expect_ok(os_store_copy_add(n.store, &a));
    expect_ok(os_store_copy_add(n.store, &b));
    expect_code(os_store_copy_add(n.store, &a), MT_EEXIST);
    expect_ok(os_store_copy_find(n.store, a.id, &found));
    assert_memory_equal(&found, &a, sizeof a);
    expect_ok(os_store_copy_dead(n.store, a.id));
    expect_code(os_store_copy_dead(n.store, a.id), MT_ENOENT);
    expect_ok(os_store_owner_gone(n.store, 51));
    expect_code(os_store_copy_find(n.store, b.id, &found), MT_ENOENT);
    node_sweep(&n);
    assert_int_equal(n.space_backs, 2);
    assert_int_equal(stats_of(&n).copies, 0);
    node_close(&n);
}

/* X(the breach, what plants it into store `s`) */
#define BREACHES(X) \
    X("a segment is not found by its number", uint32_t, s->last->number, 4711) \
    X("the segments are not in order of their numbers", uint32_t, s->first->next->number, s->first->number) \
    X("a segment's writer is gone", uint64_t, s->first->writer, 77) \
    X("a segment has more dead places than are on the lists, or fewer", uint32_t, s->first->dead, 0) \
    X("the sums of the segments' bytes are wrong", uint64_t, s->bytes_reserved, 0) \
    X("the sums of the segments' bytes are wrong", uint64_t, s->bytes_withheld, 1) \
    X("segments, copies or processes are counted wrongly", uint32_t, s->segment_count, 1) \
    X("segments, copies or processes are counted wrongly", uint32_t, s->copy_count, 1) \
    X("segments, copies or processes are counted wrongly", uint32_t, s->process_count, 3) \
    X("a dead place is on a list twice", struct os_dead_list, s->withheld, s->pinned)

static void each_breach_is_named(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *one = node_add(&n, 1, NODE_JOB), *two = node_add(&n, 2, NODE_JOB);
    struct lane_ref     ref, other;
    const void         *data;
    expect_ok(node_put(&n, one, 1, 100, 1, &ref));
    expect_ok(node_put(&n, two, 2, 100, 1, &other));
    expect_ok(node_pin(&n, two, &ref, &data));
    expect_ok(os_store_dead(n.store, 1, &ref));
    node_sweep(&n); /* it is read: its place is on a list */
    struct os_store *s = n.store;
    assert_null(os_store_check(s));
    assert_int_equal(s->pinned.count, 1);
#define X(text, type, field, planted) \
    { \
        type before = (field); \
        (field) = (planted); \
        const char *found = os_store_check(s); \
        (field) = before; \
        if (!found || strcmp(found, text) != 0) \
            fail_msg("planted: %s; found: %s", text, found ? found : "nothing"); \
    }
    BREACHES(X)
#undef X
    assert_null(os_store_check(s));
    node_close(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_comes_back),
        cmocka_unit_test(dead_and_pinned),
        cmocka_unit_test(who_may_say_dead),
        cmocka_unit_test(writer_dies),
        cmocka_unit_test(owner_dies),
        cmocka_unit_test(jobs_are_apart),
        cmocka_unit_test(values_outlive_their_job),
        cmocka_unit_test(read_while_its_job_ends),
        cmocka_unit_test(sizes_grow_up_to_the_limit),
        cmocka_unit_test(cgroup_figures_bound_growth),
        cmocka_unit_test(cold_warm_segments_are_closed),
        cmocka_unit_test(hostile_segment),
        cmocka_unit_test(random_life),
        cmocka_unit_test(copies),
        cmocka_unit_test(each_breach_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
