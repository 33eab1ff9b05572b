/* SPDX-License-Identifier: Apache-2.0
 *
 * coll.c - all-reduce between two actors, as rows of manta-bench-train: shared memory and TCP, three sizes.
 *
 * Each actor sits on a core of its own and measures by itself: the median of rank 0's calls. Calls of large sizes begin
 * with a barrier that does not count. Every result is checked.
 *
 * Thread: the driver's main one; methods run on their actor's.
 */
#include "tests/bench/train/coll.h"

#include <manta_sgd.h>

#include <stdlib.h>
#include <string.h>

enum { LARGE = 1 << 20, SMALL_CALLS = 20000, MIDDLE_CALLS = 5000, LARGE_CALLS = 20, WARM_CALLS = 10 };

/* Where the buffers lie. */
enum place { OWN, HEAP, REGISTERED };

struct bench_member {
    manta_coll *coll;
};

static manta_status member_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct bench_member *m = calloc(1, sizeof *m);
    manta_coll_id        id;
    manta_error          e;
    if (!m || argc != 2 || argv[0].y.size != sizeof id)
        return manta_fail(c, 1, "bad arguments");
    memcpy(&id, argv[0].y.data, sizeof id);
    bench_core_choose(0, argv[1].l == 1);
    m->coll = manta_coll_join(&id, (int)argv[1].l, &e);
    *self = m;
    return m->coll ? MANTA_OK : manta_fail(c, e.code, "%s", e.message);
}

static void member_free(void *self)
{
    manta_coll_leave(((struct bench_member *)self)->coll);
    free(self);
}

static float *buffer(struct bench_member *m, size_t bytes, enum place place, manta_error *e)
{
    size_t whole = (bytes + 4095) / 4096 * 4096;
    float *data = place == HEAP ? manta_coll_alloc(m->coll, bytes, e) : aligned_alloc(4096, whole);
    if (data)
        for (size_t i = 0; i < bytes / sizeof *data; i++)
            data[i] = (float)(i % 1000);
    return !data || place != REGISTERED || manta_coll_register(m->coll, data, whole, e) == MANTA_OK ? data : NULL;
}

static void buffer_end(struct bench_member *m, float *data, enum place place)
{
    if (place == REGISTERED)
        (void)manta_coll_unregister(m->coll, data, NULL);
    if (place != HEAP)
        free(data);
}

static bool is_right(const float *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (out[i] != (float)(i % 1000) * 2)
            return false;
    return true;
}

/* `bytes`, in buffers of one place: gives a row's value (us of one call), deviation and number. */
static manta_status member_measure(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct bench_member *m = self;
    size_t               bytes = (size_t)argv[0].l, count = bytes / sizeof(float);
    size_t               calls = bytes >= LARGE ? LARGE_CALLS : bytes > 4096 ? MIDDLE_CALLS : SMALL_CALLS;
    enum place           place = (enum place)argv[1].l;
    manta_error          e = {0};
    struct bench_samples samples;
    struct bench_row     row = {0};
    float               *in = buffer(m, bytes, place, &e), *out = buffer(m, bytes, place, &e);
    (void)argc;
    if (!in || !out || !bench_samples_init(&samples))
        return manta_fail(c, 1, "no memory: %s", e.message);
    for (size_t i = 0; i < calls + WARM_CALLS; i++) {
        if (bytes >= LARGE && manta_coll_barrier(m->coll, &e))
            return manta_fail(c, e.code, "%s", e.message);
        uint64_t start = bench_now_ns();
        if (manta_coll_all_reduce(m->coll, in, out, count, MANTA_COLL_F32, MANTA_COLL_SUM, &e))
            return manta_fail(c, e.code, "%s", e.message);
        if (i >= WARM_CALLS)
            bench_samples_add(&samples, (double)(bench_now_ns() - start) * 1e-3);
    }
    if (!is_right(out, count))
        return manta_fail(c, 2, "the sum is wrong");
    buffer_end(m, in, place);
    buffer_end(m, out, place);
    if (!bench_samples_row(&samples, 0.5, &row))
        return manta_fail(c, 3, "no samples");
    return manta_return_bytes(c, &row, sizeof row);
}

MANTA_ACTOR(bench_member, "yl", member_new, member_free, {"measure", "ll>y", member_measure});

/* ---- the driver's side ---- */
static bool row_get(struct bench *b, manta_actor **actors, size_t bytes, enum place place, struct bench_row *row)
{
    manta_error e;
    manta_view  view;
    manta_ref  *refs[2];
    bool        is_ok = true;
    for (int r = 0; r < 2; r++)
        refs[r] = manta_actor_call(actors[r], "measure", MANTA_ARGS(manta_i64((int64_t)bytes), manta_i64(place)));
    for (int r = 0; r < 2; r++) {
        if (manta_get(refs[r], 2 * BENCH_WAIT_MS, &view, &e)) {
            is_ok = bench_say(&e, "all-reduce");
            b->failures++;
        } else {
            if (r == 0 && view.size == sizeof *row)
                memcpy(row, view.data, sizeof *row);
            manta_release(&view);
        }
        manta_free(refs[r]);
    }
    return is_ok;
}

struct case_of_sum {
    const char      *id;
    size_t           bytes;
    enum place       place;
    bool             is_rate;
    enum bench_floor floor;
};

static void group_measure(struct bench *b, const manta_coll_opts *opts, const struct case_of_sum *cases)
{
    manta_error       e;
    manta_coll_id     id;
    manta_actor      *actors[2];
    manta_coll_group *group = manta_coll_group_new(opts, &e);
    if (!group) {
        bench_say(&e, "a group of two");
        b->failures++;
        return;
    }
    manta_coll_group_id(group, &id);
    for (int r = 0; r < 2; r++) {
        actors[r] = manta_actor_new("bench_member", NULL, MANTA_ARGS(manta_bytes_of(&id, sizeof id), manta_i64(r)));
        (void)manta_coll_group_watch(group, r, actors[r], NULL);
    }
    for (; cases->id; cases++) {
        struct bench_row row = {0};
        if (!row_get(b, actors, cases->bytes, cases->place, &row))
            break;
        row.id = cases->id;
        row.unit = cases->is_rate ? "GB/s" : "us";
        if (cases->is_rate) { /* the deviation follows the value */
            double us = row.value;
            row.value = (double)cases->bytes / us * 1e-3;
            row.sd = row.value * row.sd / us;
        }
        row.more = BENCH_ONE_ROW;
        row.floor = cases->floor;
        row.floor_value = bench_floor(b, cases->floor);
        bench_print_row(b, &row);
    }
    for (int r = 0; r < 2; r++)
        manta_actor_free(actors[r]);
    manta_coll_group_free(group);
}

void bench_collectives(struct bench *b)
{
    static const struct case_of_sum shm[] = {
        {"allreduce_shm_64", 64, OWN, false, FLOOR_RING_RTT},
        {"allreduce_shm_64k", 64 << 10, HEAP, false, FLOOR_RING_RTT},
        {"allreduce_shm_64k_registered", 64 << 10, REGISTERED, false, FLOOR_RING_RTT},
        {"allreduce_shm_64k_private", 64 << 10, OWN, false, FLOOR_RING_RTT},
        {"allreduce_shm_64m", 64 << 20, HEAP, true, FLOOR_NT_COPY},
        {"allreduce_shm_64m_registered", 64 << 20, REGISTERED, true, FLOOR_NT_COPY},
        {"allreduce_shm_64m_private", 64 << 20, OWN, true, FLOOR_NT_COPY},
        {NULL, 0, OWN, false, FLOOR_NONE},
    };
    static const struct case_of_sum tcp[] = {
        {"allreduce_tcp_64", 64, OWN, false, FLOOR_FUTEX_RTT},
        {"allreduce_tcp_64k", 64 << 10, OWN, false, FLOOR_FUTEX_RTT},
        {"allreduce_tcp_64m", 64 << 20, OWN, true, FLOOR_MEMCPY},
        {NULL, 0, OWN, false, FLOOR_NONE},
    };
    group_measure(b, &(manta_coll_opts){.size = 2, .name = "bench", .heap_bytes = 8ll * (65 << 20)}, shm);
    group_measure(b, &(manta_coll_opts){.size = 2, .name = "bench", .transport = MANTA_COLL_TCP}, tcp);
}
