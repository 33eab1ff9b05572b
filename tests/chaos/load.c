/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c - the driver of the chaos load: tasks, nested tasks, actors, values and waits, until its time is up.
 *
 *   chaos_load ADDRESS LEDGER SECONDS SEED
 *
 * Every call is written to the ledger when it is submitted and when its outcome is known; nothing is judged here but
 * values. Exit status 0 when all calls have an outcome.
 *
 * Owns: one thread for each kind of load. Thread: each has its own calls and random numbers.
 */
#include "tests/chaos/load.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOAD_WAIT_MS = 60 * 1000, WINDOW_MAX = 64, NODES = 2 };

static struct {
    const char  *ledger;
    uint64_t     end_ns, seed;
    _Atomic int  lost;
    _Atomic bool is_cut_off; /* its raylet is gone, or has given it up */
} load;

struct lane { /* one thread's load */
    enum chaos_kind kind;
    uint64_t        random, next;
};

static uint64_t draw(struct lane *l, uint64_t below)
{
    l->random += 0x9e3779b97f4a7c15u;
    uint64_t x = l->random;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % below;
}

static uint64_t key_next(struct lane *l)
{
    return (uint64_t)l->kind << 56 | ++l->next;
}

static bool is_over(void)
{
    return chaos_now_ns() >= load.end_ns || load.is_cut_off;
}

/* Forces a task to one of the nodes, in two of three cases. */
static void place(struct lane *l, manta_resource *room, manta_task_opts *opts)
{
    static const char *const names[NODES] = {"at0", "at1"};
    uint64_t                 where = draw(l, 3);
    if (where == NODES)
        return;
    *room = (manta_resource){names[where], 0.01};
    opts->resources = room;
    opts->resource_count = 1;
}

static void submitted(uint64_t key, int retries)
{
    struct chaos_record r = {
        .key = key, .time_ns = chaos_now_ns(), .what = CHAOS_SUBMIT, .pid = (int32_t)getpid(), .retries = retries};
    chaos_ledger_write(&r);
}

static void settled(uint64_t key, manta_status code, const manta_error *e, int64_t value, bool is_right)
{
    struct chaos_record r = {.key = key, .time_ns = chaos_now_ns(), .what = CHAOS_OUTCOME, .pid = (int32_t)getpid(), .code = code};
    if (code) {
        r.outcome = e->outcome;
        r.attempt = e->attempt;
        r.signal_number = e->signal_number;
        if (code == MANTA_ETIMEDOUT)
            load.lost++;
        if (code == MANTA_ECONN && !load.is_cut_off) {
            load.is_cut_off = true;
            load.lost++;
            manta_perror(e);
        }
        if (getenv("CHAOS_ERRORS"))
            fprintf(stderr, "%llx: error %d: %s (%s, node %s, pid %d)\n", (unsigned long long)key, code, e->message, e->function,
                    e->node, e->pid);
    } else {
        r.attempt = (int32_t)(value & 0xff);
    }
    chaos_ledger_write(&r);
    if (!code && !is_right)
        chaos_note(CHAOS_WRONG, key, 0);
}

static void settle(uint64_t key, manta_ref *take_ref)
{
    manta_error  e;
    int64_t      x = 0;
    manta_status code = manta_get_i64(take_ref, LOAD_WAIT_MS, &x, &e);
    settled(key, code, &e, x, (x & ~(int64_t)0xff) == chaos_value(key));
    manta_free(take_ref);
}

/* ---- windows of calls ---- */

struct window {
    manta_ref *refs[WINDOW_MAX];
    uint64_t   keys[WINDOW_MAX];
    size_t     count, width;
};

static void window_settle(struct window *w, size_t index)
{
    settle(w->keys[index], w->refs[index]);
    w->count--;
    memmove(w->refs + index, w->refs + index + 1, (w->count - index) * sizeof *w->refs);
    memmove(w->keys + index, w->keys + index + 1, (w->count - index) * sizeof *w->keys);
}

/* Of tasks, which know no order: whatever is ready makes room, so that a task in a worker that is stopped does not keep the
 * others from being submitted. Where nothing is ready in time the oldest is said to be lost. */
static void window_settle_ready(struct window *w)
{
    unsigned char ready[WINDOW_MAX];
    manta_error   e;
    if (manta_wait(w->refs, w->count, 1, LOAD_WAIT_MS, ready, &e) <= 0)
        window_settle(w, 0);
    else
        for (size_t i = w->count; i-- > 0;)
            if (ready[i])
                window_settle(w, i);
}

static void window_put(struct window *w, uint64_t key, manta_ref *ref)
{
    w->refs[w->count] = ref;
    w->keys[w->count++] = key;
}

/* Of an actor's calls, which run in order: the oldest is waited for. */
static void window_add(struct window *w, uint64_t key, manta_ref *ref)
{
    window_put(w, key, ref);
    if (w->count >= w->width)
        window_settle(w, 0);
}
static void window_drain(struct window *w)
{
    while (w->count)
        window_settle(w, 0);
}

static void run_tasks(struct lane *l)
{
    struct window w = {.width = l->kind == CHAOS_TASK ? 48 : l->kind == CHAOS_PARENT ? 4 : 12};
    while (!is_over()) {
        uint64_t        key = key_next(l);
        manta_resource  room;
        manta_task_opts opts = {.max_retries = l->kind == CHAOS_ONCE ? MANTA_NO_RETRY : 3};
        place(l, &room, &opts);
        submitted(key, l->kind == CHAOS_ONCE ? 0 : 3);
        manta_ref *ref = l->kind == CHAOS_PARENT
                             ? manta_call("parent", &opts,
                                          MANTA_ARGS(manta_str(load.ledger), manta_u64(key), manta_i64(1 + (int64_t)draw(l, 6))))
                             : manta_call("work", &opts,
                                          MANTA_ARGS(manta_str(load.ledger), manta_u64(key), manta_i64((int64_t)draw(l, 6000))));
        window_put(&w, key, ref);
        if (w.count >= w.width)
            window_settle_ready(&w);
    }
    window_drain(&w);
}

/* ---- actors ---- */

enum { ACTORS = 4 };

static manta_actor *clerk_start(struct lane *l, int number)
{
    static const char *const names[NODES] = {"at0", "at1"};
    manta_resource           room = {names[number % NODES], 0.01};
    manta_actor_opts         opts = {.max_restarts = -1, .max_task_retries = l->kind == CHAOS_CALL ? 5 : 0};
    if (number % 3) /* one of three may move */
        opts.resources = &room, opts.resource_count = 1;
    return manta_actor_new("clerk", &opts, MANTA_NO_ARGS);
}

static void run_actors(struct lane *l)
{
    manta_actor  *actors[ACTORS];
    struct window windows[ACTORS];
    for (int i = 0; i < ACTORS; i++) {
        actors[i] = clerk_start(l, i);
        windows[i] = (struct window){.width = 6};
    }
    while (!is_over()) {
        int      i = (int)draw(l, ACTORS);
        uint64_t key = key_next(l);
        submitted(key, l->kind == CHAOS_CALL ? 5 : 0);
        window_add(&windows[i], key,
                   manta_actor_call(actors[i], "apply",
                                    MANTA_ARGS(manta_str(load.ledger), manta_u64(key), manta_i64((int64_t)draw(l, 3000)))));
        if (draw(l, 200) == 0) {
            window_drain(&windows[i]);
            manta_actor_free(actors[i]);
            actors[i] = clerk_start(l, i);
        }
    }
    for (int i = 0; i < ACTORS; i++) {
        window_drain(&windows[i]);
        manta_actor_free(actors[i]);
    }
}

/* An actor made, found by its name and called, once in a while: each of the three steps needs the head. */
static void run_named(struct lane *l)
{
    while (!is_over()) {
        uint64_t    key = key_next(l);
        char        name[64];
        manta_error e;
        snprintf(name, sizeof name, "clerk%llu of %llu", (unsigned long long)l->next, (unsigned long long)load.seed);
        submitted(key, 5);
        manta_actor_opts opts = {.name = name, .max_restarts = -1, .max_task_retries = 5};
        manta_actor     *made = manta_actor_new("clerk", &opts, MANTA_NO_ARGS);
        manta_actor     *found = manta_actor_find(name, LOAD_WAIT_MS, &e);
        for (int i = 0; !found && e.code == MANTA_ENOENT && i < 1000; i++) { /* the name is not there yet */
            chaos_sleep_us(10000);
            found = manta_actor_find(name, LOAD_WAIT_MS, &e);
        }
        if (found)
            settle(key, manta_actor_call(found, "apply", MANTA_ARGS(manta_str(load.ledger), manta_u64(key), manta_i64(0))));
        else
            settled(key, e.code, &e, 0, true);
        manta_actor_free(found);
        manta_actor_free(made);
        chaos_sleep_us(100000);
    }
}

/* ---- values ---- */

static size_t size_draw(struct lane *l)
{
    return ((size_t)16 << draw(l, 17)) + draw(l, 1000);
}

/* A value's outcome: "try again" is, until the node is known to be dead. */
static manta_status value_get(manta_ref *ref, manta_view *view, manta_error *e)
{
    manta_status code = manta_get(ref, LOAD_WAIT_MS, view, e);
    for (int i = 0; code == MANTA_ECONN && i < 600; i++) {
        chaos_sleep_us(100000);
        code = manta_get(ref, LOAD_WAIT_MS, view, e);
    }
    return code;
}

static manta_ref *fetch(struct lane *l, uint64_t key, manta_ref *ref, uint64_t of)
{
    manta_resource  room;
    manta_task_opts opts = {.max_retries = 3};
    place(l, &room, &opts);
    submitted(key, 3);
    return manta_call(
        "fetch", &opts,
        MANTA_ARGS(manta_str(load.ledger), manta_u64(key), manta_ref_arg(ref), manta_u64(of), manta_i64((int64_t)size_draw(l))));
}

static void run_values(struct lane *l)
{
    while (!is_over()) {
        uint64_t    keys[3];
        manta_ref  *refs[3];
        size_t      size = size_draw(l);
        uint8_t    *bytes = malloc(size);
        manta_error e;
        manta_view  view;
        if (!bytes)
            abort();
        chaos_fill(bytes, size, l->next);
        manta_ref *put = manta_put(bytes, size);
        free(bytes);
        uint64_t of = l->next;
        for (int i = 0; i < 3; i++) { /* a chain: each reads what the one before has made */
            keys[i] = key_next(l);
            refs[i] = fetch(l, keys[i], i ? refs[i - 1] : put, i ? keys[i - 1] : of);
        }
        manta_free(put);
        for (int i = 2; i >= 0; i--) {
            manta_status code = value_get(refs[i], &view, &e);
            settled(keys[i], code, &e, 0, code || chaos_is_filled(view.data, view.size, keys[i]));
            if (!code)
                manta_release(&view);
            manta_free(refs[i]);
        }
    }
}

/* ---- waits ---- */

static void run_waits(struct lane *l)
{
    enum { NAPS = 8 };
    while (!is_over()) {
        manta_ref    *refs[NAPS];
        uint64_t      keys[NAPS];
        unsigned char ready[NAPS];
        manta_error   e;
        for (int i = 0; i < NAPS; i++) {
            manta_resource  room;
            manta_task_opts opts = {.max_retries = 3};
            place(l, &room, &opts);
            keys[i] = key_next(l);
            submitted(keys[i], 3);
            refs[i] = manta_call("work", &opts,
                                 MANTA_ARGS(manta_str(load.ledger), manta_u64(keys[i]), manta_i64((int64_t)draw(l, 50000))));
        }
        size_t want = 1 + draw(l, NAPS);
        int    count = manta_wait(refs, NAPS, want, (int64_t)draw(l, 200), ready, &e), said = 0;
        for (int i = 0; i < NAPS; i++)
            said += ready[i];
        if (count != said)
            chaos_note(CHAOS_WRONG, keys[0], 0);
        for (int i = 0; i < NAPS; i++) {
            manta_view view;
            if (ready[i] && manta_get(refs[i], 0, &view, &e) == MANTA_ETIMEDOUT)
                chaos_note(CHAOS_WRONG, keys[i], 0);
            settle(keys[i], refs[i]);
        }
    }
}

static void *lane_run(void *arg)
{
    struct lane *l = arg;
    switch (l->kind) {
    case CHAOS_CALL:
    case CHAOS_CALL_ONCE: run_actors(l); break;
    case CHAOS_NAMED: run_named(l); break;
    case CHAOS_FETCH: run_values(l); break;
    case CHAOS_NAP: run_waits(l); break;
    default: run_tasks(l); break;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const enum chaos_kind kinds[] = {CHAOS_TASK,      CHAOS_ONCE,  CHAOS_PARENT, CHAOS_CALL,
                                            CHAOS_CALL_ONCE, CHAOS_FETCH, CHAOS_NAP,    CHAOS_NAMED};
    enum { LANES = sizeof kinds / sizeof kinds[0] };
    struct lane     lanes[LANES];
    pthread_t       threads[LANES];
    manta_error     e;
    const char     *only = getenv("CHAOS_ONLY");
    manta_init_opts opts = {.address = argc > 1 ? argv[1] : NULL, .job_name = "chaos"};
    if (manta_init(&argc, &argv, &opts, &e) != MANTA_OK)
        return manta_perror(&e), 2;
    if (argc != 5)
        return fprintf(stderr, "usage: chaos_load ADDRESS LEDGER SECONDS SEED\n"), 2;
    load.ledger = argv[2];
    load.seed = strtoull(argv[4], NULL, 10);
    load.end_ns = chaos_now_ns() + strtoull(argv[3], NULL, 10) * 1000000000u;
    chaos_ledger_open(load.ledger);
    for (int i = 0; i < LANES; i++) {
        lanes[i] = (struct lane){.kind = kinds[i], .random = load.seed * 1000 + (uint64_t)i};
        if (only && !strchr(only, '0' + (int)kinds[i]))
            lanes[i].kind = 0;
        else if (pthread_create(&threads[i], NULL, lane_run, &lanes[i]) != 0)
            abort();
    }
    for (int i = 0; i < LANES; i++)
        if (lanes[i].kind)
            pthread_join(threads[i], NULL);
    manta_shutdown();
    return load.lost ? 1 : 0;
}
